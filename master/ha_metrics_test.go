package master

import (
	"net/http"
	"strings"
	"testing"

	"mooncake/wire"
)

// TestLeadershipChangesInflateNothing hands a pool from one master to another: what the next one says of stock is what the
// first one said, a standby says nothing of it, and the pages about calls and the log are there on both.
func TestLeadershipChangesInflateNothing(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	p := first.client(wire.V13)
	p.mount("pool", 1<<44, 64*mib)
	for _, key := range []string{"a", "b", "c"} {
		p.put(key, mib)
	}
	stock := []string{
		"master_key_count", "master_allocated_bytes", "master_total_capacity_bytes", "mem_cache_nums_", "mooncake_master_segments",
		`segment_allocated_bytes{segment="pool"}`, `segment_total_capacity_bytes{segment="pool"}`,
	}
	before, beside := first.series(), second.series()
	if before["master_key_count"] != "3" || before["ha_standby_state"] != "0" || before["ha_writer_accepting"] != "1" || before["ha_snapshot_enabled"] != "1" {
		t.Error(before["master_key_count"], before["ha_standby_state"], before["ha_writer_accepting"], before["ha_snapshot_enabled"])
	}
	for _, name := range stock {
		if strings.Contains(name, "{") && beside[name] != "" || !strings.Contains(name, "{") && beside[name] != "0" {
			t.Errorf("a standby has %s %s", name, beside[name])
		}
	}
	if beside["ha_standby_state"] != "3" || beside["ha_writer_accepting"] != "0" {
		t.Error(beside["ha_standby_state"], beside["ha_writer_accepting"])
	}
	for _, b := range []*bed{first, second} {
		for target, want := range map[string]int{"/debug/slow": http.StatusOK, "/livez": http.StatusOK, "/debug/pprof/": http.StatusNotFound} {
			if status, text, _ := adminGet(t, b, target); status != want {
				t.Errorf("%s: %d %s", target, status, text)
			}
		}
	}
	if status, _, _ := adminGet(t, second, "/api/v1/segments"); status != http.StatusServiceUnavailable {
		t.Errorf("a standby lists segments: %d", status)
	}
	waitFor(t, "a standby that could lead", func() bool {
		status, text, _ := adminGet(t, second, "/readyz?verbose")
		return status == http.StatusOK && strings.Contains(text, `"check":"log","ok":true`)
	})
	first.stop()
	second.awaitState("serving")
	after := second.series()
	for _, name := range stock {
		if after[name] != before[name] {
			t.Errorf("%s was %s and is %s", name, before[name], after[name])
		}
	}
	if after["ha_state_transitions_total"] != "1" || after["master_ha_terms_total"] != "1" {
		t.Errorf("%s changes, %s terms", after["ha_state_transitions_total"], after["master_ha_terms_total"])
	}
	if status, text, _ := adminGet(t, second, "/api/v1/objects"); status != http.StatusOK || strings.Count(text, `"key"`) != 3 {
		t.Errorf("objects of the next leader: %d %s", status, text)
	}
}
