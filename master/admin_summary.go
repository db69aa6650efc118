package master

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/units"
	"mooncake/metrics"
)

// summary makes the one-line text that operators read in the log and at /metrics/summary: what is stored, and the rates
// of remote calls since a moment at least SummaryWindowMs ago (or since the start). Its lock is a leaf.
type summary struct {
	source AdminSource
	calls  *metrics.Calls

	mu   sync.Mutex
	base reading // rates are taken from here
	next reading // becomes the base when it is old enough
}

// reading is the state of all call counters at one moment.
type reading struct {
	at    time.Time
	calls map[string]metrics.CallCounts
}

// Names of the summary and of the calls behind them, in the order of the published masters.
var (
	summaryCalls = [][2]string{
		{"PutStart", "PutStart"},
		{"PutEnd", "PutEnd"},
		{"PutRevoke", "PutRevoke"},
		{"Get", "GetReplicaList"},
		{"Exist", "ExistKey"},
		{"Del", "Remove"},
		{"DelAll", "RemoveAll"},
		{"Ping", "Ping"},
		{"CopyStart", "CopyStart"},
		{"CopyEnd", "CopyEnd"},
		{"CopyRevoke", "CopyRevoke"},
		{"MoveStart", "MoveStart"},
		{"MoveEnd", "MoveEnd"},
		{"MoveRevoke", "MoveRevoke"},
		{"EvictDiskReplica", "EvictDiskReplica"},
	}
	summaryBatches = [][2]string{
		{"PutStart", "BatchPutStart"},
		{"PutEnd", "BatchPutEnd"},
		{"PutRevoke", "BatchPutRevoke"},
		{"Get", "BatchGetReplicaList"},
		{"ExistKey", "BatchExistKey"},
		{"QueryIp", "BatchQueryIp"},
		{"Clear", "BatchReplicaClear"},
	}
	summaryTasks = [][2]string{
		{"CreateMoveTask", "CreateMoveTask"},
		{"CreateCopyTask", "CreateCopyTask"},
		{"QueryTask", "QueryTask"},
		{"FetchTasks", "FetchTasks"},
		{"MarkTaskToComplete", "MarkTaskToComplete"},
	}
)

func newSummary(source AdminSource, calls *metrics.Calls, now time.Time) *summary {
	s := &summary{source: source, calls: calls}
	s.base = s.read(now)
	s.next = s.base
	return s
}

func (s *summary) read(now time.Time) reading {
	r := reading{now, make(map[string]metrics.CallCounts, len(summaryCalls)+len(summaryBatches)+len(summaryTasks))}
	for _, list := range [...][][2]string{summaryCalls, summaryBatches, summaryTasks} {
		for _, c := range list {
			r.calls[c[1]] = s.calls.Read(c[1])
		}
	}
	return r
}

// window returns the counters' growth since the base and the length of that time.
func (s *summary) window(now time.Time) (grown map[string]metrics.CallCounts, seconds float64) {
	r := s.read(now)
	s.mu.Lock()
	base := s.base
	if now.Sub(s.next.at) >= limits.SummaryWindowMs*time.Millisecond {
		s.base, s.next = s.next, r
	}
	s.mu.Unlock()
	grown = make(map[string]metrics.CallCounts, len(r.calls))
	for name, c := range r.calls {
		b := base.calls[name]
		grown[name] = metrics.CallCounts{
			Requests: c.Requests - b.Requests, Failures: c.Failures - b.Failures, Partial: c.Partial - b.Partial,
			Items: c.Items - b.Items, FailedItems: c.FailedItems - b.FailedItems,
		}
	}
	return grown, max(now.Sub(base.at).Seconds(), 0.001)
}

// text renders the summary: the parts that any of the three releases has, in their order.
func (s *summary) text(now time.Time) string {
	st, standing := s.source.Stats(), s.source.Standing()

	var b strings.Builder
	fmt.Fprintf(&b, "role=%s, state=%s, service_ready=%t, master={", standing.Role, standing.State, standing.Ready)
	fmt.Fprintf(&b, "Mem Storage: %s / %s", units.FormatSize(st.AllocatedBytes), units.FormatSize(st.CapacityBytes))
	if st.CapacityBytes > 0 {
		fmt.Fprintf(&b, " (%.1f%%)", float64(st.AllocatedBytes)/float64(st.CapacityBytes)*100)
	}
	fmt.Fprintf(&b, " | NVMe-oF SSD: 0 B / 0 B | SSD Storage: %s / %s", units.FormatSize(st.DiskBytes), units.FormatSize(st.DiskCapacityBytes))
	if st.DiskBytes > 0 && st.DiskCapacityBytes > 0 {
		fmt.Fprintf(&b, " (%.1f%%)", float64(st.DiskBytes)/float64(st.DiskCapacityBytes)*100)
	}
	fmt.Fprintf(&b, " | Keys: %d (soft-pinned: %d) | Clients: %d", st.Keys, st.SoftPinnedKeys, st.ActiveClients)

	s.writeRates(&b, now)
	writeOutcomes(&b, &st)
	if standing.LeaderAddress != "" {
		fmt.Fprintf(&b, ", leader=%s, view_version=%d", standing.LeaderAddress, standing.ViewVersion)
	}
	return b.String()
}

