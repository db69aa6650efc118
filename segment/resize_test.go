package segment

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/tcp"
	"mooncake/wire"
)

// resizeTo asks for another size and waits until that is over.
func (r *running) resizeTo(t *testing.T, o resizeOrder) resizePage {
	t.Helper()
	for deadline := time.Now().Add(patience); !r.health.isMounted(); {
		if time.Now().After(deadline) {
			t.Fatal("not mounted")
		}
	}
	if err := r.askResize(o); err != nil {
		t.Fatal(err)
	}
	return r.resized(t)
}

func (r *running) resized(t *testing.T) resizePage {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if p := r.resizer.page(); p.over() {
			return p
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not end: %+v", r.resizer.page())
		}
	}
}

// grown is a running daemon with one further region of 2 MiB.
func grown(t *testing.T, m *fakeMaster, c *Config) *running {
	t.Helper()
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	if p := d.resizeTo(t, resizeOrder{c.SegmentBytes + 2<<20, time.Minute}); p.State != resizeDone {
		t.Fatalf("%+v", p)
	}
	return d
}

// dialled reaches a daemon's data port as a peer that has looked it up once.
func dialled(t *testing.T, d *running) (*tcp.Dialer, *descriptor.Target) {
	t.Helper()
	target, err := descriptor.NewResolver(descriptor.NoStore{}, nil).Lookup(t.Context(), d.state.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	dialer := tcp.NewDialer(tcp.DialerConfig{})
	t.Cleanup(func() { _ = dialer.Close() })
	return dialer, target
}

// TestGrowsComesBackAndShrinks adds a region, which a peer that knew the daemon before uses at once, has both come back after a
// restart with ids and bytes, and takes the region away again.
func TestGrowsComesBackAndShrinks(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	first := run(t, c)
	m.wait(t, "ReMountSegment")
	dialer, target := dialled(t, first)
	p := first.resizeTo(t, resizeOrder{c.SegmentBytes + 2<<20, time.Minute})
	if p.State != resizeDone || p.FromBytes != c.SegmentBytes || first.total() != c.SegmentBytes+2<<20 {
		t.Fatalf("%+v, %d bytes", p, first.total())
	}
	x := first.all()[1]
	var told wire.Segment
	m.lock(func() { told = m.regions[x.id] })
	if told.Name != first.state.Name+"~1" || told.Size != 2<<20 || told.Base != x.state.Base || told.TeEndpoint != first.state.Endpoint {
		t.Errorf("the master was told of %+v", told)
	}
	want := bytes.Repeat([]byte("further "), 1000)
	if err := dialer.Write(t.Context(), target, x.state.Base+2<<20-8000, want); err != nil {
		t.Fatal(err)
	}
	if err := dialer.Write(t.Context(), target, x.state.Base+2<<20-7999, want); err == nil {
		t.Error("a write past the end was taken")
	}
	if b := first.describe().Buffers; len(b) != 2 || b[1].Addr != x.state.Base || b[1].Length != 2<<20 {
		t.Errorf("described as %+v", b)
	}
	was := []State{*first.state, *x.state}
	first.end(t, ErrStay)
	for name, size := range map[string]uint64{"what it began with": c.SegmentBytes, "what it has": c.SegmentBytes + 2<<20} {
		c.SegmentBytes = size
		again := run(t, c)
		list := again.all()
		if len(list) != 2 || *list[0].state != was[0] || *list[1].state != was[1] {
			t.Fatalf("%s: came back as %+v", name, again.memoryPage().Regions)
		}
		m.wait(t, "Ping")
		got := make([]byte, len(want))
		dialer, target := dialled(t, again)
		if err := dialer.Read(t.Context(), target, was[1].Base+2<<20-8000, got); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the bytes are not there: %v", name, err)
		}
		again.end(t, ErrStay)
	}
	last := run(t, c)
	m.wait(t, "Ping")
	dialer, target = dialled(t, last)
	m.lock(func() { m.drains = []string{`{"left":0}`} })
	m.forget()
	if p := last.resizeTo(t, resizeOrder{was[0].Size, time.Minute}); p.State != resizeDone || last.total() != was[0].Size {
		t.Fatalf("%+v", p)
	}
	m.wait(t, "GracefulUnmountSegment")
	m.wait(t, "UnmountSegment")
	if err := dialer.Read(t.Context(), target, was[1].Base, make([]byte, 8)); err == nil {
		t.Error("the region that is gone is read")
	}
	m.lock(func() {
		if _, there := m.regions[x.id]; there || len(m.regions) != 1 {
			t.Errorf("the master has %+v", m.regions)
		}
	})
	last.end(t, errors.New("leave"))
	if files, err := os.ReadDir(c.ShmDir); err != nil || len(files) != 0 {
		t.Errorf("%d files left, %v", len(files), err)
	}
}

