package segment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mooncake/internal/limits"
)

// smallConfig is a configuration whose arena is small and lies in a directory of the test.
func smallConfig(t *testing.T) *Config {
	t.Helper()
	c := DefaultConfig()
	c.LocalHostname, c.BindAddress = "127.0.0.1", "127.0.0.1"
	c.SegmentBytes, c.ShmDir = 1<<20+100, t.TempDir()
	c.HTTPPort = 0
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return &c
}

// start claims and maps as a daemon does, sealing a new arena.
func start(t *testing.T, c *Config) (*Arena, error) {
	t.Helper()
	cl, err := claimArena(c)
	if err != nil {
		return nil, err
	}
	a, err := mapArena(cl, c.SegmentBytes, true)
	if err != nil {
		cl.abandon()
		return nil, err
	}
	if cl.state == nil {
		s := sampleState()
		s.Size = c.SegmentBytes
		s.Base = newBase(c.SegmentBytes)
		if err := a.seal(s); err != nil {
			t.Fatal(err)
		}
	}
	return a, nil
}

func mustStart(t *testing.T, c *Config) *Arena {
	t.Helper()
	a, err := start(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestArenaIsTakenUpAgain(t *testing.T) {
	c := smallConfig(t)
	a := mustStart(t, c)
	if got := uint64(len(a.Bytes())); got != c.SegmentBytes {
		t.Fatalf("%d bytes, want exactly %d", got, c.SegmentBytes)
	}
	first := *a.claim.state
	copy(a.Bytes(), "begin")
	copy(a.Bytes()[c.SegmentBytes-3:], "end")
	info, err := os.Stat(a.Path())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b := mustStart(t, c)
	if b.claim.state == nil || *b.claim.state != first {
		t.Errorf("state %+v, want %+v", b.claim.state, first)
	}
	if string(b.Bytes()[:5]) != "begin" || string(b.Bytes()[c.SegmentBytes-3:]) != "end" {
		t.Error("the bytes are not those of the first run")
	}
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(c.ShmDir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d files left, %v", len(left), err)
	}
}

func TestArenaHasOneDaemon(t *testing.T) {
	c := smallConfig(t)
	c.SegmentName = "only"
	a := mustStart(t, c)
	if _, err := start(t, c); err == nil || !strings.Contains(err.Error(), "held by another daemon") || !strings.Contains(err.Error(), "--segment_name") {
		t.Errorf("second daemon of one name: %v", err)
	}
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
}

func TestSeveralDaemonsOnOneHost(t *testing.T) {
	c := smallConfig(t)
	a, b := mustStart(t, c), mustStart(t, c)
	if a.Path() == b.Path() {
		t.Fatal("two daemons share an arena")
	}
	copy(a.Bytes(), "of a")
	if err := a.Close(); err != nil { // as after a crash: the lock is gone, the files are there
		t.Fatal(err)
	}
	again := mustStart(t, c)
	if again.Path() != a.Path() || string(again.Bytes()[:4]) != "of a" {
		t.Errorf("got %s, want the arena that was left, %s", again.Path(), a.Path())
	}
	larger := *c
	larger.SegmentBytes *= 2
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	other := mustStart(t, &larger)
	if other.Path() == b.Path() {
		t.Error("an arena of another size was taken")
	}
	if len(other.claim.notes) == 0 || !strings.Contains(other.claim.notes[0], "left alone") {
		t.Errorf("notes %q, want one about the arena left alone", other.claim.notes)
	}
	for _, x := range []*Arena{again, other} {
		if err := x.Remove(); err != nil {
			t.Error(err)
		}
	}
}

func TestArenaThatDoesNotFitIsRefused(t *testing.T) {
	base := smallConfig(t)
	base.SegmentName = "one"
	a := mustStart(t, base)
	a.claim.state.Name = "one"
	if err := a.seal(a.claim.state); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"size":      {func(c *Config) { c.SegmentBytes++ }, "--global_segment_size"},
		"protocol":  {func(c *Config) { c.Protocol = "rdma" }, "--protocol"},
		"master":    {func(c *Config) { c.MasterAddress = "127.0.0.2:50051" }, "--master_server_address"},
		"te port":   {func(c *Config) { c.TEPort = 20000 }, "--te_port"},
		"data port": {func(c *Config) { c.DataPort = 20000 }, "--data_port"},
	} {
		t.Run(name, func(t *testing.T) {
			other := *base
			c.change(&other)
			_, err := start(t, &other)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--fresh") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %s and --fresh", err, c.want)
			}
		})
	}
	again := mustStart(t, base)
	if err := again.Remove(); err != nil {
		t.Error(err)
	}
}

