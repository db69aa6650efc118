package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestEveryPublishedClientSeries goes through all series of the published clients: each is printed, with the same type and
// labels, or is listed with the reason, in the code and in docs/segment-daemon.md.
func TestEveryPublishedClientSeries(t *testing.T) {
	c := &Client{Calls: []ClientCall{{Name: "Ping", SumMicros: 5}}, HeartbeatOK: true, HeartbeatAt: time.Unix(1000, 5e8), Build: Build{"2", "x"}, WrittenBytes: 7}
	c.Calls[0].Counts[1], c.Calls[0].Counts[len(ClientBuckets)] = 2, 1
	var b strings.Builder
	if err := WriteClient(&b, c); err != nil {
		t.Fatal(err)
	}
	kinds, got := types(b.String()), samples(t, b.String())
	for name, want := range map[string]string{
		`mooncake_client_rpc_count{client_mode="real",rpc_name="Ping"}`:                               "3",
		`mooncake_client_rpc_latency_bucket{client_mode="real",rpc_name="Ping",le="50.000000"}`:       "0",
		`mooncake_client_rpc_latency_bucket{client_mode="real",rpc_name="Ping",le="75.000000"}`:       "2",
		`mooncake_client_rpc_latency_bucket{client_mode="real",rpc_name="Ping",le="20000000.000000"}`: "2",
		`mooncake_client_rpc_latency_bucket{client_mode="real",rpc_name="Ping",le="+Inf"}`:            "3",
		`mooncake_transfer_write_bytes{client_mode="real"}`:                                           "7",
		`mooncake_client_master_heartbeat_status_ok{client_mode="real"}`:                              "1",
		`mooncake_client_master_heartbeat_observation_timestamp_seconds{client_mode="real"}`:          "1000.5",
		`mooncake_build_info{client_mode="real",display_version="x",version="2"}`:                     "1",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %s", name, got[name], want)
		}
	}
	page, err := os.ReadFile("../docs/segment-daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, "\t")
		if f[0] != "client" {
			continue
		}
		rows++
		reason := ""
		for _, g := range silentClientGroups {
			if strings.HasPrefix(f[1], g.prefix) {
				reason = g.reason
			}
		}
		switch {
		case reason != "" && kinds[f[1]] != "":
			t.Errorf("%s is printed, and listed as one that is not", f[1])
		case reason == "" && kinds[f[1]] != f[2]:
			t.Errorf("%s is a %q, published as a %s", f[1], kinds[f[1]], f[2])
		}
	}
	if rows < 50 {
		t.Fatal(rows)
	}
	for _, g := range silentClientGroups {
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(g.prefix) + "\\*?` \\| " + regexp.QuoteMeta(g.reason) + " \\|$").Match(page) {
			t.Errorf("docs/segment-daemon.md does not say of %s that %s", g.prefix, g.reason)
		}
	}
}
