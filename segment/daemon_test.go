package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/descriptor"
	"mooncake/internal/hostport"
	"mooncake/tcp"
	"mooncake/wire"
)

// running is a daemon with its Run going on.
type running struct {
	*Daemon
	log    *observer.ObservedLogs
	cancel context.CancelCauseFunc
	done   chan error
}

// daemonConfig is a small, quick daemon of this test under the master.
func daemonConfig(t *testing.T, m *fakeMaster) *Config {
	t.Helper()
	c := smallConfig(t)
	c.MasterAddress = m.addr
	c.PingEvery, c.FetchEvery = 5*time.Millisecond, 5*time.Millisecond
	return c
}

func run(t *testing.T, c *Config) *running {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	d, err := Open(t.Context(), *c, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{Daemon: d, log: logs, cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- d.Run(ctx) }()
	t.Cleanup(func() { r.end(t, nil) })
	return r
}

// end cancels and waits; only the first call does anything.
func (r *running) end(t *testing.T, cause error) {
	t.Helper()
	r.cancel(cause)
	select {
	case err, open := <-r.done:
		if open {
			close(r.done)
		}
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the daemon does not end")
	}
}

func (r *running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + hostport.Join("127.0.0.1", r.Ports().HTTP) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestDaemonMountsPingsAndLeaves(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	d := run(t, c)
	if before := m.wait(t, "MountSegment"); len(before) != 0 {
		t.Errorf("before the mount came %q", before)
	}
	m.wait(t, "ReMountSegment")
	m.wait(t, "Ping")
	m.wait(t, "FetchTasks")
	var got wire.Segment
	m.lock(func() { got = m.segments[d.clientID] })
	want := wire.Segment{ID: d.segmentID, Name: d.state.Name, Base: d.state.Base, Size: c.SegmentBytes, TeEndpoint: fmt.Sprintf("127.0.0.1:%d", d.Ports().TE), Protocol: "tcp"}
	if got.ID != want.ID || got.Name != want.Name || got.Base != want.Base || got.Size != want.Size || got.TeEndpoint != want.TeEndpoint || got.Protocol != want.Protocol {
		t.Errorf("mounted %+v, want %+v", got, want)
	}
	if got.Base == 0 || !wire.IsDaemonClient(d.clientID) {
		t.Errorf("base %#x, client %s", got.Base, d.clientID)
	}
	if status, body := d.get(t, "/health"); status != 200 || body != `{"status":"healthy","code":0}` {
		t.Errorf("health %d %s", status, body)
	}
	if _, body := d.get(t, "/metrics"); !strings.Contains(body, fmt.Sprintf("\nmooncake_go_segment_capacity_bytes %d\n", c.SegmentBytes)) {
		t.Errorf("metrics %s", body)
	}
	if _, body := d.get(t, "/metrics/summary"); !strings.Contains(body, "healthy") {
		t.Errorf("summary %s", body)
	}
	if status, _ := d.get(t, "/nope"); status != 404 {
		t.Errorf("unknown path: %d", status)
	}
	m.forget()
	d.end(t, errors.New("leave"))
	m.wait(t, "UnmountSegment")
	files, err := os.ReadDir(c.ShmDir)
	if err != nil || len(files) != 0 {
		t.Errorf("%d files left, %v", len(files), err)
	}
}

func TestDaemonServesItsMemory(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	m.wait(t, "MountSegment")
	resolver := descriptor.NewResolver(descriptor.NoStore{}, nil)
	target, err := resolver.Lookup(t.Context(), d.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if err := target.Segment.Validate(); err != nil {
		t.Error(err)
	}
	dialer := tcp.NewDialer(tcp.DialerConfig{})
	defer dialer.Close()
	want := bytes.Repeat([]byte("bytes of a peer "), 1000)
	at := d.state.Base + d.state.Size - uint64(len(want))
	if err := dialer.Write(t.Context(), target, at, want); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if err := dialer.Read(t.Context(), target, at, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("read back %v, equal %v", err, bytes.Equal(got, want))
	}
	for name, addr := range map[string]uint64{"past the end": at + 1, "below the base": d.state.Base - 1, "zero": 0, "wrapped": 1<<64 - 1} {
		if err := dialer.Read(t.Context(), target, addr, got); err == nil {
			t.Errorf("%s was served", name)
		}
	}
	if s := d.data.Stats(); s.Refused == 0 {
		t.Error("no refusal was counted")
	}
}

func TestDaemonComesBackAsTheSame(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	first := run(t, c)
	m.wait(t, "ReMountSegment")
	was, ports := first.State(), first.Ports()
	copy(first.arena.Bytes(), "kept")
	m.forget()
	first.end(t, ErrStay)
	select {
	case e := <-m.events:
		for ; e != "UnmountSegment" && len(m.events) > 0; e = <-m.events {
		}
		if e == "UnmountSegment" {
			t.Error("a daemon that stays unmounted its segment")
		}
	default:
	}
	second := run(t, c)
	m.wait(t, "MountSegment")
	if second.State() != was {
		t.Errorf("came back as %+v, was %+v", second.State(), was)
	}
	if p := second.Ports(); p.TE != ports.TE || p.Data != ports.Data {
		t.Errorf("ports %+v, were %+v", p, ports)
	}
	if string(second.arena.Bytes()[:4]) != "kept" {
		t.Error("the bytes are gone")
	}
}

func TestDaemonOutlivesItsMaster(t *testing.T) {
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	m.wait(t, "ReMountSegment")
	// A remount whose answer comes after the master's end would count as its return.
	for deadline := time.Now().Add(patience); d.log.FilterMessage("segment remounted").Len() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("not remounted")
		}
	}
	m.restart(t, func() {
		m.forget()
		deadline := time.Now().Add(patience)
		for {
			status, body := d.get(t, "/health")
			if status == 503 && strings.Contains(body, "master_unreachable") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("health stays %d %s", status, body)
			}
		}
	})
	m.wait(t, "ReMountSegment")
	m.wait(t, "Ping")
	var known bool
	m.lock(func() { known = m.known[d.clientID] })
	if !known {
		t.Error("the new master does not know the daemon")
	}
	if n := d.log.FilterMessage("master answers again").Len(); n != 1 {
		t.Errorf("%d lines about the master's return, want 1", n)
	}
	if n := d.log.FilterMessage("master does not answer, trying on").Len(); n != 1 {
		t.Errorf("%d lines about the master's absence, want 1", n)
	}
}

