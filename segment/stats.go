package segment

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"mooncake/internal/units"
	"mooncake/metrics"
	"mooncake/tcp"
)

// counters are what the daemon itself counts; the ports count for themselves.
type counters struct {
	pings, pingsFailed       atomic.Uint64
	pingsWithheld            atomic.Uint64
	remounts, remountsFailed atomic.Uint64
	tasksDone, tasksFailed   atomic.Uint64
	taskBytes                atomic.Uint64
	taskOverTCP              atomic.Uint64
	sumBytes                 atomic.Uint64
	copiesVerified           atomic.Uint64
	copiesWrong              atomic.Uint64
	copiesUnread             atomic.Uint64

	pingedAt atomic.Int64 // when the last ping was answered, or was not, in ms since 1970; 0: never
	pingedOK atomic.Bool
}

// pinged notes the outcome of a ping.
func (c *counters) pinged(answered bool) {
	if answered {
		c.pings.Add(1)
	} else {
		c.pingsFailed.Add(1)
	}
	c.pingedOK.Store(answered)
	c.pingedAt.Store(time.Now().UnixMilli())
}

// series is one line of /metrics.
type series struct {
	name, kind, help string
	value            func(s *snapshot) uint64
}

// snapshot is everything the series are taken from, at one moment.
type snapshot struct {
	d         *Daemon
	data      tcp.Stats
	handshake uint64
	healthy   bool
}

var allSeries = []series{
	{"capacity_bytes", "gauge", "Bytes this daemon gives to the pool", func(s *snapshot) uint64 { return s.d.total() }},
	{"healthy", "gauge", "1 while the segment is in the pool and the master answers", func(s *snapshot) uint64 {
		if s.healthy {
			return 1
		}
		return 0
	}},
	{"read_bytes_total", "counter", "Bytes that peers have read from the segment", func(s *snapshot) uint64 { return s.data.ReadBytes }},
	{"written_bytes_total", "counter", "Bytes that peers have written into the segment", func(s *snapshot) uint64 { return s.data.WriteBytes }},
	{"reads_total", "counter", "Reads served", func(s *snapshot) uint64 { return s.data.Reads }},
	{"writes_total", "counter", "Writes taken", func(s *snapshot) uint64 { return s.data.Writes }},
	{"refused_total", "counter", "Requests refused because their range lies outside the segment", func(s *snapshot) uint64 { return s.data.Refused }},
	{"data_connections", "gauge", "Open data connections", func(s *snapshot) uint64 { return uint64(s.data.Active) }},
	{"data_connections_total", "counter", "Data connections ever accepted", func(s *snapshot) uint64 { return s.data.Accepted }},
	{"data_connections_refused_total", "counter", "Data connections closed at once because there were too many", func(s *snapshot) uint64 { return s.data.TurnedAway }},
	{"stalled_total", "counter", "Data connections dropped because a request stood still", func(s *snapshot) uint64 { return s.data.Stalled }},
	{"broken_total", "counter", "Data connections whose peer went away inside a request", func(s *snapshot) uint64 { return s.data.Broken }},
	{"handshakes_total", "counter", "Requests answered on the handshake port", func(s *snapshot) uint64 { return s.handshake }},
	{"pings_total", "counter", "Pings that the master answered", func(s *snapshot) uint64 { return s.d.count.pings.Load() }},
	{"pings_failed_total", "counter", "Pings without an answer", func(s *snapshot) uint64 { return s.d.count.pingsFailed.Load() }},
	{"pings_withheld_total", "counter", "Pings not sent because no RDMA device carried traffic", func(s *snapshot) uint64 { return s.d.count.pingsWithheld.Load() }},
	{"master_changes_total", "counter", "Times that another master was found to lead", func(s *snapshot) uint64 { return s.d.leader.changed() }},
	{"remounts_total", "counter", "Times the master asked for the segment again and took it", func(s *snapshot) uint64 { return s.d.count.remounts.Load() }},
	{"remounts_failed_total", "counter", "Times the master asked for the segment again and it could not be given", func(s *snapshot) uint64 { return s.d.count.remountsFailed.Load() }},
	{"tasks_total", "counter", "Copy and move tasks carried out", func(s *snapshot) uint64 { return s.d.count.tasksDone.Load() }},
	{"tasks_failed_total", "counter", "Copy and move tasks that failed", func(s *snapshot) uint64 { return s.d.count.tasksFailed.Load() }},
	{"summed_bytes_total", "counter", "Bytes of which the sum was found", func(s *snapshot) uint64 { return s.d.count.sumBytes.Load() }},
	{"copies_verified_total", "counter", "Copies that were read back and had the sum of their source", func(s *snapshot) uint64 { return s.d.count.copiesVerified.Load() }},
	{"copies_wrong_total", "counter", "Copies that failed because source or target had the wrong sum", func(s *snapshot) uint64 { return s.d.count.copiesWrong.Load() }},
	{"copies_unread_total", "counter", "Copies that were not read back because their holder does not serve tcp", func(s *snapshot) uint64 { return s.d.count.copiesUnread.Load() }},
	{"task_bytes_total", "counter", "Bytes written to other segments by tasks", func(s *snapshot) uint64 { return s.d.count.taskBytes.Load() }},
	{"task_writes_over_tcp_total", "counter", "Writes of tasks that failed over RDMA and were done over tcp", func(s *snapshot) uint64 { return s.d.count.taskOverTCP.Load() }},
	{"drain_left", "gauge", "Copies still on the segment while the daemon leaves", func(s *snapshot) uint64 {
		p, _, _ := s.d.drained.get()
		return p.Left
	}},
	{"drain_moved_total", "counter", "Copies moved off the segment since the daemon began to leave", func(s *snapshot) uint64 {
		p, _, _ := s.d.drained.get()
		return p.Moved
	}},
	{"tasks_queued", "gauge", "Tasks that wait for a worker", func(s *snapshot) uint64 { return uint64(len(s.d.taskQueue)) }},
}