// TestLeavesWithAllRegions has every region unmounted and removed.
func TestLeavesWithAllRegions(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	d := grown(t, m, c)
	d.end(t, errors.New("leave"))
	m.lock(func() {
		if len(m.regions) != 0 {
			t.Errorf("the master still has %+v", m.regions)
		}
	})
	if files, err := os.ReadDir(c.ShmDir); err != nil || len(files) != 0 {
		t.Errorf("%d files left, %v", len(files), err)
	}
}

// TestFurtherRegionsOfAnother throws away the regions of a run whose first arena is gone or not wanted, and refuses damaged ones.
func TestFurtherRegionsOfAnother(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	d := grown(t, m, c)
	x := d.all()[1]
	d.end(t, ErrStay)
	if err := os.WriteFile(x.arena.claim.statePath, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), *c, d.Daemon.log); err == nil || !strings.Contains(err.Error(), "~1") || !strings.Contains(err.Error(), "--fresh") {
		t.Errorf("a damaged region: %v", err)
	}
	c.Fresh = true
	fresh := run(t, c)
	if n := len(fresh.all()); n != 1 {
		t.Errorf("%d regions after --fresh", n)
	}
	if exists(x.arena.Path()) || exists(x.arena.claim.statePath) {
		t.Error("the files of the region are still there")
	}
}

