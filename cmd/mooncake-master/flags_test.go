package main

import (
	"strings"
	"testing"
	"time"

	"mooncake/internal/gflag"
)

// given reads a command line as a start does.
func given(t *testing.T, name string, args ...string) *commandLine {
	t.Helper()
	l := newCommandLine(name)
	if _, err := gflag.Parse(l.flags, args, gflag.Program{Name: name}); err != nil {
		t.Fatal(err)
	}
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestFlagsWithoutEffect warns in one line of flags that mean nothing here, or nothing beside the others, all of them.
func TestFlagsWithoutEffect(t *testing.T) {
	for args, words := range map[string][]string{
		"":                             nil,
		"--ha_ack=async --enable_ha":   nil,
		"--ha_ack=async":               {"--ha_ack=async", "--enable_ha"},
		"--ha_ack=async --data_dir=/d": {"--ha_ack=async", "--journal_sync"},
		"--ha_ack=async --client_ttl=3 --client_active_ttl_sec=4":            {"--ha_ack=async", "--client_ttl=3"},
		"--journal_sync=always":                                              {"--journal_sync=always", "--data_dir"},
		"--journal_sync=interval --journal_sync_interval_ms=5":               {"--journal_sync=interval", "--journal_sync_interval_ms=5", "--data_dir"},
		"--journal_sync_interval_ms=5 --data_dir=/d":                         {"--journal_sync_interval_ms=5", "--journal_sync=interval"},
		"--journal_sync=interval --journal_sync_interval_ms=5 --data_dir=/d": nil,
		"--grpc_port=1 --snapshot_dir=/s --etcd_compact=false --ha_leader_lease_ttl_sec=9": {
			"--grpc_port=1", "--snapshot_dir=/s", "--etcd_compact=false", "--ha_leader_lease_ttl_sec=9", "--enable_ha",
		},
		"--grpc_port=1 --snapshot_dir=/s --etcd_compact=false --ha_leader_lease_ttl_sec=9 --enable_ha": nil,
		"--rpc_thread_num=4 --enable_cxl --nof_eviction_ratio=0.1 --minloglevel=1":                     {"--rpc_thread_num", "--enable_cxl", "--nof_eviction_ratio", "--minloglevel"},
		"--offload_on_evict --offload_force_evict --promotion_on_hit":                                  {"--offload_on_evict", "--offload_force_evict", "--promotion_on_hit", "--enable_offload"},
		"--offload_on_evict --offload_force_evict --promotion_on_hit --enable_offload":                 nil,
		"--kv_events_queue_capacity=3 --tenant_quota_connector_uri=/t":                                 {"--kv_events_queue_capacity=3", "--enable_kv_events", "--tenant_quota_connector_uri=/t", "--enable_multi_tenants"},
		"--http_metadata_server_port=1":                                                                {"--http_metadata_server_port=1", "--enable_http_metadata_server"},
		"--port=1 --rpc_port=2":                                                                        {"--port=1", "--rpc_port=2"},
		"--port=1":                                                                                     nil,
		"--cluster_id=c":                                                                               {"--cluster_id=c", "--root_fs_dir"},
		"--cluster_id=c --root_fs_dir=/r":                                                              nil,
	} {
		warning := warningOf(given(t, newName, strings.Fields(args)...).without)
		for _, word := range words {
			if !strings.Contains(warning, word) {
				t.Errorf("%q: warning %q does not name %s", args, warning, word)
			}
		}
		if len(words) == 0 && warning != "" || strings.Contains(warning, "\n") {
			t.Errorf("%q: warning %q", args, warning)
		}
	}
}

// TestIdleOnce holds the tables of flags without effect against the flags that have one: nothing is in both, and every name in
// the table of company is a flag.
func TestIdleOnce(t *testing.T) {
	l := newCommandLine(newName)
	for _, x := range append(idle[:len(idle):len(idle)], gflag.Glog...) {
		if f := l.flags.Lookup(x.Name); f == nil || !strings.HasPrefix(f.Usage, "no effect here: ") {
			t.Errorf("%s is in the table of flags without effect and has one", x.Name)
		}
	}
	for _, p := range partners {
		for _, name := range p.flags {
			if l.flags.Lookup(name) == nil {
				t.Errorf("%s, which needs %s, is no flag", name, p.needs)
			}
		}
	}
	for _, name := range append(reloadable[:len(reloadable):len(reloadable)], fileKeys.FlagsOnly...) {
		if l.flags.Lookup(name) == nil {
			t.Errorf("%s is no flag", name)
		}
	}
}

// TestPortNames follows the two names of the call port.
func TestPortNames(t *testing.T) {
	for args, want := range map[string]int{
		"": 50051, "--port=7": 7, "--rpc_port=8": 8, "--rpc_port=8 --port=7": 8, "--rpc_port=0 --port=7": 7, "--rpc_port=0": 0, "--port=0": 0,
	} {
		if l := given(t, newName, strings.Fields(args)...); l.cfg.RPCPort != want {
			t.Errorf("%q: port %d, want %d", args, l.cfg.RPCPort, want)
		}
	}
	if l := given(t, newName, "--rpc_interface=lo"); l.cfg.RPCAddress != "127.0.0.1" {
		t.Errorf("the address of the loopback is %s", l.cfg.RPCAddress)
	}
}

// TestClientTTLFlags follows the three spellings of the liveness flags, as release 0.3.14 reads them.
func TestClientTTLFlags(t *testing.T) {
	for _, c := range []struct {
		args              string
		active, suspicion int // seconds
		warned            bool
	}{
		{"", 10, 20, false},
		{"--client_ttl=7", 7, 7, false},
		{"--client_active_ttl_sec=30", 30, 30, false},
		{"--client_active_ttl_sec=10", 10, 10, false}, // given, even if with the default
		{"--client_suspicion_ttl_sec=5", 10, 5, false},
		{"--client_ttl=3 --client_suspicion_ttl_sec=9", 3, 9, false},
		{"--client_ttl=3 --client_active_ttl_sec=4", 4, 4, true},
		{"--client_active_ttl_sec=4 --client_ttl=3", 4, 4, true},
	} {
		l := given(t, newName, strings.Fields(c.args)...)
		cfg, warning := l.cfg, warningOf(l.without)
		if cfg.ClientActiveTTL != time.Duration(c.active)*time.Second || cfg.ClientSuspicionTTL != time.Duration(c.suspicion)*time.Second {
			t.Errorf("%q: active %v, suspicion %v; want %d s, %d s", c.args, cfg.ClientActiveTTL, cfg.ClientSuspicionTTL, c.active, c.suspicion)
		}
		if (warning != "") != c.warned {
			t.Errorf("%q: warning %q", c.args, warning)
		}
	}
}
