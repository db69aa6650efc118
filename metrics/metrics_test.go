package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

type fakeSource struct {
	stats     Stats
	segments  []Segment
	bundles   Bundles
	workloads []Workload
	tenants   Tenants
}

func (f *fakeSource) BundleFigures() Bundles      { return f.bundles }
func (f *fakeSource) WorkloadFigures() []Workload { return f.workloads }
func (f *fakeSource) TenantFigures() Tenants      { return f.tenants }

func (f *fakeSource) Stats() Stats        { return f.stats }
func (f *fakeSource) Segments() []Segment { return f.segments }

func render(t *testing.T, r *Registry) string {
	t.Helper()
	var b strings.Builder
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// samples returns every sample line as name (with labels) and value.
func samples(t *testing.T, text string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 {
			t.Fatalf("no sample: %q", line)
		}
		if _, twice := out[line[:i]]; twice {
			t.Fatalf("%s printed twice", line[:i])
		}
		out[line[:i]] = line[i+1:]
	}
	return out
}

// types returns the TYPE lines.
func types(text string) map[string]string {
	out := map[string]string{}
	scan := bufio.NewScanner(strings.NewReader(text))
	for scan.Scan() {
		if f := strings.Fields(scan.Text()); len(f) == 4 && f[1] == "TYPE" {
			out[f[2]] = f[3]
		}
	}
	return out
}

func TestFigures(t *testing.T) {
	src := &fakeSource{
		stats: Stats{
			Keys: 5, OpenKeys: 1, SoftPinnedKeys: 2, Segments: 3, ActiveClients: 4,
			CapacityBytes: 67108864, AllocatedBytes: 15000, QuarantinedBytes: 10, CatalogBytes: 1 << 40,
			EvictionAttempts: 15, EvictionSuccesses: 14, EvictedKeys: 59, EvictedBytes: 123731968,
			DiscardedPuts: 3, ReleasedPuts: 2, PutStartAllocFailures: 7, PutStartPartialAllocs: 8, ExpiredClients: 9,
			ClientsActive: 21, ClientsSuspect: 2, ClientsSuspected: 3, ClientsLost: 4, SuspectedClients: 31, LostClients: 32, RecoveredClients: 37,
			LostKeys: 33, LostBytes: 34, HandOutReuses: 35, AbortedPuts: 36,
			Refusals: []Refusal{{"leased", 41}, {"pinned", 42}},
		},
		segments: []Segment{{"127.0.0.1:1", 100, 1000, 1}, {"b\"\\\n\xff", 3, 4, 2}, {"127.0.0.1:1", 11, 22, 3}},
	}
	calls := NewCalls()
	for range 3 {
		calls.Count("PutStart", false)
	}
	calls.Count("PutStart", true)
	calls.Count("MarkTaskToComplete", true)
	calls.Count("ServiceReady", false)
	calls.CountBatch("BatchPutEnd", 4, 0)
	calls.CountBatch("BatchPutEnd", 4, 1)
	calls.CountBatch("BatchPutEnd", 4, 4)
	calls.CountBatch("BatchPutEnd", 0, 0)
	calls.CountLookup(true, false, 1000)
	calls.CountLookup(true, false, 500)
	calls.CountLookup(false, false, 0)
	for _, n := range []uint64{1, 4096, 4097, 1 << 20, 1<<26 + 1} {
		calls.ObserveValue(n)
	}
	got := samples(t, render(t, NewRegistry(src, calls, Build{"2.0.0", "1.0 (go)"})))
	for name, want := range map[string]string{
		"master_allocated_bytes": "15000", "master_total_capacity_bytes": "67108864", "master_key_count": "5",
		"master_soft_pin_key_count": "2", "master_active_clients": "4", "master_put_start_alloc_failures_total": "7",
		"master_put_start_partial_allocations_total": "8", "master_put_start_discard_cnt": "3",
		"master_put_start_release_cnt": "2", "master_put_start_discarded_staging_size": "10",
		"master_attempted_evictions_total": "15", "master_successful_evictions_total": "14",
		"master_evicted_key_count": "59", "master_evicted_size_bytes": "123731968", "mem_cache_nums_": "6",
		"total_get_nums_": "3", "valid_get_nums_": "2", "mem_cache_hit_nums_": "2", "mem_cache_hit_bytes_total": "1500",
		"mooncake_master_segments": "3", "mooncake_master_open_keys": "1", "mooncake_master_catalog_bytes": "1099511627776",
		"master_client_liveness_active_clients": "21", "master_client_liveness_suspected_clients": "3",
		"master_client_liveness_offline_clients": "4", "master_client_liveness_suspected_transitions_total": "31",
		"master_client_liveness_offline_transitions_total": "32", "master_client_liveness_recoveries_total": "37",
		"mooncake_go_clients_active": "19", "mooncake_go_clients_suspect": "2", "mooncake_go_clients_suspected": "3",
		"mooncake_go_clients_lost": "4", "mooncake_go_lost_keys": "33", "mooncake_go_lost_bytes": "34",
		"mooncake_go_quarantined_bytes": "10", "mooncake_go_hand_out_reuses_total": "35", "mooncake_go_aborted_puts_total": "36",
		`mooncake_go_put_refusals_total{reason="leased"}`: "41", `mooncake_go_put_refusals_total{reason="pinned"}`: "42",
		"mooncake_master_expired_clients_total":                           "9",
		`segment_allocated_bytes{segment="127.0.0.1:1"}`:                  "111",
		`segment_total_capacity_bytes{segment="127.0.0.1:1"}`:             "1022",
		"segment_allocated_bytes{segment=\"b\\\"\\\\\\n\uFFFD\"}":         "3",
		"master_put_start_requests_total":                                 "4",
		"master_put_start_failures_total":                                 "1",
		"master_update_task_failures_total":                               "1",
		"master_batch_put_end_requests_total":                             "4",
		"master_batch_put_end_failures_total":                             "1",
		"master_batch_put_end_partial_successes_total":                    "1",
		"master_batch_put_end_items_total":                                "12",
		"master_batch_put_end_failed_items_total":                         "5",
		`mooncake_master_other_calls_total{call="ServiceReady"}`:          "1",
		`master_value_size_bytes_bucket{le="4096.000000"}`:                "2",
		`master_value_size_bytes_bucket{le="65536.000000"}`:               "3",
		`master_value_size_bytes_bucket{le="262144.000000"}`:              "3",
		`master_value_size_bytes_bucket{le="1048576.000000"}`:             "4",
		`master_value_size_bytes_bucket{le="67108864.000000"}`:            "4",
		`master_value_size_bytes_bucket{le="+Inf"}`:                       "5",
		"master_value_size_bytes_count":                                   "5",
		"master_value_size_bytes_sum":                                     fmt.Sprint(1 + 4096 + 4097 + 1<<20 + 1<<26 + 1),
		`mooncake_build_info{display_version="1.0 (go)",version="2.0.0"}`: "1",
		"master_remount_segment_requests_total":                           "0",
		"master_get_replica_list_by_regex_failures_total":                 "0",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %s", name, got[name], want)
		}
	}
	if runtime.GOOS == "linux" && (got["mooncake_process_rss_bytes"] == "" || got["mooncake_process_rss_bytes"] == "0") {
		t.Error("no resident memory")
	}
	if n := calls.Read("BatchPutEnd"); n != (CallCounts{Requests: 4, Failures: 1, Partial: 1, Items: 12, FailedItems: 5}) {
		t.Errorf("Read: %+v", n)
	}
	if calls.Read("ServiceReady").Requests != 1 || calls.Read("never") != (CallCounts{}) {
		t.Error("Read of other names")
	}
}