// TestRegionsThatDoNotEmptyStay has a drain that does not succeed, and masters that move nothing.
func TestRegionsThatDoNotEmptyStay(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*fakeMaster)
		within time.Duration
		want   string
	}{
		"no room":            {func(m *fakeMaster) { m.drains = []string{`{"left":7,"moved":3}`} }, time.Millisecond, "7 objects were left"},
		"a published master": {func(*fakeMaster) {}, time.Minute, "published one"},
		"one that refuses": {func(m *fakeMaster) {
			m.drains, m.refuse[wire.CallGracefulUnmountSegment] = []string{`{"left":7}`}, wire.ErrUnavailableInCurrentStatus
		}, time.Minute, "refuses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMaster(t)
			cfg := daemonConfig(t, m)
			d := grown(t, m, cfg)
			x := d.all()[1]
			m.lock(func() { c.set(m) })
			m.forget()
			p := d.resizeTo(t, resizeOrder{cfg.SegmentBytes, c.within})
			if p.State != resizeFailed || !strings.Contains(p.Error, c.want) || len(d.all()) != 2 {
				t.Errorf("%+v", p)
			}
			if name != "a published master" {
				m.wait(t, "MountSegment") // takes back that the region goes
			}
			dialer, target := dialled(t, d)
			if err := dialer.Write(t.Context(), target, x.state.Base, []byte("still here")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGrowthThatTheMasterRefuses leaves nothing behind.
func TestGrowthThatTheMasterRefuses(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	before, err := os.ReadDir(c.ShmDir)
	if err != nil {
		t.Fatal(err)
	}
	m.lock(func() { m.refuse[wire.CallMountSegment] = wire.ErrInvalidParams })
	if p := d.resizeTo(t, resizeOrder{c.SegmentBytes + 4<<20, time.Minute}); p.State != resizeFailed || !strings.Contains(p.Error, "refuses MountSegment") {
		t.Errorf("%+v", p)
	}
	if after, err := os.ReadDir(c.ShmDir); err != nil || len(after) != len(before) || d.total() != c.SegmentBytes {
		t.Errorf("%d files, were %d; %d bytes; %v", len(after), len(before), d.total(), err)
	}
}

// TestSizesThatAreRefused names what is wrong with each, at once.
func TestSizesThatAreRefused(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.fsRoot = hostTree(t, map[string]string{"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"})
	c.MemoryHigh = MemoryBound{Bytes: 8_192_000_000 + 16<<20}
	d := grown(t, m, c)
	whole := d.total()
	for name, x := range map[string]struct {
		order resizeOrder
		want  string
	}{
		"not a region":    {resizeOrder{whole - 1, time.Minute}, "regions go as a whole"},
		"below the base":  {resizeOrder{1, time.Minute}, "regions go as a whole"},
		"nothing":         {resizeOrder{0, time.Minute}, "regions go as a whole"},
		"too little":      {resizeOrder{whole + 1000, time.Minute}, "at least"},
		"too much":        {resizeOrder{whole + 1<<41, time.Minute}, "at most"},
		"more than free":  {resizeOrder{whole + 1<<40, time.Minute}, "does not fit"},
		"above the bound": {resizeOrder{whole + 20<<20, time.Minute}, "--memory_high="},
		"no time":         {resizeOrder{whole + 4<<20, 0}, "within"},
	} {
		if err := d.askResize(x.order); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	d.resizer.update(func(p *resizePage) { p.State = resizeGrowing })
	if err := d.askResize(resizeOrder{whole + 4<<20, time.Minute}); !errors.Is(err, errBusy) {
		t.Errorf("while another is under way: %v", err)
	}
	d.resizer.update(func(p *resizePage) { p.State = resizeDone })
	d.resizer.close()
	if err := d.askResize(resizeOrder{whole + 4<<20, time.Minute}); !errors.Is(err, errLeaving) || !d.resizer.at.over() {
		t.Errorf("while the daemon leaves: %v", err)
	}
	d.health.lost()
	if err := d.askResize(resizeOrder{whole + 4<<20, time.Minute}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("without a master: %v", err)
	}
}

// bySocket asks on the admin socket.
func bySocket(t *testing.T, path, method, target, body string) (status int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	q, err := http.NewRequestWithContext(t.Context(), method, "http://daemon"+target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// TestAdminSocket takes orders from the daemon's own user only, and on no other port.
func TestAdminSocket(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.AdminSocket = filepath.Join(c.ShmDir, "a.sock")
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	info, err := os.Lstat(c.AdminSocket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	for _, x := range []struct {
		method, target, body string
		status               int
		want                 string
	}{
		{"GET", "/memory", "", 200, `"resize":{"state":"none"`},
		{"GET", "/resize", "", 404, ""},
		{"POST", "/health", "", 404, ""},
		{"POST", "/resize", "", 400, "cannot be read"},
		{"POST", "/resize", `{"bites":1}`, 400, "bites"},
		{"POST", "/resize", `{"bytes":8000000,"within_ms":1000}{"bytes":1}`, 400, "follows"},
		{"POST", "/resize", `{"bytes":1,"within_ms":1000}`, 422, "started with"},
		{"POST", "/resize", `{"bytes":8000000,"within_ms":1000}`, 202, `"target_bytes":8000000`},
	} {
		if status, text := bySocket(t, c.AdminSocket, x.method, x.target, x.body); status != x.status || !strings.Contains(text, x.want) {
			t.Errorf("%s %s %s: %d %s", x.method, x.target, x.body, status, text)
		}
	}
	if p := d.resized(t); p.State != resizeDone || d.total() != 8000000 {
		t.Errorf("%+v", p)
	}
	if _, text := d.get(t, "/memory"); !strings.Contains(text, `"size_bytes":8000000`) {
		t.Errorf("on the HTTP port: %s", text)
	}
	if resp, err := http.Post("http://"+d.listeners.http.Addr().String()+"/resize", "", strings.NewReader(`{"bytes":9}`)); err != nil || resp.StatusCode != 404 {
		t.Errorf("an order on the HTTP port: %v, %v", resp, err)
	} else {
		resp.Body.Close()
		http.DefaultClient.CloseIdleConnections()
	}
	d.end(t, ErrStay)
	if exists(c.AdminSocket) {
		t.Error("the socket is left behind")
	}
	if err := os.WriteFile(c.AdminSocket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), *c, d.Daemon.log); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v", err)
	}
	c.AdminSocket = strings.Repeat("x", 200)
	if _, err := Open(t.Context(), *c, d.Daemon.log); err == nil || !strings.Contains(err.Error(), "--admin_socket") {
		t.Errorf("a long path: %v", err)
	}
}

// TestAdminSocketThatIsTaken refuses a path that is another's or cannot be one, before anything is opened, and takes over what a
// dead process left.
func TestAdminSocketThatIsTaken(t *testing.T) {
	m := newFakeMaster(t)
	dir := t.TempDir()
	file, path := filepath.Join(dir, "file"), filepath.Join(dir, "a.sock")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		file:                           "no socket",
		filepath.Join(dir, "x", "a"):   "is no folder",
		dir + strings.Repeat("a", 200): "characters",
	} {
		c := daemonConfig(t, m)
		c.AdminSocket = path
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--admin_socket") {
			t.Errorf("%s: %v", path, err)
		}
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	c := daemonConfig(t, m)
	c.AdminSocket = path
	if d, err := Open(t.Context(), *c, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "another process answers") {
		t.Errorf("beside a living process: %v, %v", d, err)
	}
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, c)
	m.wait(t, "ReMountSegment")
	if status, text := bySocket(t, path, "GET", "/memory", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// TestRangesAreApart draws many ranges.
func TestRangesAreApart(t *testing.T) {
	d := &Daemon{state: &State{Name: "n"}}
	for range 12 {
		const size = 1 << 40 // so large that they would often overlap
		base := d.apart(size)
		if slices.ContainsFunc(d.all(), func(x *extent) bool { return base < x.state.Base+size && x.state.Base < base+size }) {
			t.Fatalf("%#x lies in another", base)
		}
		d.extents.add(&extent{state: &State{Base: base, Size: size}})
	}
}
