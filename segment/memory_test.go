package segment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const gib = 1 << 30

func TestMemoryBoundIsRead(t *testing.T) {
	for text, want := range map[string]MemoryBound{
		"": {}, "0": {}, "80%": {Percent: 80}, " 12.5 % ": {Percent: 12.5}, "100%": {Percent: 100}, "4gb": {Bytes: 4 << 30}, "1000": {Bytes: 1000},
	} {
		got, err := ParseMemoryBound(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseMemoryBound(got.String()); err != nil || again != want {
			t.Errorf("%q, written and read: %+v, %v", text, again, err)
		}
	}
	for _, text := range []string{"0%", "101%", "-1%", "NaN%", "x%", "%", "many", "-5"} {
		if got, err := ParseMemoryBound(text); err == nil {
			t.Errorf("%q is taken as %+v", text, got)
		}
	}
}

// TestMemoryBoundAllows takes a part of the host and of the cgroup, and bytes of the tighter one.
func TestMemoryBoundAllows(t *testing.T) {
	host := room{totalBytes: 16 * gib, availableBytes: 8 * gib, cgroupLimitBytes: unlimited}
	group := host
	group.cgroupLimitBytes, group.cgroupUsedBytes = 4*gib, 1*gib
	wide := host
	wide.cgroupLimitBytes, wide.cgroupUsedBytes = 32*gib, 1*gib
	for name, c := range map[string]struct {
		bound MemoryBound
		room  room
		need  uint64
		want  string // of the refusal; empty: allowed
	}{
		"none":                {MemoryBound{}, host, 100 * gib, ""},
		"just":                {MemoryBound{Percent: 75}, host, 4 * gib, ""},
		"one byte more":       {MemoryBound{Percent: 75}, host, 4*gib + 1, "--memory_high=75%"},
		"above already":       {MemoryBound{Percent: 25}, host, 0, "are in use by the host"},
		"group, just":         {MemoryBound{Percent: 50}, group, 1*gib - 1<<20, "are in use by the host"},
		"group":               {MemoryBound{Percent: 75}, group, 2*gib + 1, "are in use by the cgroup"},
		"group, host counts":  {MemoryBound{Percent: 60}, group, 1*gib + 1<<29, "by the cgroup"},
		"bytes of the group":  {MemoryBound{Bytes: 2 * gib}, group, 1 * gib, ""},
		"bytes, one more":     {MemoryBound{Bytes: 2 * gib}, group, 1*gib + 1, "--memory_high=2147483648"},
		"bytes of the host":   {MemoryBound{Bytes: 9 * gib}, host, 1 * gib, ""},
		"a limit that is not": {MemoryBound{Bytes: 9 * gib}, wide, 1*gib + 1, "are in use by the host"},
	} {
		err := c.bound.allows("growing", &c.room, c.need)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestStartAboveMemoryHigh ends at once and leaves nothing behind.
func TestStartAboveMemoryHigh(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.fsRoot = hostTree(t, map[string]string{"proc/meminfo": "MemTotal: 4096000 kB\nMemAvailable: 1024000 kB\n"})
	c.MemoryHigh = MemoryBound{Percent: 75}
	if _, err := Open(t.Context(), *c, nil); err == nil || !strings.Contains(err.Error(), "--global_segment_size 1048676") || !strings.Contains(err.Error(), "--memory_high=75%") {
		t.Errorf("%v", err)
	}
	if files, err := os.ReadDir(c.ShmDir); err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestOnMemory(t *testing.T) {
	for dir, want := range map[string]bool{memoryDir(t): true, "/proc": false} {
		if got, err := onMemory(dir); err != nil || got != want {
			t.Errorf("%s: %v, %v", dir, got, err)
		}
	}
	if _, err := onMemory(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a folder that is not there lies somewhere")
	}
}

// TestPopulatesNoDisk leaves an arena alone that lies on a disk, which would be written, and says so.
func TestPopulatesNoDisk(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	inMemory, err := onMemory(c.ShmDir) // the tests' folder is in memory on some hosts
	if err != nil {
		t.Fatal(err)
	}
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	message, word, resident := "memory is not found ahead", populateOff, uint64(sealBytes)
	if inMemory {
		message, word, resident = "memory is there", "done", c.SegmentBytes
	}
	for deadline := time.Now().Add(patience); d.log.FilterMessageSnippet(message).Len() == 0; {
		if time.Now().After(deadline) {
			t.Fatalf("the log does not say %q", message)
		}
	}
	if p := d.memoryPage(); p.Populate != word || p.ResidentBytes != resident {
		t.Errorf("%+v", p)
	}
}

// TestPopulatesWhileThereIsMemory finds memory in the background, waits while little is left to others, and tells of both; what
// peers wrote meanwhile stays.
func TestPopulatesWhileThereIsMemory(t *testing.T) {
	m := newFakeMaster(t)
	c := daemonConfig(t, m)
	c.WatchEvery, c.ShmDir = 2*time.Millisecond, memoryDir(t)
	if c.Populate != populateBackground {
		t.Errorf("--populate is %s", c.Populate)
	}
	scarce := "MemTotal: 16000000 kB\nMemAvailable: 400000 kB\n"
	c.fsRoot = hostTree(t, map[string]string{"proc/meminfo": scarce, "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 total=5\n"})
	d := run(t, c)
	m.wait(t, "ReMountSegment")
	until := func(what string, yes func(memoryPage) bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			p := d.memoryPage()
			if yes(p) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, p)
			}
		}
	}
	until("waits", func(p memoryPage) bool {
		return p.Populate == "waiting" && p.Scarce && strings.Contains(p.Waiting, "5 %")
	})
	dialer, target := dialled(t, d)
	if err := dialer.Write(t.Context(), target, d.state.Base+4096, []byte("written before")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"memory_scarce 1", "memory_stalled_microseconds_total 1234", "memory_total_bytes 16384000000", "memory_cgroup_limit_bytes 0", "regions 1"} {
		if _, body := d.get(t, "/metrics"); !strings.Contains(body, "\nmooncake_go_segment_"+want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	meminfo := filepath.Join(c.fsRoot, "proc/meminfo")
	part := meminfo + ".part"
	if err := os.WriteFile(part, []byte("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(part, meminfo); err != nil {
		t.Fatal(err)
	}
	until("has all", func(p memoryPage) bool { return p.Populate == "done" && p.ResidentBytes == c.SegmentBytes && !p.Scarce })
	got := make([]byte, 14)
	if err := dialer.Read(t.Context(), target, d.state.Base+4096, got); err != nil || string(got) != "written before" {
		t.Errorf("%q, %v", got, err)
	}
	if p := d.resizeTo(t, resizeOrder{c.SegmentBytes + 3<<20, time.Minute}); p.State != resizeDone {
		t.Fatalf("%+v", p)
	}
	until("has the further region", func(p memoryPage) bool {
		return p.Populate == "done" && len(p.Regions) == 2 && p.ResidentBytes == c.SegmentBytes+3<<20
	})
	for _, message := range []string{"memory is scarce", "memory is no longer scarce", "finding memory waits", "memory is there"} {
		found := false
		for _, e := range d.log.All() {
			found = found || strings.HasPrefix(e.Message, message)
		}
		if !found {
			t.Errorf("the log does not say %q", message)
		}
	}
}

// TestRegionGoesWhileItsMemoryIsFound takes regions away under the thread that finds memory ahead.
func TestRegionGoesWhileItsMemoryIsFound(t *testing.T) {
	d := run(t, daemonConfig(t, newFakeMaster(t)))
	for range 32 {
		x, err := d.newExtent(1 << 20)
		if err == nil {
			err = x.arena.seal(x.state)
		}
		if err != nil {
			t.Fatal(err)
		}
		var g errgroup.Group
		g.Go(func() error {
			if !d.populateExtent(t.Context(), x) {
				return errors.New("nobody ended it")
			}
			return nil
		})
		g.Go(func() error { return x.close(true) })
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}
