package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemonMemory is what a segment daemon tells of its memory.
type daemonMemory struct {
	Size    uint64 `json:"size_bytes"`
	Regions []struct {
		Name string `json:"name"`
		Base string `json:"base"`
		Size uint64 `json:"size_bytes"`
	} `json:"regions"`
	Resize struct {
		State string `json:"state"`
		Moved uint64 `json:"moved"`
		Error string `json:"error"`
	} `json:"resize"`
}

// resizable is a daemon whose admin socket is known.
type resizable struct {
	*Segment
	options SegmentOptions
	http    http.Client
}

func startResizable(t *testing.T, r *Rig, m *Master, n int, sizeBytes int64) *resizable {
	t.Helper()
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(r.memory, "resized-")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s.sock")
	s := &resizable{options: SegmentOptions{SizeBytes: sizeBytes, HTTPPort: ports[0], ArenaDir: dir, Flags: []string{"--admin_socket=" + socket, "--populate=background"}}}
	s.http.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	s.Segment = startSegment(t, r, m, n, s.options)
	return s
}

// memory asks the daemon; an order is given first when there is one.
func (s *resizable) memory(t *testing.T, order string) (d daemonMemory) {
	t.Helper()
	var resp *http.Response
	var err error
	if order != "" {
		resp, err = s.http.Post("http://daemon/resize", "application/json", strings.NewReader(order))
	} else {
		resp, err = s.http.Get("http://daemon/memory")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 || json.Unmarshal(text, &d) != nil {
		t.Fatalf("%q: status %d, %s, %v", order, resp.StatusCode, text, err)
	}
	return d
}

// resize gives an order and waits for its end.
func (s *resizable) resize(t *testing.T, bytes int64, within time.Duration) daemonMemory {
	t.Helper()
	d := s.memory(t, fmt.Sprintf(`{"bytes":%d,"within_ms":%d}`, bytes, within.Milliseconds()))
	eventually(t, 120*time.Second, "the change of size is over", func() bool {
		d = s.memory(t, "")
		return d.Resize.State == "done" || d.Resize.State == "failed"
	})
	return d
}

// TestSegmentGrowsAndShrinks makes a segment larger while clients of three releases use it: all of them write into the further
// region and read from it at once, and after a restart of the daemon. The scrub goes through that region too. It becomes
// smaller only when what lies there has moved.
func TestSegmentGrowsAndShrinks(t *testing.T) {
	beside(t, works)
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{V12Port: true, LeaseMs: 1000, Flags: []string{"--checksum"}})
	s := startResizable(t, r, m, 1, 48*mib)
	var stores []*Store
	var items []Item
	for _, release := range Releases {
		address := m.RPC
		if release == R12 {
			address = m.RPCv12
		}
		stores = append(stores, startStore(t, r, release, StoreOptions{Master: address}))
		before := Item{Key: key("before/%s", release), Size: 2 * mib, Seed: int64(release)}
		put(t, stores[len(stores)-1], before, nil)
		items = append(items, before)
	}
	readByAll(t, stores, items)

	if d := s.resize(t, 144*mib, time.Minute); d.Resize.State != "done" || len(d.Regions) != 2 {
		t.Fatalf("%+v", d)
	}
	regions := s.memory(t, "").Regions
	mounted := segments(t, m, 2)
	if mounted[0].Endpoint != mounted[1].Endpoint || mounted[0].Client != mounted[1].Client || mounted[0].ID == mounted[1].ID {
		t.Fatalf("mounted %+v", mounted)
	}
	base, err := strconv.ParseUint(regions[1].Base, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	for n, release := range Releases {
		i := Item{Key: key("further/%s", release), Size: 3*mib + int64(n), Seed: int64(release)}
		put(t, stores[n], i, Config{"preferred_segment": regions[1].Name})
		if at := replicas(t, stores[n], i.Key); len(at) != 1 || at[0].Address < base || at[0].Address-base >= regions[1].Size {
			t.Fatalf("%s: %q lies at %+v, not in %+v", release, i.Key, at, regions[1])
		}
		items = append(items, i)
	}
	for _, i := range itemsOf("more/", 30, func(int) int64 { return 2 * mib }) {
		put(t, stores[1], i, nil)
		items = append(items, i)
	}
	readByAll(t, stores, items)
	scrubsFurther(t, m, s, stores[0], regions[1].Name, len(items))

	if err := s.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if code, err := s.ExitCode(60 * time.Second); err != nil || code != 0 {
		t.Fatalf("exit code %d: %v", code, err)
	}
	s.Segment = startSegment(t, r, m, 2, s.options)
	if again := segments(t, m, 2); again[0].ID != mounted[0].ID || again[1].ID != mounted[1].ID {
		t.Fatalf("mounted %+v, was %+v", again, mounted)
	}
	for _, st := range stores { // each connection of before fails once
		for _, i := range items {
			eventually(t, 60*time.Second, "an object is read after the restart", func() bool {
				got, err := st.Get(i)
				return err == nil && got.Size == i.Size && got.Same
			})
		}
	}
	shrinks(t, r, m, s)
	readByAll(t, stores, items)
	if page := integrityOf(t, m); page.Corrupt != 1 || page.Lost != 1 {
		t.Errorf("more than what was spoilt is corrupt: %+v", page)
	}
}

// scrubsFurther has one byte change on a further region, where the scrub finds it, and nothing else.
func scrubsFurther(t *testing.T, m *Master, s *resizable, st *Store, region string, objects int) {
	t.Helper()
	spoilt := Item{Key: "spoilt", Size: mib, Seed: 77}
	put(t, st, spoilt, Config{"preferred_segment": region})
	eventually(t, 60*time.Second, "all sums are kept", func() bool { return integrityOf(t, m).Kept >= uint64(objects)+1 })
	flipByte(t, s.options.ArenaDir, replicas(t, st, spoilt.Key)[0])
	if _, err := m.Request("POST", "/api/v1/integrity/scrub", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, 60*time.Second, "the object is found", func() bool { return integrityOf(t, m).Lost == 1 })
	if page := integrityOf(t, m); page.Corrupt != 1 || len(page.Ranges) != 1 || page.Ranges[0].Key != string(spoilt.Key) {
		t.Fatalf("%+v", page)
	}
}

// shrinks makes the segment as small as it was: without room for what lies on the region it stays as it is.
func shrinks(t *testing.T, r *Rig, m *Master, s *resizable) {
	t.Helper()
	if d := s.resize(t, 48*mib, 2*time.Second); d.Resize.State != "failed" || !strings.Contains(d.Resize.Error, "objects were left") || d.Size != 144*mib {
		t.Fatalf("without room elsewhere: %+v", d)
	}
	segments(t, m, 2)
	startSegment(t, r, m, 3, SegmentOptions{SizeBytes: 128 * mib})
	began := time.Now()
	d := s.resize(t, 48*mib, 2*time.Minute)
	if d.Resize.State != "done" || len(d.Regions) != 1 || d.Size != 48*mib {
		t.Fatalf("%+v", d)
	}
	t.Logf("%d objects were moved off a region within %v", d.Resize.Moved, time.Since(began).Round(10*time.Millisecond))
	segments(t, m, 2)
}

func readByAll(t *testing.T, stores []*Store, items []Item) {
	t.Helper()
	for _, s := range stores {
		for _, i := range items {
			get(t, s, i)
		}
	}
}

// refusedStart runs the segment daemon behind a line of bash that ends with exec "$@", and wants exit code 1 and one line.
func refusedStart(t *testing.T, r *Rig, wrap []string, flags ...string) (line string) {
	t.Helper()
	args := append(wrap, filepath.Join(r.Binaries, "mooncake-segment"), "--master_server_address=127.0.0.1:1", "--local_hostname=127.0.0.1",
		"--bind_address=127.0.0.1", "--http_port=-1", "--log_level=error")
	p, err := r.Start("mooncake-segment", exec.Command(args[0], append(args[1:], flags...)...))
	if err != nil {
		t.Fatal(err)
	}
	code, err := p.ExitCode(60 * time.Second)
	if line = strings.TrimSpace(p.Log()); err != nil || code != 1 || strings.Contains(line, "\n") {
		t.Fatalf("exit code %d, %v: %s", code, err, line)
	}
	return line
}

// TestP24CgroupLimit starts a daemon in a group of 512 MiB that is told to give 1 GiB: it ends with the limit in its one line, and
// has touched nothing.
func TestP24CgroupLimit(t *testing.T) {
	r := newRig(t)
	g := newGroup(t, 512*mib)
	dir, err := os.MkdirTemp(r.memory, "refused-")
	if err != nil {
		t.Fatal(err)
	}
	line := refusedStart(t, r, []string{"bash", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, g.dir},
		"--shm_dir="+dir, "--global_segment_size=1gib", "--populate=start")
	if !strings.Contains(line, "cgroup limit 512.00 MB") || !strings.Contains(line, g.dir) || !strings.Contains(line, "--global_segment_size 1073741824") {
		t.Errorf("the line does not name limit, file and size: %s", line)
	}
	peak, err := os.ReadFile(filepath.Join(g.dir, g.peak))
	if err != nil {
		t.Fatal(err)
	}
	if bytes, err := strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64); err != nil || bytes > 256*mib {
		t.Errorf("up to %d bytes were used, %v", bytes, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// memoryGroup is a control group of the test's own.
type memoryGroup struct{ dir, peak string }

// newGroup makes a group with a limit, of whichever version this machine has.
func newGroup(t *testing.T, limitBytes int64) memoryGroup {
	t.Helper()
	name := fmt.Sprintf("mooncake-test-%d", os.Getpid())
	g, limit := memoryGroup{"/sys/fs/cgroup/" + name, "memory.peak"}, "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		g, limit = memoryGroup{"/sys/fs/cgroup/memory/" + name, "memory.max_usage_in_bytes"}, "memory.limit_in_bytes"
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, 60*time.Second, "the group is empty and can be removed", func() bool { return os.Remove(g.dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(g.dir, limit), []byte(strconv.FormatInt(limitBytes, 10)), 0o644); err != nil {
		t.Fatal(err)
	}
	return g
}

// TestP02EphemeralRange gives a fixed data port inside the range that a network namespace has for outgoing connections.
func TestP02EphemeralRange(t *testing.T) {
	r := newRig(t)
	line := refusedStart(t, r, []string{"unshare", "--net", "bash", "-c", `ip link set lo up && echo 50000 60000 >/proc/sys/net/ipv4/ip_local_port_range && exec "$0" "$@"`},
		"--shm_dir="+r.memory, "--global_segment_size=1mb", "--data_port=50100")
	if !strings.Contains(line, "--data_port=50100") || !strings.Contains(line, "50000-60000") {
		t.Errorf("the line does not name port and range: %s", line)
	}
}
