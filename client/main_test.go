package client

import (
	"context"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"mooncake/master"
	"mooncake/segment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	kib = 1 << 10
	mib = 1 << 20

	// patience is how long a test waits for what must happen, far above what any of it takes.
	patience = 2 * time.Minute
)

// pool is a master with segment daemons.
type pool struct {
	t    testing.TB
	grpc string
	rpc  string
}

// run runs something until the test ends.
func run(t testing.TB, what string, do func(ctx context.Context) error) (stop func()) {
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
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%s ended with %v", what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s does not stop", what)
		}
	}
	t.Cleanup(stop)
	return stop
}

func newPool(t testing.TB, segments int, edits ...func(*master.Config)) *pool {
	t.Helper()
	cfg := master.DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost = "127.0.0.1", "127.0.0.1"
	cfg.RPCPort, cfg.MetricsPort, cfg.GRPCPort = 0, 0, 0
	cfg.LeaseTTL, cfg.ClientActiveTTL = time.Hour, time.Hour // however slow the machine is
	for _, edit := range edits {
		edit(&cfg)
	}
	srv, err := master.Listen(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	run(t, "the master", srv.Run)
	p := &pool{t, "127.0.0.1:" + strconv.Itoa(srv.Ports().GRPC), "127.0.0.1:" + strconv.Itoa(srv.Ports().RPC)}
	for range segments {
		p.segment()
	}
	return p
}

// segment gives the pool 64 MiB more.
func (p *pool) segment() (stop func()) {
	p.t.Helper()
	cfg := segment.DefaultConfig()
	cfg.MasterAddress, cfg.LocalHostname, cfg.BindAddress, cfg.SegmentBytes = p.rpc, "127.0.0.1", "127.0.0.1", 64*mib
	cfg.HTTPPort, cfg.ShmDir = -1, p.t.TempDir()
	d, err := segment.Open(p.t.Context(), cfg, zap.NewNop())
	if err != nil {
		p.t.Fatal(err)
	}
	before := p.segments()
	stop = run(p.t, "a segment daemon", d.Run)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for p.segments() == before {
		select {
		case <-tick.C:
		case <-end:
			p.t.Fatal("a segment is not mounted")
		}
	}
	return stop
}

// segments counts the segments that the master knows.
func (p *pool) segments() int {
	p.t.Helper()
	c := p.client(Config{})
	list, err := c.Segments(soon(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list)
}

// client makes a client of the pool.
func (p *pool) client(cfg Config) *Client {
	p.t.Helper()
	if cfg.Masters == nil {
		cfg.Masters = []string{p.grpc}
	}
	c, err := New(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			p.t.Error(err)
		}
	})
	return c
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}
