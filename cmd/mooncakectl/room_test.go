package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/master"
	"mooncake/segment"
)

// until runs something until the test ends.
func until(t *testing.T, what string, do func(ctx context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	over := false
	stop = func() {
		if over {
			return
		}
		over = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", what, err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// realMaster starts a master on free ports and gives its address for gRPC.
func realMaster(t *testing.T, edit func(*master.Config)) (srv *master.Server, grpc string, stop func()) {
	t.Helper()
	cfg := master.DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.RPCPort, cfg.MetricsPort, cfg.GRPCPort = "127.0.0.1", "127.0.0.1", 0, 0, 0
	cfg.LeaseTTL, cfg.ClientActiveTTL = time.Hour, time.Hour // however slow the machine is
	if edit != nil {
		edit(&cfg)
	}
	srv, err := master.Listen(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return srv, "127.0.0.1:" + strconv.Itoa(srv.Ports().GRPC), until(t, "the master", srv.Run)
}

// realSegment gives a master 64 MiB.
func realSegment(t *testing.T, srv *master.Server) {
	t.Helper()
	cfg := segment.DefaultConfig()
	cfg.MasterAddress, cfg.LocalHostname, cfg.BindAddress, cfg.SegmentBytes = "127.0.0.1:"+strconv.Itoa(srv.Ports().RPC), "127.0.0.1", "127.0.0.1", 64*mib
	cfg.HTTPPort, cfg.ShmDir = -1, t.TempDir()
	d, err := segment.Open(t.Context(), cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a segment daemon", d.Run)
}

// ctlOn runs the program against a real master.
func ctlOn(t *testing.T, grpc string, args ...string) (code int, out, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code = run(ctx, append([]string{"--timeout=60s", "--master=" + grpc}, args...), strings.NewReader("hello"), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// eventually asks again and again until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestNoRoom puts an object that no segment can hold: both numbers are told, and the master is as it was.
func TestNoRoom(t *testing.T) {
	srv, grpc, _ := realMaster(t, nil)
	realSegment(t, srv)
	listing := func() string {
		code, out, errs := ctlOn(t, grpc, "segments", "-o", "json")
		if code != 0 {
			t.Fatalf("exit %d, %s", code, errs)
		}
		return out
	}
	eventually(t, "the segment is mounted", func() bool { return strings.Contains(listing(), `"name"`) })
	before := listing()
	file := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 100*mib); err != nil {
		t.Fatal(err)
	}
	code, out, errs := ctlOn(t, grpc, "objects", "put", "k", file, "--apply")
	if code != 1 || out != "" || !strings.Contains(errs, "104857600 bytes are needed") || !strings.Contains(errs, "the largest free range of 1 segments has 64.00 MB") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if after := listing(); after != before {
		t.Errorf("the segments before:\n%s\nafter:\n%s", before, after)
	}
	if code, out, errs := ctlOn(t, grpc, "objects", "ls", "-o", "json"); code != 0 || strings.TrimSpace(out) != "[]" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	// What fits goes the whole way.
	if code, out, errs := ctlOn(t, grpc, "objects", "put", "k", "-", "--apply"); code != 0 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := ctlOn(t, grpc, "objects", "get", "k"); code != 0 || out != "hello" {
		t.Errorf("exit %d, %q %s", code, out, errs)
	}
}
