package calls

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"mooncake/master"
	"mooncake/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// begin runs a master inside this process, which is also the one that is looked at, and opens a session with it.
func begin(t *testing.T, edit func(*Config)) *Session {
	t.Helper()
	cfg := master.DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost = "127.0.0.1", "127.0.0.1"
	cfg.RPCPort, cfg.MetricsPort, cfg.GRPCPort = 0, 0, -1
	srv, err := master.Listen(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the master does not stop")
		}
	})
	session := Config{Address: fmt.Sprintf("127.0.0.1:%d", srv.Ports().RPC), Pid: os.Getpid(), Seed: 1}
	if edit != nil {
		edit(&session)
	}
	within, done := context.WithTimeout(ctx, patience)
	t.Cleanup(done)
	s, err := Open(within, session)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLoads runs every kind of load against a master and expects that nothing is refused, that all is counted, and that what
// was written is there.
func TestLoads(t *testing.T) {
	s := begin(t, nil)
	if _, err := s.Fill(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if s.Keys() != 1000 {
		t.Fatalf("%d keys after a fill of 1000", s.Keys())
	}
	for _, k := range []Kind{Nothing, Exist, Get, Put, Mixed, BatchExist, BatchGet, BatchPut} {
		o, err := s.Run(t.Context(), Load{Kind: k, Connections: 3, Operations: 50, Probe: k == Put})
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Good(); err != nil {
			t.Errorf("%s: %v", k, err)
		}
		if want := map[bool]int{true: 100, false: 1}[k[0] == 'b']; o.KeysEach != want {
			t.Errorf("%s: %d keys each", k, o.KeysEach)
		}
		if o.Operations != 50 || o.Times.Count() != 50 || o.Used.Wall <= 0 {
			t.Errorf("%s: %d operations, %d times in %v", k, o.Operations, o.Times.Count(), o.Used.Wall)
		}
		if k == Put && (o.Probed == nil || o.Probed.Gap <= 0) {
			t.Error("the probe saw nothing")
		}
	}
	o, took, err := s.RemoveAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o.Operations < 6050 || took <= 0 || o.Probed.Times.Count() == 0 {
		t.Errorf("%d of more than 6050 objects removed in %v, %d probes", o.Operations, took, o.Probed.Times.Count())
	}
	if o, err = s.Run(t.Context(), Load{Kind: Exist, Connections: 1, Operations: 10}); err != nil {
		t.Fatal(err)
	}
	if o.Refused[wire.ErrObjectNotFound] != 10 || o.Good() == nil {
		t.Errorf("nothing is there any more, and refused is %v", o.Refused)
	}
}

// TestPaced makes a few calls with pauses and sees that they cost no more time than they and their pauses.
func TestPaced(t *testing.T) {
	s := begin(t, nil)
	if _, err := s.Fill(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	const pause = 300 * time.Microsecond
	o, err := s.Run(t.Context(), Load{Kind: Get, Connections: 1, Operations: 20, Pause: pause})
	if err != nil {
		t.Fatal(err)
	}
	if o.Operations != 20 || o.Good() != nil || o.Used.Wall < 20*pause || o.Used.Switches <= 0 {
		t.Errorf("%d operations in %v, %d switches, refused %v", o.Operations, o.Used.Wall, o.Used.Switches, o.Refused)
	}
}

// TestTimedAndCancelled: a load by time ends by itself, and any ends with its context.
func TestTimedAndCancelled(t *testing.T) {
	s := begin(t, nil)
	o, err := s.Run(t.Context(), Load{Kind: Nothing, Connections: 2, For: 20 * time.Millisecond})
	if err != nil || o.Operations == 0 {
		t.Fatal(o, err)
	}
	for _, pause := range []time.Duration{0, time.Microsecond} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := s.Run(ctx, Load{Kind: Nothing, Connections: 1, For: time.Hour, Pause: pause}); err == nil {
			t.Error("a load outlived its context")
		}
		cancel()
	}
}

// TestSegmentsOfOwners spreads puts over segments of several clients.
func TestSegmentsOfOwners(t *testing.T) {
	s := begin(t, func(c *Config) { c.Segments, c.Owners, c.SegmentBytes = 8, 4, 1<<20 })
	o, err := s.Run(t.Context(), Load{Kind: BatchPut, Connections: 1, Operations: 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Good(); err != nil { // four times what one segment holds
		t.Error(err)
	}
}

// TestTrace runs a loop twice: everything of the first is gone before the second, and what is more than there is room for
// fails.
func TestTrace(t *testing.T) {
	s := begin(t, func(c *Config) { c.Segments, c.SegmentBytes = 4, 128<<20 })
	for seed := range uint64(2) {
		got, err := s.Trace(t.Context(), Trace{Steps: 20, LivePercent: 60, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		if got.Large != 60 || got.Small != 620 || got.LargeFailed != 0 || got.SmallFailed != 0 {
			t.Errorf("%+v", got)
		}
	}
	got, err := s.Trace(t.Context(), Trace{Steps: 40, LivePercent: 100})
	if err != nil {
		t.Fatal(err)
	}
	if got.LargeFailed == 0 {
		t.Errorf("a pool was filled to the last byte: %+v", got)
	}
}

// TestFullPool writes more than there is room for: a put is refused or makes room, and each counts once.
func TestFullPool(t *testing.T) {
	s := begin(t, func(c *Config) { c.SegmentBytes = 64 << 12 })
	o, err := s.Run(t.Context(), Load{Kind: Put, Connections: 2, Operations: 300})
	if err != nil {
		t.Fatal(err)
	}
	if o.Operations != 300 || o.Refused[wire.ErrNoAvailableHandle] > 300 {
		t.Errorf("%d operations, refused %v", o.Operations, o.Refused)
	}
}

// TestBrokenAnswers: what is no answer is told, however it is cut.
func TestBrokenAnswers(t *testing.T) {
	rep := wire.BatchGetReplicaListReply{
		{Value: wire.GetReplicaListResponse{Replicas: []wire.ReplicaDescriptor{{ID: 7, DescriptorVariant: wire.ReplicaVariant{
			Memory: wire.MemoryDescriptor{BufferDescriptor: wire.BufferDescriptor{Size: 1, Protocol: "tcp", TransportEndpoint: "127.0.0.1:1"}},
		}}}, LeaseTTLMs: 5, ObjectChecksum: wire.Some[uint64](9)}},
		{Err: wire.ErrObjectNotFound},
	}
	body := wire.BatchGetReplicaList.AppendReply(nil, dialect, &rep)
	refused, err := codes(body, 2, located)
	if err != nil || len(refused) != 1 || refused[1] != wire.ErrObjectNotFound {
		t.Fatalf("refused %v, %v", refused, err)
	}
	for n := range body {
		if _, err := codes(body[:n], 2, located); err == nil {
			t.Errorf("%d of %d bytes pass for an answer", n, len(body))
		}
	}
	if _, err := codes(append(body, 0), 2, located); err == nil {
		t.Error("a byte too much passes")
	}
	if _, err := codes(body, 3, located); err == nil {
		t.Error("an answer with two values passes for one with three")
	}
	exists := wire.ExistKey.AppendReply(nil, dialect, &wire.ExistKeyReply{Value: true})
	if code, err := one(exists, found); code != 0 || err != nil {
		t.Errorf("%v, %v", code, err)
	}
}

// TestKeys: names have the length that was asked for and differ.
func TestKeys(t *testing.T) {
	s := Session{cfg: Config{KeyBytes: 40}}
	if a, b := s.key(0), s.key(9_999_999); len(a) != 40 || len(b) != 40 || a == b {
		t.Errorf("%q and %q", a, b)
	}
}