// notOurs are the series of the published masters that have no samples here: those of tenants where none are told apart, and
// those with labels that nothing moves.
var notOurs = regexp.MustCompile(`^(master_weight_revision|ha_snapshot_(skip|operations|errors|duration)|mooncake_tenant_)`)

// TestNamesOfThePublishedMasters compares names, types and sample forms with recorded scrapes.
func TestNamesOfThePublishedMasters(t *testing.T) {
	src := &fakeSource{segments: []Segment{{"127.0.0.1:51363", 15000, 67108864, 5}, {"127.0.0.1:49999", 1, 2, 1}}}
	text := render(t, NewRegistry(src, NewCalls(), Build{"2.0.0", "x"}))
	ourTypes, ourSamples := types(text), samples(t, text)
	label := regexp.MustCompile(`(segment|version|display_version)="[^"]*"`)
	forms := map[string]bool{}
	for name := range ourSamples {
		forms[label.ReplaceAllString(name, `$1=""`)] = true
	}
	for _, release := range []string{"12", "13", "14"} {
		file, err := os.ReadFile("testdata/metrics_" + release + ".http")
		if err != nil {
			t.Fatal(err)
		}
		_, body, ok := strings.Cut(strings.ReplaceAll(string(file), "\r\n", "\n"), "\n\n")
		if !ok {
			t.Fatal("no body")
		}
		theirTypes := types(body)
		if len(theirTypes) < 100 {
			t.Fatalf("%s: only %d series read", release, len(theirTypes))
		}
		for name, kind := range theirTypes {
			switch ours := ourTypes[name]; {
			case ours == "" && !notOurs.MatchString(name):
				t.Errorf("%s: %s is missing", release, name)
			case ours != "" && ours != kind:
				t.Errorf("%s: %s is a %s, ours a %s", release, name, kind, ours)
			}
		}
		for name := range samples(t, body) {
			if !notOurs.MatchString(name) && !forms[label.ReplaceAllString(name, `$1=""`)] {
				t.Errorf("%s: no sample of ours looks like %s", release, name)
			}
		}
	}
}

