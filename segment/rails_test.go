package segment

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
	"mooncake/tcp"
	"mooncake/wire"
)

// asker is a client of a process that speaks one protocol.
func asker(protocol string) *descriptor.Client {
	return &descriptor.Client{Self: func() *descriptor.Segment {
		return &descriptor.Segment{Name: "asker", Protocol: protocol, TCPProtoVersion: 1}
	}}
}

func TestOneSegmentServesBothProtocols(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	c := withRDMA(t, daemonConfig(t, m), n, "rxe0", "rxe1")
	c.DeviceNames = "rxe1,rxe0"
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	var mounted wire.Segment
	m.lock(func() { mounted = m.segments[d.clientID] })
	if mounted.Protocol != "rdma" {
		t.Errorf("mounted as %q", mounted.Protocol)
	}
	s, err := asker("rdma").Fetch(t.Context(), d.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if s.Protocol != "rdma" || s.Name != d.state.Endpoint || s.TCPDataPort != 0 || s.TCPProtoVersion != 1 || len(s.Devices) != 2 || s.Devices[0].Name != "rxe1" {
		t.Errorf("an RDMA asker got %s", s.Encode())
	}
	if b := s.Remote(d.state.Base, d.state.Size); b == nil || len(b.RKey) != 2 || len(b.LKey) != 2 {
		t.Errorf("the segment is not open: %s", s.Encode())
	}
	if len(s.PriorityMatrix) != 1 || fmt.Sprint(s.PriorityMatrix["cpu:0"]) != "[[rxe1 rxe0] []]" {
		t.Errorf("matrix %v", s.PriorityMatrix)
	}
	for _, protocol := range []string{"tcp", "nvlink"} {
		s, err := asker(protocol).Fetch(t.Context(), d.state.Endpoint)
		if err != nil || s.Protocol != "tcp" || int(s.TCPDataPort) != d.Ports().Data || len(s.Devices) != 0 {
			t.Errorf("a %s asker got %+v, %v", protocol, s, err)
		}
	}
	// Nothing in the request is tcp too, and its data port serves the same bytes.
	target, err := descriptor.NewResolver(descriptor.NoStore{}, nil).Lookup(t.Context(), d.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	dialer := tcp.NewDialer(tcp.DialerConfig{})
	defer dialer.Close()
	if err := dialer.Write(t.Context(), target, d.state.Base+7, []byte("over tcp")); err != nil {
		t.Fatal(err)
	}
	answer, err := asker("rdma").Handshake(t.Context(), d.state.Endpoint, &descriptor.Connection{
		LocalNICPath: "peer@rxe5", PeerNICPath: descriptor.NICPath(s.ServerName(), "rxe0"), QPNum: []uint32{17, 18},
	})
	if err != nil || answer.ReplyMsg != "" || answer.PeerNICPath != "peer@rxe5" {
		t.Errorf("handshake %+v, %v", answer, err)
	}
	_, metrics := d.get(t, "/metrics")
	for _, want := range []string{
		`mooncake_go_segment_rdma_port_up{device="rxe1",port="1"} 1`, "mooncake_go_segment_rdma_peers 1", `mooncake_go_segment_rdma_peer_qps{device="rxe0",peer="peer@rxe5"} 2`,
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, metrics)
		}
	}
	if _, summary := d.get(t, "/metrics/summary"); !strings.Contains(summary, "RDMA device rxe0 port 1: ACTIVE") {
		t.Errorf("summary %s", summary)
	}
	if lines := d.log.FilterMessage("registering memory").Len(); lines == 0 || lines > limits.SegmentRegisterLines {
		t.Errorf("%d lines about registration", lines)
	}
	if d.log.FilterMessageSnippet("rxe0").Len() == 0 {
		t.Error("no table of devices in the log")
	}
}

