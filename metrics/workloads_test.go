package metrics

import (
	"strings"
	"testing"
)

// withBundles has something to say in every series of bundles and workloads.
func withBundles() *fakeSource {
	var times BundleTimes
	for _, ms := range []uint64{10, 11, 3_600_001} {
		times.Publish.Observe(ms)
	}
	times.Handoff.Observe(0)
	times.Workload = "rollout"
	return &fakeSource{
		bundles: Bundles{
			States:     []BundleState{{"", "STAGING", 1, 2}, {"", "PUBLISHED", 3, 4}},
			ByWorkload: []BundleState{{"rollout", "STAGING", 41, 42}, {"", "READING", 43, 44}},
			Orphans:    5, CollectedBytes: 6, EvictedUnread: 7, Published: 8, Retired: 9, LateWrites: 10, Verified: 51, Missed: 52, Unseen: 53, Times: []BundleTimes{times, {}},
		},
		workloads: []Workload{
			{
				Name: "rollout", SoftBytes: 11, HardBytes: 12, ReservedBytes: 13, Keys: 14, Bytes: 15, EvictedKeys: 16, EvictedBytes: 17,
				EvictedUnreadKeys: 18, ExpiredKeys: 19, ExpiredBytes: 20, Refusals: []Refusal{{"quota", 21}, {"reserved", 22}},
				EvictedFor: []EvictedFor{{"", 23}, {Watermark, 24}, {"kv", 25}},
			},
			{Bytes: 31},
		},
	}
}

func TestBundleFigures(t *testing.T) {
	text := render(t, NewRegistry(withBundles(), NewCalls(), Build{}))
	got := samples(t, text)
	for name, want := range map[string]string{
		`master_bundles{state="STAGING"}`:          "1",
		`master_bundle_bytes{state="STAGING"}`:     "2",
		`master_bundles{state="PUBLISHED"}`:        "3",
		`master_bundle_bytes{state="PUBLISHED"}`:   "4",
		"master_bundle_orphans_total":              "5",
		"master_bundle_gc_bytes_total":             "6",
		"mooncake_go_bundles_evicted_unread_total": "7",
		"mooncake_go_bundles_published_total":      "8",
		"mooncake_go_bundles_retired_total":        "9",
		"mooncake_go_bundle_late_writes_total":     "10",
		"mooncake_go_manifests_verified_total":     "51",
		"mooncake_go_manifests_damaged_total":      "52",
		"mooncake_go_manifests_unseen_total":       "53",

		`mooncake_go_workload_bundles{state="STAGING",workload="rollout"}`:      "41",
		`mooncake_go_workload_bundle_bytes{state="STAGING",workload="rollout"}`: "42",
		`mooncake_go_workload_bundles{state="READING",workload="none"}`:         "43",
		`mooncake_go_workload_bundle_bytes{state="READING",workload="none"}`:    "44",

		`master_bundle_publish_seconds_bucket{workload="rollout",le="0.010000"}`:    "1",
		`master_bundle_publish_seconds_bucket{workload="rollout",le="0.050000"}`:    "2",
		`master_bundle_publish_seconds_bucket{workload="rollout",le="3600.000000"}`: "2",
		`master_bundle_publish_seconds_bucket{workload="rollout",le="+Inf"}`:        "3",
		`master_bundle_publish_seconds_count{workload="rollout"}`:                   "3",
		`master_bundle_publish_seconds_sum{workload="rollout"}`:                     "3600.022",
		`master_bundle_handoff_seconds_bucket{workload="rollout",le="0.010000"}`:    "1",
		`master_bundle_handoff_seconds_count{workload="none"}`:                      "0",

		`mooncake_go_workload_soft_bytes{workload="rollout"}`:                              "11",
		`mooncake_go_workload_hard_bytes{workload="rollout"}`:                              "12",
		`mooncake_go_workload_reserved_bytes{workload="rollout"}`:                          "13",
		`mooncake_go_workload_keys{workload="rollout"}`:                                    "14",
		`mooncake_go_workload_bytes{workload="rollout"}`:                                   "15",
		`mooncake_go_workload_evicted_keys_total{workload="rollout"}`:                      "16",
		`mooncake_go_workload_evicted_bytes_total{workload="rollout"}`:                     "17",
		`mooncake_go_workload_evicted_unread_keys_total{workload="rollout"}`:               "18",
		`mooncake_go_workload_expired_keys_total{workload="rollout"}`:                      "19",
		`mooncake_go_workload_expired_bytes_total{workload="rollout"}`:                     "20",
		`mooncake_go_workload_put_refusals_total{reason="quota",workload="rollout"}`:       "21",
		`mooncake_go_workload_put_refusals_total{reason="reserved",workload="rollout"}`:    "22",
		`mooncake_go_workload_evicted_for_bytes_total{for="none",workload="rollout"}`:      "23",
		`mooncake_go_workload_evicted_for_bytes_total{for="watermark",workload="rollout"}`: "24",
		`mooncake_go_workload_evicted_for_bytes_total{for="kv",workload="rollout"}`:        "25",
		`mooncake_go_workload_bytes{workload="none"}`:                                      "31",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	kinds := types(text)
	for name, want := range map[string]string{
		"master_bundles": "gauge", "master_bundle_orphans_total": "counter", "master_bundle_publish_seconds": "histogram",
		"mooncake_go_workload_bytes": "gauge", "mooncake_go_workload_put_refusals_total": "counter",
	} {
		if kinds[name] != want {
			t.Errorf("%s is a %s, want %s", name, kinds[name], want)
		}
	}
}

// TestNoBundlesNoLabels leaves out the series that would say nothing.
func TestNoBundlesNoLabels(t *testing.T) {
	text := render(t, NewRegistry(&fakeSource{}, NewCalls(), Build{}))
	if strings.Contains(text, "mooncake_go_workload_") || !strings.Contains(text, "\nmaster_bundle_orphans_total 0\n") {
		t.Error(text)
	}
}
