package master

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"mooncake/wire"
)

// page fetches an admin page of a running master.
func (b *bed) page(path string) string {
	b.t.Helper()
	resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + path)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(text)
}

// series reads /metrics.
func (b *bed) series() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(b.page("/metrics")))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all
}

// TestPagesShowWhatCallsDid puts and reads an object and looks at the admin pages before and after.
func TestPagesShowWhatCallsDid(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		p.mount("node:1", 1<<44, mib)
		before := b.series()
		p.put("some/key\nwith a break", 1000)
		p.get("some/key\nwith a break")
		p.get("gone")
		after := b.series()
		for name, want := range map[string]string{
			"master_key_count":                               "1",
			"master_active_clients":                          "1",
			"master_allocated_bytes":                         "1000",
			"master_total_capacity_bytes":                    strconv.Itoa(mib),
			`segment_allocated_bytes{segment="node:1"}`:      "1000",
			`segment_total_capacity_bytes{segment="node:1"}`: strconv.Itoa(mib),
			"master_get_replica_list_requests_total":         "2",
			"master_get_replica_list_failures_total":         "1",
			"mem_cache_nums_":                                "1",
			"valid_get_nums_":                                "1",
			"total_get_nums_":                                "2",
		} {
			if after[name] != want {
				t.Errorf("%s is %q (before: %q), want %s", name, after[name], before[name], want)
			}
		}
		for _, name := range []string{"master_put_start_requests_total", "master_put_end_requests_total"} {
			was, _ := strconv.Atoi(before[name])
			is, _ := strconv.Atoi(after[name])
			expect(t, name, is, was+1)
		}
		expect(t, "keys page", b.page("/get_all_keys"), "some/key\\nwith a break\n")
		expect(t, "segments page", b.page("/get_all_segments"), "node:1\n")
		if health := b.page("/health"); !strings.Contains(health, `"status":"ok"`) {
			t.Error(health)
		}
		if summary := b.page("/metrics/summary"); summary == "" {
			t.Error("no summary")
		}
		if found := b.page("/query_key?key=some%2Fkey%0Awith%20a%20break"); !strings.Contains(found, "node:1") {
			t.Error(found)
		}
	})
}

// TestP34GoneSegmentsLeaveNoSeries mounts and unmounts 500 segments: the pages are as long as before.
func TestP34GoneSegmentsLeaveNoSeries(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V13)
	p.mount("first", 1<<44, mib)
	p.put("k", 1)
	p.unmount(p.mount("warm", 1<<45, mib).ID) // so that every kind of call has been counted once
	before := b.series()
	for i := range 500 {
		seg := p.mount("node:"+strconv.Itoa(i), uint64(i+1)<<32, mib)
		if i%100 == 0 && len(b.series()) <= len(before) {
			t.Error("a mounted segment has no series")
		}
		expect(t, "unmount", p.unmount(seg.ID), 0)
	}
	after := b.series()
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("series left behind: %s", name)
		}
	}
	expect(t, "number of series", len(after), len(before))
}