func TestATCPDaemonHasNoQueuePairs(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	s, err := asker("rdma").Fetch(t.Context(), d.state.Endpoint)
	if err != nil || s.Protocol != "tcp" {
		t.Errorf("%+v, %v", s, err)
	}
	answer, err := asker("rdma").Handshake(t.Context(), d.state.Endpoint, &descriptor.Connection{QPNum: []uint32{1}})
	if err != nil || len(answer.QPNum) != 0 || answer.LocalNICPath != "" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// What cannot serve over RDMA does not start, and leaves nothing behind; it never serves over tcp instead.
func TestNoSilentFallback(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, c *Config, n *fakeNetwork)
		want   string
	}{
		"no device":      {func(t *testing.T, c *Config, _ *fakeNetwork) { c.fsRoot = deviceTree(t) }, "--protocol=rdma"},
		"another device": {func(_ *testing.T, c *Config, _ *fakeNetwork) { c.DeviceNames = "mlx5_0" }, "mlx5_0"},
		"port down": {func(t *testing.T, c *Config, _ *fakeNetwork) {
			if err := os.WriteFile(c.fsRoot+"/sys/class/infiniband/rxe0/ports/1/state", []byte("1: DOWN\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "--protocol=rdma"},
		"bad pin": {func(_ *testing.T, c *Config, _ *fakeNetwork) { c.getenv = func(string) string { return "x" } }, "MC_"},
		"bad MTU": {func(_ *testing.T, c *Config, _ *fakeNetwork) {
			c.getenv = func(name string) string {
				if name == "MC_MTU" {
					return "1500"
				}
				return ""
			}
		}, `MC_MTU="1500"`},
		"bad class": {func(_ *testing.T, c *Config, _ *fakeNetwork) {
			c.getenv = func(name string) string { return map[string]string{"MC_IB_TC": "256"}[name] }
		}, "MC_IB_TC=256: want a number from 0 to 255"},
		"verbs fail": {func(_ *testing.T, _ *Config, n *fakeNetwork) { n.err = errors.New("ibv_open_device: EPERM") }, "--protocol=rdma: ibv_open_device"},
		"not built":  {func(_ *testing.T, c *Config, _ *fakeNetwork) { c.openFabric = nil }, "built without RDMA"},
		"rails_down": {func(_ *testing.T, c *Config, _ *fakeNetwork) { c.RailsDown = "die" }, "--rails_down=die"},
	} {
		t.Run(name, func(t *testing.T) {
			m, n := newFakeMaster(t), &fakeNetwork{}
			cfg := withRDMA(t, daemonConfig(t, m), n, "rxe0")
			c.change(t, cfg, n)
			d, err := Open(t.Context(), *cfg, zap.NewNop())
			if err == nil {
				d.close(false)
				t.Fatal("it opened")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q lacks %q", err, c.want)
			}
			if files, err := os.ReadDir(cfg.ShmDir); err != nil || len(files) != 0 {
				t.Errorf("%d files left, %v", len(files), err)
			}
		})
	}
}

func TestCheckDevices(t *testing.T) {
	c := withRDMA(t, smallConfig(t), &fakeNetwork{}, "rxe0", "rxe1")
	table, err := c.CheckDevices()
	if err != nil || !strings.Contains(table, "rxe0") || !strings.Contains(table, "rxe1") {
		t.Errorf("%s, %v", table, err)
	}
	c.DeviceNames = "rxe7"
	if table, err = c.CheckDevices(); err == nil || !strings.Contains(table, "rxe0") {
		t.Errorf("%s, %v", table, err)
	}
	c.Protocol = "tcp"
	if table, err = c.CheckDevices(); err != nil || table != "" {
		t.Errorf("%s, %v", table, err)
	}
}

// A daemon that comes back is the same to peers that still hold its descriptor, but for the keys.
func TestRDMADaemonComesBackAsTheSame(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	c := withRDMA(t, daemonConfig(t, m), n, "rxe0")
	first := run(t, c)
	m.wait(t, "ReMountSegment")
	was, ports := first.State(), first.Ports()
	before, err := asker("rdma").Fetch(t.Context(), first.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	copy(first.arena.Bytes(), "kept")
	first.end(t, ErrStay)
	if f := n.last(); !f.closed || len(f.regions) == 0 || f.held() {
		t.Error("devices or memory are still held")
	}
	second := run(t, c)
	m.wait(t, "MountSegment")
	if p := second.Ports(); second.State() != was || p.TE != ports.TE || p.Data != ports.Data {
		t.Errorf("came back as %+v on %+v, was %+v on %+v", second.State(), p, was, ports)
	}
	after, err := asker("rdma").Fetch(t.Context(), first.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if after.Buffers[0].RKey[0] == before.Buffers[0].RKey[0] {
		t.Error("the keys are the old ones")
	}
	before.Timestamp, before.Buffers[0].RKey, before.Buffers[0].LKey = after.Timestamp, after.Buffers[0].RKey, after.Buffers[0].LKey
	if !bytes.Equal(before.Encode(), after.Encode()) {
		t.Errorf("was %s, is %s", before.Encode(), after.Encode())
	}
	if string(second.arena.Bytes()[:4]) != "kept" {
		t.Error("the bytes are gone")
	}
}

// An arena that was announced for one protocol is not taken up for the other.
func TestProtocolBelongsToTheIdentity(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	c := daemonConfig(t, m)
	c.SegmentName = "node"
	run(t, c).end(t, ErrStay)
	withRDMA(t, c, n, "rxe0")
	if _, err := Open(t.Context(), *c, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "--protocol asks for rdma") {
		t.Errorf("error %v", err)
	}
}

func TestPublishedDescriptorFollowsTheDevices(t *testing.T) {
	m, n, meta := newFakeMaster(t), &fakeNetwork{}, newMetadataServer(t)
	c := withRDMA(t, daemonConfig(t, m), n, "rxe0", "rxe1")
	c.DeviceNames, c.MetadataServer = "rxe0,rxe1", meta.URL+"/metadata"
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	published := func() *descriptor.Segment {
		s, err := descriptor.Parse([]byte(meta.get(descriptor.RAMKey(d.state.Name))))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := published(); s.Protocol != "rdma" || len(s.Devices) != 2 {
		t.Errorf("published %s", s.Encode())
	}
	f := n.last()
	f.set(nil)
	waitUntil(t, "one device is published", func() bool { return len(published().Devices) == 1 })
	waitUntil(t, "health says so", func() bool { _, body := d.get(t, "/health"); return body == `{"status":"degraded","code":0}` })
	f.set(down)
	waitUntil(t, "health says so", func() bool {
		status, body := d.get(t, "/health")
		return status == 503 && body == `{"status":"rails_down","code":-800}`
	})
	f.set(up)
	waitUntil(t, "health says so", func() bool { status, _ := d.get(t, "/health"); return status == 200 })
	d.end(t, errors.New("leave"))
	if text := meta.get(descriptor.RAMKey(d.state.Name)); text != "" {
		t.Errorf("left behind %s", text)
	}
}

// waitUntil polls a condition that another goroutine makes true.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if condition() {
			return
		}
	}
	t.Fatalf("never happened: %s", what)
}

func TestSilenceWhileNothingCarriesTraffic(t *testing.T) {
	d := &Daemon{log: zap.NewNop(), cfg: Config{RailsDown: railsDownSilent}}
	now := time.Now()
	if d.silenced(now) {
		t.Error("a daemon of tcp is silent")
	}
	fake := &fakeFabric{rails: []railStats{{device: "rxe0", up: true}, {device: "rxe1", up: true}}}
	d.rails = &rails{fabric: fake, seen: map[string]string{}}
	step := func(change func(*railStats), after time.Duration, want bool) {
		t.Helper()
		fake.set(change)
		d.lookAtRails(now)
		now = now.Add(after)
		if d.silenced(now) != want {
			t.Errorf("silent: %v, want %v", !want, want)
		}
	}
	const grace = limits.SegmentRailsDownMs * time.Millisecond
	step(up, grace, false)
	step(func(r *railStats) { r.up = r.device == "rxe1" }, 2*grace, false)
	step(down, grace-time.Millisecond, false)
	step(down, time.Millisecond, true)
	step(up, 0, false)
	step(down, 0, false)
	step(nil, grace, true)
	d.cfg.RailsDown = railsDownPing
	step(down, grace, false)
}

// copyTask runs one copy between two daemons and returns the end of the task and the target's bytes.
func copyTask(t *testing.T, m *fakeMaster, from, to *running, want string) []byte {
	t.Helper()
	const size = 300_000
	bytesSent := make([]byte, size)
	rand.Read(bytesSent)
	copy(from.arena.Bytes()[100:], bytesSent)
	m.lock(func() {
		m.copies["k"] = copyPlan{replica(from, 100, size), []wire.ReplicaDescriptor{replica(to, 5000, size)}}
	})
	m.order(from, wire.TaskTypeReplicaCopy, `{"key":"k","source":"a","targets":["b"]}`)
	m.wait(t, want)
	to.end(t, ErrStay)
	got := contents(t, to.arena)
	if bytes.Equal(got[5000:5000+size], bytesSent) != strings.Contains(want, "SUCCESS") {
		t.Errorf("%s, and the bytes are equal: %v", want, !strings.Contains(want, "SUCCESS"))
	}
	return got
}

func TestCopiesOverRDMA(t *testing.T) {
	refuse := errors.New("retry exceeded")
	for name, c := range map[string]struct {
		fromRDMA, toRDMA bool
		failing          error
		http             bool
		want             string
		writes, overTCP  uint64
	}{
		"both":                       {true, true, nil, false, "task SUCCESS", 1, 0},
		"both, published":            {true, true, nil, true, "task SUCCESS", 1, 0},
		"to one of tcp":              {true, false, nil, false, "task SUCCESS", 0, 0},
		"to one of tcp, published":   {true, false, nil, true, "task SUCCESS", 0, 0},
		"from one of tcp":            {false, true, nil, false, "task SUCCESS", 0, 0},
		"from one of tcp, published": {false, true, nil, true, "task FAILED", 0, 0},
		"falling back":               {true, true, refuse, false, "task SUCCESS", 2, 1},
		"no way back, published":     {true, true, refuse, true, "task FAILED", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, n, meta := newFakeMaster(t), &fakeNetwork{}, newMetadataServer(t)
			config := func(isRDMA bool) *Config {
				cfg := daemonConfig(t, m)
				if c.http {
					cfg.MetadataServer = meta.URL + "/metadata"
				}
				if isRDMA {
					withRDMA(t, cfg, n, "rxe0")
				}
				return cfg
			}
			to := run(t, config(c.toRDMA))
			from := run(t, config(c.fromRDMA))
			for range 2 {
				m.wait(t, "ReMountSegment")
			}
			if c.fromRDMA {
				n.last().writeErr = c.failing
			}
			copyTask(t, m, from, to, c.want)
			if c.fromRDMA {
				f := n.last()
				f.mu.Lock()
				defer f.mu.Unlock()
				if f.writes != int(c.writes) {
					t.Errorf("%d writes over RDMA, want %d", f.writes, c.writes)
				}
			}
			if got := from.count.taskOverTCP.Load(); got != c.overTCP {
				t.Errorf("%d writes fell back, want %d", got, c.overTCP)
			}
		})
	}
}

// A target that came back has other keys; the descriptor is asked for again.
func TestCopyAfterTheTargetCameBack(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	toConfig := withRDMA(t, daemonConfig(t, m), n, "rxe0")
	to := run(t, toConfig)
	from := run(t, withRDMA(t, daemonConfig(t, m), n, "rxe0"))
	source := n.last()
	for range 2 {
		m.wait(t, "ReMountSegment")
	}
	if err := from.peers.write(t.Context(), to.state.Endpoint, to.state.Base, []byte("first")); err != nil {
		t.Fatal(err)
	}
	to.end(t, ErrStay)
	to = run(t, toConfig)
	if err := from.peers.write(t.Context(), to.state.Endpoint, to.state.Base, []byte("again")); err != nil {
		t.Fatal(err)
	}
	source.mu.Lock()
	defer source.mu.Unlock()
	if source.writes != 3 || from.count.taskOverTCP.Load() != 0 {
		t.Errorf("%d writes over RDMA, %d over tcp; want one that failed and two that did not", source.writes, from.count.taskOverTCP.Load())
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	d := run(t, withRDMA(t, daemonConfig(t, m), n, "rxe0"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.peers.write(ctx, d.state.Endpoint, d.state.Base, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestSeriesOfPeersAreBounded(t *testing.T) {
	const over = 10
	var stats fabricStats
	for i := range limits.SegmentPeerSeries + over {
		stats.peers = append(stats.peers, fabricPeerStats{device: fmt.Sprintf("d%d", i%2), path: fmt.Sprintf("peer%05d@x", i), counts: []namedCount{{"rdma_peer_qps", "gauge", "h", 2}}})
	}
	var b strings.Builder
	writeRails(&b, stats)
	if n := strings.Count(b.String(), "rdma_peer_qps{"); n != limits.SegmentPeerSeries+2 {
		t.Errorf("%d series", n)
	}
	for _, want := range []string{fmt.Sprintf("rdma_peers %d\n", limits.SegmentPeerSeries+over), `rdma_peer_qps{device="d0",peer="other"} 10`, `rdma_peer_qps{device="d1",peer="other"} 10`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestLabelsAreEscaped(t *testing.T) {
	if got := labelText("peer", "a\"b\\c\nd\xff"); got != `peer="a\"b\\c\nd?"` {
		t.Error(got)
	}
}

// TestGrowsOnRails registers a further region with the devices before anybody hears of it, describes both, and gives it back when
// it goes.
func TestGrowsOnRails(t *testing.T) {
	m, n := newFakeMaster(t), &fakeNetwork{}
	c := withRDMA(t, daemonConfig(t, m), n, "rxe0", "rxe1")
	c.DeviceNames = "rxe0,rxe1"
	d := grown(t, m, c)
	x := d.all()[1]
	s, err := asker("rdma").Fetch(t.Context(), d.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range d.all() {
		if b := s.Remote(at.state.Base, at.state.Size); b == nil || len(b.RKey) != 2 || b.Name != d.rails.location {
			t.Errorf("the range at %#x is not open: %s", at.state.Base, s.Encode())
		}
	}
	m.lock(func() { m.drains = []string{`{"left":0}`} })
	if p := d.resizeTo(t, resizeOrder{c.SegmentBytes, time.Minute}); p.State != resizeDone {
		t.Fatalf("%+v", p)
	}
	if s, err = asker("rdma").Fetch(t.Context(), d.state.Endpoint); err != nil || s.Remote(x.state.Base, 1) != nil || len(s.Buffers) != 1 {
		t.Errorf("the range is still described: %s, %v", s.Encode(), err)
	}
	f := n.last()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.regions) != 2 || f.regions[0].closed || !f.regions[1].closed {
		t.Errorf("registered are %+v", f.regions)
	}
}
