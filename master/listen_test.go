package master

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// closedConfig takes free ports for everything.
func closedConfig() Config {
	cfg := DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.MetadataHost = "127.0.0.1", "127.0.0.1", "127.0.0.1"
	cfg.RPCPort, cfg.MetricsPort, cfg.MetadataPort, cfg.RPCPortV12, cfg.GRPCPort, cfg.MetadataServer = 0, 0, 0, 0, 0, true
	return cfg
}

// TestBusyPorts holds each port in turn: one sentence names it and the flag, and nothing stays open.
func TestBusyPorts(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().(*net.TCPAddr).Port
	before := openFiles(t)
	for flag, edit := range map[string]func(*Config){
		"--metrics_port":              func(c *Config) { c.MetricsPort = port },
		"--http_metadata_server_port": func(c *Config) { c.MetadataPort = port },
		"--rpc_port_v12":              func(c *Config) { c.RPCPortV12 = port },
		"--grpc_port":                 func(c *Config) { c.GRPCPort = port },
		"--rpc_port":                  func(c *Config) { c.RPCPort = port },
	} {
		cfg := closedConfig()
		cfg.PortsFile = filepath.Join(t.TempDir(), "ports")
		edit(&cfg)
		_, err := Listen(cfg, zap.NewNop())
		want := fmt.Sprintf("cannot listen on 127.0.0.1:%d: address already in use; choose another with %s", port, flag)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		left, err := os.ReadDir(filepath.Dir(cfg.PortsFile))
		if err != nil || len(left) != 0 {
			t.Errorf("%s: files left: %v, %v", flag, left, err)
		}
	}
	// What an earlier test has ended may be closed only now, so the count may have fallen by itself; five attempts that
	// leave something show all the same, because each leaves it.
	waitFor(t, "no more descriptors than before", func() bool { return openFiles(t) <= before })
}

func TestHostsThatCannotBeListenedOn(t *testing.T) {
	for _, tc := range []struct {
		edit func(*Config)
		want string
	}{
		{func(c *Config) { c.RPCAddress = "no.such.host.invalid" }, "no.such.host.invalid:0: the host name does not resolve; choose another with --rpc_address"},
		{func(c *Config) { c.MetricsHost = "192.0.2.1" }, "192.0.2.1:0: cannot assign requested address; choose another with --metrics_host"},
		{func(c *Config) { c.MetadataHost = "not a host" }, "--http_metadata_server_host"},
	} {
		cfg := closedConfig()
		tc.edit(&cfg)
		_, err := Listen(cfg, zap.NewNop())
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// TestP04HostsToListenOn opens the ports on every spelling of an address.
func TestP04HostsToListenOn(t *testing.T) {
	for host, dial := range map[string][]string{
		"127.0.0.1": {"127.0.0.1"},
		"::1":       {"::1"},
		"[::1]":     {"::1"},
		"0.0.0.0":   {"127.0.0.1"},
		"::":        {"127.0.0.1", "::1"},
		"":          {"127.0.0.1", "::1"},
		"localhost": {"localhost"},
	} {
		b := newBed(t, func(c *Config) { c.RPCAddress = host })
		for _, d := range dial {
			c, err := net.Dial("tcp", net.JoinHostPort(d, fmt.Sprint(b.Ports().RPC)))
			if err != nil {
				t.Errorf("listening on %q: %v", host, err)
				continue
			}
			_ = c.Close()
		}
	}
}

func TestPortsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil { // of an earlier run
		t.Fatal(err)
	}
	b := newBed(t, func(c *Config) { c.PortsFile, c.RPCPortV12 = path, 0 })
	text, err := os.ReadFile(path)
	p := b.Ports()
	want := fmt.Sprintf("{\"rpc_port\":%d,\"rpc_port_v12\":%d,\"metrics_port\":%d,\"http_metadata_server_port\":0,\"grpc_port\":0}\n", p.RPC, p.RPCV12, p.Metrics)
	if err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}
	if p.RPC == 0 || p.RPCV12 == 0 || p.Metrics == 0 {
		t.Errorf("ports %+v", p)
	}
	folder := t.TempDir()
	for _, path := range []string{folder, filepath.Join(folder, "no", "such", "folder"), "/proc/version/x"} {
		cfg := closedConfig()
		cfg.PortsFile = path
		_, err := Listen(cfg, zap.NewNop())
		if err == nil || !strings.Contains(err.Error(), "--ports_file="+path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		edit func(*Config)
		want string // "" = fine
	}{
		{func(*Config) {}, ""},
		{func(c *Config) { c.RPCPort = 65536 }, "--rpc_port=65536 is outside 0..65535"},
		{func(c *Config) { c.RPCPort = -1 }, "--rpc_port=-1 is outside 0..65535"},
		{func(c *Config) { c.RPCPortV12 = -1 }, ""},
		{func(c *Config) { c.RPCPortV12 = -2 }, "--rpc_port_v12=-2 is outside -1..65535"},
		{func(c *Config) { c.MetricsPort = 99999 }, "--metrics_port=99999 is outside 0..65535"},
		{func(c *Config) { c.MetadataPort = 70000 }, "--http_metadata_server_port=70000 is outside 0..65535"},
		{func(c *Config) { c.RPCPort, c.RPCPortV12 = 50051, 50051 }, "--rpc_port and --rpc_port_v12 name the same port"},
		{func(c *Config) { c.RPCPort, c.RPCPortV12 = 0, 0 }, ""},
		{func(c *Config) { c.MetricsPort = c.RPCPort }, "--rpc_port and --metrics_port name the same port, 50051"},
		{func(c *Config) { c.MetadataPort = c.MetricsPort }, ""},
		{func(c *Config) { c.MetadataPort, c.MetadataServer = c.MetricsPort, true }, "--metrics_port and --http_metadata_server_port name"},
		{func(c *Config) { c.MetricsPort, c.MetricsHost, c.RPCAddress = c.RPCPort, "127.0.0.2", "127.0.0.1" }, ""},
		{func(c *Config) { c.EvictionRatio = 1.5 }, "--eviction_ratio=1.5 is outside 0..1"},
		{func(c *Config) { c.HighWatermark = -0.1 }, "--eviction_high_watermark_ratio=-0.1 is outside 0..1"},
		{func(c *Config) { c.ClientActiveTTL = 0 }, "--client_active_ttl_sec (or --client_ttl) must be above 0, not 0s"},
		{func(c *Config) { c.PutDiscard = c.PutRelease }, "must be above --put_start_discard_timeout_sec"},
		{func(c *Config) { c.SoftPinTTL = c.MaxSoftPinTTL + 1 }, "is above --max_kv_soft_pin_ttl"},
		{func(c *Config) { c.DefaultFamily = "15" }, `--rpc_default_family="15" is none of 12, 13, 14`},
		{func(c *Config) { c.IO = "uring" }, `--io="uring" is neither raw nor std`},
	} {
		cfg := DefaultConfig()
		tc.edit(&cfg)
		err := cfg.Validate()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%v, want %q", err, tc.want)
		}
		if tc.want != "" {
			if _, err := Listen(cfg, zap.NewNop()); err == nil {
				t.Errorf("%s: it listens all the same", tc.want)
			}
		}
	}
}