// left makes the files of a run that crashed and gives their paths.
func left(t *testing.T, c *Config) (arena, state string) {
	t.Helper()
	c.SegmentName = "x"
	a := mustStart(t, c)
	s := *a.claim.state
	s.Name = "x"
	if err := a.seal(&s); err != nil {
		t.Fatal(err)
	}
	copy(a.Bytes(), "old")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return a.claim.arenaPath, a.claim.statePath
}

func TestDamageIsToldAndNeverMixed(t *testing.T) {
	overwrite := func(path string, at int64, text string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt([]byte(text), at)
		return err
	}
	for name, c := range map[string]struct {
		harm func(arena, state string) error
		want string
	}{
		"state is garbage": {func(_, s string) error { return os.WriteFile(s, []byte("garbage"), 0o600) }, "is damaged"},
		"state is empty":   {func(_, s string) error { return os.WriteFile(s, nil, 0o600) }, "is damaged"},
		"state is huge":    {func(_, s string) error { return os.WriteFile(s, make([]byte, 1<<20), 0o600) }, "longer than 4080 bytes): its segment cannot be taken up again; --fresh"},
		"state of another run": {func(_, s string) error {
			other := sampleState()
			other.Name = "x"
			text, err := other.encode()
			if err != nil {
				return err
			}
			return os.WriteFile(s, text, 0o600)
		}, "different runs"},
		"seal is gone":         {func(a, _ string) error { return overwrite(a, 1<<20+pageBytes, "xxxxxxxxxxxx") }, "damaged"},
		"arena is cut":         {func(a, _ string) error { return os.Truncate(a, pageBytes*4) }, "damaged"},
		"arena is odd":         {func(a, _ string) error { return os.Truncate(a, 77) }, "damaged"},
		"other users may read": {func(a, _ string) error { return os.Chmod(a, 0o644) }, "mode 0644"},
		"arena is a link": {func(a, _ string) error {
			if err := os.Rename(a, a+".real"); err != nil {
				return err
			}
			return os.Symlink(a+".real", a)
		}, "--shm_dir"},
		"arena has two names": {func(a, _ string) error { return os.Link(a, a+".too") }, "another name"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := smallConfig(t)
			arena, state := left(t, cfg)
			if err := c.harm(arena, state); err != nil {
				t.Fatal(err)
			}
			_, err := start(t, cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, c.want)
			}
		})
	}
}

func TestHalvesThatCanBeMadeGood(t *testing.T) {
	t.Run("state file is lost", func(t *testing.T) {
		c := smallConfig(t)
		_, state := left(t, c)
		if err := os.Remove(state); err != nil {
			t.Fatal(err)
		}
		a := mustStart(t, c)
		if a.claim.state == nil || string(a.Bytes()[:3]) != "old" {
			t.Error("the segment was not taken up again from its seal")
		}
		if !exists(state) {
			t.Error("the state file was not restored")
		}
		if err := a.Remove(); err != nil {
			t.Error(err)
		}
	})
	t.Run("arena is lost", func(t *testing.T) {
		c := smallConfig(t)
		arena, _ := left(t, c)
		if err := os.Remove(arena); err != nil {
			t.Fatal(err)
		}
		cl, err := claimArena(c)
		if err != nil {
			t.Fatal(err)
		}
		if cl.state != nil || cl.wanted == nil || cl.wanted.TEPort != 18000 || len(cl.notes) != 1 {
			t.Errorf("claim %+v, want a new segment on the old ports and a note", cl)
		}
		cl.abandon()
	})
	t.Run("never finished", func(t *testing.T) {
		c := smallConfig(t)
		arena, state := left(t, c)
		if err := errors.Join(os.Remove(state), os.Truncate(arena, pageBytes*3)); err != nil {
			t.Fatal(err)
		}
		a := mustStart(t, c)
		if string(a.Bytes()[:3]) == "old" {
			t.Error("bytes of the unfinished arena are there")
		}
		if err := a.Remove(); err != nil {
			t.Error(err)
		}
	})
	t.Run("fresh", func(t *testing.T) {
		c := smallConfig(t)
		left(t, c)
		c.Fresh = true
		a := mustStart(t, c)
		if string(a.Bytes()[:3]) == "old" {
			t.Error("--fresh kept the bytes")
		}
		if err := a.Remove(); err != nil {
			t.Error(err)
		}
	})
}