// seriesPrefix begins the names of all series of our own making.
const seriesPrefix = "mooncake_go_segment_"

func (d *Daemon) snapshot() *snapshot {
	_, code := d.health.status()
	s := &snapshot{d: d, data: d.data.Stats(), healthy: code == 0}
	for _, n := range d.handshake.Stats().Answered {
		s.handshake += n
	}
	return s
}

// metricsText is the body of /metrics: the series of the published clients, and then those of our own.
func (d *Daemon) metricsText() (string, error) {
	snap := d.snapshot()
	var b strings.Builder
	figures := metrics.Client{
		Calls: d.times.list(), WrittenBytes: d.count.taskBytes.Load(), HeartbeatOK: d.count.pingedOK.Load(),
		Build: metrics.Build{Version: protocolVersion, Display: d.cfg.Version},
	}
	if ms := d.count.pingedAt.Load(); ms > 0 {
		figures.HeartbeatAt = time.UnixMilli(ms)
	}
	if err := metrics.WriteClient(&b, &figures); err != nil {
		return "", err
	}
	for _, s := range append(allSeries[:len(allSeries):len(allSeries)], memorySeries...) {
		name := seriesPrefix + s.name
		b.WriteString("# HELP " + name + " " + s.help + "\n# TYPE " + name + " " + s.kind + "\n" + name + " ")
		b.WriteString(strconv.FormatUint(s.value(snap), 10))
		b.WriteByte('\n')
	}
	if d.rails != nil {
		writeRails(&b, d.rails.fabric.stats())
	}
	return b.String(), nil
}

// metricsSummary is the body of /metrics/summary, for people.
func (d *Daemon) metricsSummary() string {
	s := d.snapshot()
	word, _ := d.health.status()
	var b strings.Builder
	fmt.Fprintf(&b, "Segment %s at %s: %s\n", d.state.Name, d.state.Endpoint, word)
	fmt.Fprintf(&b, "Capacity: %s\n", units.FormatSize(d.total()))
	fmt.Fprintf(&b, "Read: %s in %d requests\n", units.FormatSize(s.data.ReadBytes), s.data.Reads)
	fmt.Fprintf(&b, "Written: %s in %d requests\n", units.FormatSize(s.data.WriteBytes), s.data.Writes)
	fmt.Fprintf(&b, "Refused: %d\n", s.data.Refused)
	fmt.Fprintf(&b, "Data connections: %d open, %d accepted\n", s.data.Active, s.data.Accepted)
	fmt.Fprintf(&b, "Handshakes: %d\n", s.handshake)
	fmt.Fprintf(&b, "Pings: %d answered, %d not\n", d.count.pings.Load(), d.count.pingsFailed.Load())
	if addr, _, err := d.leader.now(); err == nil {
		fmt.Fprintf(&b, "Master: %s, changed %d times\n", addr, d.leader.changed())
	} else {
		fmt.Fprintf(&b, "Master: %v\n", err)
	}
	fmt.Fprintf(&b, "Remounts: %d done, %d failed\n", d.count.remounts.Load(), d.count.remountsFailed.Load())
	fmt.Fprintf(&b, "Tasks: %d done, %d failed, %d waiting, %s written\n", d.count.tasksDone.Load(), d.count.tasksFailed.Load(),
		len(d.taskQueue), units.FormatSize(d.count.taskBytes.Load()))
	if d.rails != nil {
		railsSummary(&b, d.rails.fabric.stats())
	}
	return b.String()
}