func TestDaemonStartsBeforeItsMaster(t *testing.T) {
	m := newFakeMaster(t)
	m.stop()
	c := daemonConfig(t, m)
	d := run(t, c)
	if status, body := d.get(t, "/health"); status != 503 || !strings.Contains(body, `"not_initialized"`) {
		t.Errorf("health %d %s", status, body)
	}
	m.restart(t, func() {})
	m.wait(t, "MountSegment")
	m.wait(t, "Ping")
}

func TestDaemonLeavesADeadMaster(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.LeaveTimeout = 50 * time.Millisecond
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	m.stop()
	d.end(t, errors.New("leave"))
	if files, err := os.ReadDir(c.ShmDir); err != nil || len(files) != 0 {
		t.Errorf("%d files left, %v", len(files), err)
	}
}

func TestRefusedMountIsTriedAgain(t *testing.T) {
	m := newFakeMaster(t)
	m.lock(func() { m.refuse[wire.CallMountSegment] = wire.ErrInvalidParams })
	d := run(t, daemonConfig(t, m))
	m.wait(t, "MountSegment")
	m.lock(func() { delete(m.refuse, wire.CallMountSegment) })
	m.wait(t, "MountSegment")
	m.wait(t, "Ping")
	if n := d.log.FilterMessage("not mounted yet, trying on").Len(); n != 1 {
		t.Errorf("%d lines about the refusal, want 1", n)
	}
}

func TestOpenFailsCleanly(t *testing.T) {
	m := newFakeMaster(t)
	busy, err := readPortRulesAndChoose(t)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := busy.Addr().String()[strings.LastIndexByte(busy.Addr().String(), ':')+1:]
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"busy http port": {func(c *Config) { fmt.Sscan(port, &c.HTTPPort) }, []string{port, "in use", "--http_port"}},
		"busy te port":   {func(c *Config) { fmt.Sscan(port, &c.TEPort) }, []string{port, "in use", "--te_port"}},
		"busy data port": {func(c *Config) { fmt.Sscan(port, &c.DataPort) }, []string{port, "in use", "--data_port"}},
		"no memory":      {func(c *Config) { c.fsRoot = hostTree(t, map[string]string{"proc/meminfo": "MemAvailable: 1 kB\n"}) }, []string{"--global_segment_size"}},
		"metadata":       {func(c *Config) { c.MetadataServer = "http://" }, []string{"--metadata_server"}},
		"ports file":     {func(c *Config) { c.PortsFile = "/nonexistent/ports" }, []string{"--ports_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := daemonConfig(t, m)
			c.change(cfg)
			d, err := Open(t.Context(), *cfg, zap.NewNop())
			if err == nil {
				d.close(false)
				t.Fatal("it opened")
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
			if files, err := os.ReadDir(cfg.ShmDir); err != nil || len(files) != 0 {
				t.Errorf("%d files left, %v", len(files), err)
			}
		})
	}
	if len(m.events) > 0 {
		t.Error("the master heard of a daemon that did not start")
	}
}

// waitLog waits for a line of a daemon's log.
func waitLog(t *testing.T, d *running, message string) {
	t.Helper()
	limit := time.NewTimer(20 * time.Second)
	defer limit.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for d.log.FilterMessage(message).Len() == 0 {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("no line %q", message)
		}
	}
}

func TestUnreachableAddressIsTold(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.LocalHostname = "127.0.0.2" // announced, while only 127.0.0.1 is bound
	d := run(t, c)
	waitLog(t, d, "this host does not reach the address it announces; check --local_hostname and --bind_address")
	m.wait(t, "MountSegment")
}