// writeRates tells how often calls came since the base, and how often they succeeded.
func (s *summary) writeRates(b *strings.Builder, now time.Time) {
	grown, seconds := s.window(now)
	rate := func(n uint64) float64 { return float64(n) / seconds }
	// A call's outcome is counted a moment after the call, so a window may see more failures than calls.
	good := func(all uint64, bad ...uint64) float64 {
		for _, n := range bad {
			all -= min(all, n)
		}
		return rate(all)
	}

	sep := " | Requests (Success/Total per sec): "
	for _, c := range summaryCalls {
		g := grown[c[1]]
		fmt.Fprintf(b, "%s%s=%.2f/%.2f", sep, c[0], good(g.Requests, g.Failures), rate(g.Requests))
		sep = ", "
	}
	sep = " | Batch Requests (per sec, Req=Success/PartialSuccess/Total, Item=Success/Total): "
	for _, c := range summaryBatches {
		g := grown[c[1]]
		fmt.Fprintf(b, "%s%s:(Req=%.2f/%.2f/%.2f, Item=%.2f/%.2f)", sep, c[0],
			good(g.Requests, g.Failures, g.Partial), rate(g.Partial), rate(g.Requests), good(g.Items, g.FailedItems), rate(g.Items))
		sep = ", "
	}
	for _, c := range summaryTasks {
		g := grown[c[1]]
		fmt.Fprintf(b, ", %s:(Req=%.2f/%.2f)", c[0], good(g.Requests, g.Failures), rate(g.Requests))
	}
}

// writeOutcomes tells what became of what was stored.
func writeOutcomes(b *strings.Builder, st *metrics.Stats) {
	evicted := fmt.Sprintf("keys=%d, size=%s", st.EvictedKeys, units.FormatSize(st.EvictedBytes))
	rounds := fmt.Sprintf("Success/Attempts=%d/%d", st.EvictionSuccesses, st.EvictionAttempts)
	fmt.Fprintf(b, " | Eviction: %s, AllocFail=%d, PartialAlloc=%d, %s", rounds, st.PutStartAllocFailures, st.PutStartPartialAllocs, evicted)
	fmt.Fprintf(b, " | Mem Eviction: %s, %s | NoF Eviction: Success/Attempts=0/0, keys=0, size=0 B", rounds, evicted)
	fmt.Fprintf(b, " | Discard: Released/Total=%d/%d, StagingSize=%s", st.ReleasedPuts, st.DiscardedPuts, units.FormatSize(st.QuarantinedBytes))
	p := &st.Promotions
	fmt.Fprintf(b, " | Promotion: in_flight=%d, admitted=%d, completed=%d, failed=%d, cancelled=%d, expired=%d, bytes=%s, rejected(freq/wm/cap)=%d/%d/%d",
		st.Promoting, p.Admitted, p.Completed, p.Failed, p.Cancelled, p.Expired, units.FormatSize(p.CompletedBytes), p.RejectedFrequency, p.RejectedWatermark, p.RejectedCap)
	fmt.Fprintf(b, " | Snapshots: Success=%d, Fail=%d}", st.Snapshots.Made, st.Snapshots.Failed)
	ha := st.HA
	if ha == nil {
		ha = &metrics.HA{}
	}
	state := 0
	if ha.Following {
		state = 3
	}
	fmt.Fprintf(b, ", ha={HA Metrics Summary: last_seq=%d, applied_seq=%d, lag=%d, pending=0, mutation_queue=%d, batch_commits=0, sync_commits=0, "+
		"skipped=%d, checksum_fail=%d, etcd_fail=0, watch_disconn=0, state=%d, writer_accepting=%t, writer_retry_count=0, writer_retry_delay_ms=0, "+
		"writer_waiting_slots=0, writer_committed_queue=%d, writer_callback_queue=0, writer_durable_batch=0, writer_durable_seq=%d, writer_last_error=0}",
		ha.Newest, ha.Applied, ha.Newest-min(ha.Applied, ha.Newest), ha.Unacked, ha.LostRecords, ha.DamagedValues, state, ha.Leader && !ha.NoSpace, ha.Unacked, ha.Newest)
}