func TestGoneSegmentLeavesNothing(t *testing.T) {
	src := &fakeSource{}
	r := NewRegistry(src, NewCalls(), Build{})
	stable := func() []string {
		var names []string
		for name := range samples(t, render(t, r)) {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	before := stable()
	for i := range 500 {
		src.segments = append(src.segments, Segment{Name: fmt.Sprintf("127.0.0.1:%d", i)})
	}
	if n := len(stable()); n != len(before)+1000 {
		t.Fatalf("%d series with 500 segments, %d without", n, len(before))
	}
	src.segments = nil
	if after := stable(); !slices.Equal(before, after) {
		t.Fatalf("series changed: %v, before %v", after, before)
	}
}

func TestWholeNumbers(t *testing.T) {
	number := regexp.MustCompile(`^[0-9]+$`)
	src := &fakeSource{stats: Stats{CapacityBytes: 1<<53 - 1, AllocatedBytes: 1 << 62, Keys: 100000000}}
	for name, v := range samples(t, render(t, NewRegistry(src, NewCalls(), Build{}))) {
		if !number.MatchString(v) && !strings.HasPrefix(name, "mooncake_go_") {
			t.Errorf("%s %s", name, v)
		}
	}
	for v, want := range map[float64]string{0: "0", -3: "-3", 0.5: "0.5", 1e30: "1e+30"} {
		if got := valueText(v); got != want {
			t.Errorf("valueText(%g) = %s, want %s", v, got, want)
		}
	}
}

// TestAnySegmentName shows that no name a client can mount spoils a scrape: every sample stays one line.
func TestAnySegmentName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOf(rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "names")
		src := &fakeSource{}
		distinct := map[string]bool{}
		for _, n := range names {
			src.segments = append(src.segments, Segment{Name: n, AllocatedBytes: 1})
			distinct[labelText(n)] = true
		}
		var b strings.Builder
		if err := NewRegistry(src, NewCalls(), Build{}).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.SplitSeq(b.String(), "\n") {
			if strings.HasPrefix(line, "segment_allocated_bytes{segment=\"") {
				lines++
			}
		}
		if lines != len(distinct) {
			t.Fatalf("%d lines for %d names", lines, len(distinct))
		}
	})
}

func TestOtherCallsAreBounded(t *testing.T) {
	c := NewCalls()
	for i := range 1000 {
		c.Count(fmt.Sprint("call", i), true)
	}
	others := c.otherCalls()
	if len(others) != 129 {
		t.Fatalf("%d names kept", len(others))
	}
	if c.Read("other").Requests != 1000-128 || c.Read("call0").Failures != 1 {
		t.Fatal("calls lost")
	}
}

func TestConcurrentCounting(t *testing.T) {
	c := NewCalls()
	r := NewRegistry(&fakeSource{}, c, Build{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				c.Count("ExistKey", i%2 == 0)
				c.Count("ServiceReady", false)
				c.CountBatch("BatchPutEnd", 3, i%4)
				c.CountLookup(true, false, 1)
				c.ObserveValue(uint64(i))
			}
		})
	}
	for range 10 {
		if err := r.WriteText(io.Discard); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if c.Read("ExistKey") != (CallCounts{Requests: 4000, Failures: 2000}) || c.Read("ServiceReady").Requests != 4000 {
		t.Fatal("calls lost")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWriteError(t *testing.T) {
	if err := NewRegistry(&fakeSource{}, NewCalls(), Build{}).WriteText(brokenWriter{}); err == nil {
		t.Fatal("no error")
	}
}

func TestProcessMemory(t *testing.T) {
	got := parseProcessMemory([]byte("Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t 10 kB\nRssAnon:\tjunk\nVmSwap:\t0 kB\nVmSize: 99999999999999999999 kB\n"))
	if got != (processMemory{rss: 10 << 10, rssPeak: 20 << 10}) {
		t.Fatalf("%+v", got)
	}
}

func BenchmarkCount(b *testing.B) {
	c := NewCalls()
	b.ReportAllocs()
	for b.Loop() {
		c.Count("GetReplicaList", false)
	}
}

func BenchmarkCountLookup(b *testing.B) {
	c := NewCalls()
	b.ReportAllocs()
	for b.Loop() {
		c.CountLookup(true, false, 1000)
	}
}

func BenchmarkScrape(b *testing.B) {
	src := &fakeSource{}
	for i := range 100 {
		src.segments = append(src.segments, Segment{Name: fmt.Sprint(i)})
	}
	r := NewRegistry(src, NewCalls(), Build{})
	b.ReportAllocs()
	for b.Loop() {
		if err := r.WriteText(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