// TestUnfinishedStateFileGoes removes what a daemon left that was killed while it wrote its state file, and nobody else's.
func TestUnfinishedStateFileGoes(t *testing.T) {
	c := &Config{ShmDir: t.TempDir()}
	ours, others := statePath(c, "a")+unfinishedMark+"123", statePath(c, "ab")+unfinishedMark+"123"
	for _, path := range []string{ours, others} {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cl, err := claimOne(c, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.abandon()
	if exists(ours) || !exists(others) {
		t.Errorf("there: ours %v, another's %v", exists(ours), exists(others))
	}
}

func TestAbandonedStartLeavesNoTrace(t *testing.T) {
	c := smallConfig(t)
	cl, err := claimArena(c)
	if err != nil {
		t.Fatal(err)
	}
	cl.abandon()
	files, err := os.ReadDir(c.ShmDir)
	if err != nil || len(files) != 0 {
		t.Errorf("%d files, %v", len(files), err)
	}
}

func TestPrefault(t *testing.T) {
	c := smallConfig(t)
	a := mustStart(t, c)
	d := &Daemon{log: zap.NewNop()}
	if err := d.prefault(&extent{arena: a, state: a.claim.state}); err != nil {
		t.Fatal(err)
	}
	missing, err := a.claim.missingBytes(c.SegmentBytes)
	if err != nil || missing != 0 {
		t.Errorf("%d bytes still missing, %v", missing, err)
	}
	if err := a.Remove(); err != nil {
		t.Error(err)
	}
}

func TestBaseIsDrawnAnew(t *testing.T) {
	seen := map[uint64]bool{}
	for range 100 {
		b := newBase(limits.SegmentBytesMax)
		if b < limits.SegmentBaseLow || b+limits.SegmentBytesMax > limits.SegmentBaseHigh || b%(2<<20) != 0 {
			t.Fatalf("base %#x", b)
		}
		seen[b] = true
	}
	if len(seen) < 95 {
		t.Errorf("%d different bases of 100", len(seen))
	}
}

func TestIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
		only   bool
	}{
		"several":  {func(*Config) {}, "127.0.0.1_any", false},
		"name":     {func(c *Config) { c.SegmentName = "a:b" }, "127.0.0.1_name-a_3ab", true},
		"te port":  {func(c *Config) { c.TEPort = 20000 }, "127.0.0.1_te20000", true},
		"data":     {func(c *Config) { c.DataPort = 20001 }, "127.0.0.1_data20001", true},
		"http":     {func(c *Config) { c.HTTPPort = 9300 }, "127.0.0.1_http9300", true},
		"ipv6":     {func(c *Config) { c.LocalHostname = "::1" }, "_3a_3a1_any", false},
		"the path": {func(c *Config) { c.SegmentName = "../../etc" }, "127.0.0.1_name-.._2f.._2fetc", true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := smallConfig(t)
			c.change(cfg)
			got, only := cfg.identity()
			if got != c.want || only != c.only {
				t.Errorf("%q %v, want %q %v", got, only, c.want, c.only)
			}
			if filepath.Dir(arenaPath(cfg, got)) != cfg.ShmDir {
				t.Error("the name leads out of the directory")
			}
		})
	}
}
