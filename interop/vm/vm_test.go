package vm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two entries and the end, byte for byte as the format is described: a fault here shows only as a guest that hangs.
func TestCpio(t *testing.T) {
	var c cpio
	c.dir("d")
	c.file("d/f", 0o755, []byte("hello"))
	want := "070701" + "00000001" + "000041ED" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000002" + "00000000" + "d\x00" +
		"070701" + "00000002" + "000081ED" + "00000000" + "00000000" + "00000001" + "00000000" + "00000005" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000004" + "00000000" + "d/f\x00" + "\x00\x00" + "hello\x00\x00\x00" +
		"070701" + "00000001" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "0000000B" + "00000000" + "TRAILER!!!\x00" + "\x00\x00\x00"
	if got := string(c.end()); got != want {
		t.Errorf("archive\n%q\nwant\n%q", got, want)
	}
}

func TestCompareClocks(t *testing.T) {
	for _, c := range []struct {
		guest, host time.Duration
		wild        bool
	}{
		{0, 0, false},
		{10 * time.Second, 10 * time.Second, false},
		{12 * time.Second, 8 * time.Second, false},   // a late report
		{60 * time.Second, 55 * time.Second, false},  // within rate and slack
		{20 * time.Second, 8 * time.Second, true},    // two and a half times as fast
		{300 * time.Second, 120 * time.Second, true}, // seen on a busy host
		{100 * time.Second, 300 * time.Second, true}, // too slow is as bad: limits of programs last for ever
	} {
		err := compareClocks(c.guest, c.host)
		if wild := errors.Is(err, ErrClock); wild != c.wild || (err != nil) != wild {
			t.Errorf("guest %v, host %v: %v", c.guest, c.host, err)
		}
	}
}

func TestOver(t *testing.T) {
	for _, c := range []struct {
		elapsed, starved time.Duration
		over             bool
	}{
		{9 * time.Minute, 0, false},
		{10 * time.Minute, 0, true},
		{15 * time.Minute, 6 * time.Minute, false},
		{15 * time.Minute, 5 * time.Minute, true},
		{30 * time.Minute, 25 * time.Minute, true},
	} {
		if got := over(c.elapsed, c.starved, 10*time.Minute); got != c.over {
			t.Errorf("%v, %v of it starved: %v", c.elapsed, c.starved, got)
		}
	}
	for text, want := range map[string]time.Duration{"3063 37769421634 2519\n": 37769421634, "": 0, "1": 0, "a b c": 0, "1 99999999999999999999 2": 0} {
		if got := queued([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if got := starvation(os.Getpid()); got < 0 {
		t.Errorf("this process: %v", got)
	}
}

// TestKeepLimit ends a run that does nothing.
func TestKeepLimit(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	keepLimit(ctx, cancel, os.Getpid(), 0)
	if err := context.Cause(ctx); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
}

func TestWatch(t *testing.T) {
	seven := 7
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		reports []Report
		every   time.Duration
		status  int
		err     error
	}{
		"ends well":  {[]Report{{Ready: true}, {Tick: time.Second}, {Tick: 2 * time.Second}, {Exit: &seven}}, time.Second, 7, nil},
		"never up":   {nil, 0, 0, errNeverReady},
		"gives up":   {[]Report{{Failed: "no overlay"}}, 0, 0, ErrGuest},
		"dies":       {[]Report{{Ready: true}, {Tick: time.Second}}, time.Second, 0, ErrGuest},
		"wild clock": {[]Report{{Ready: true}, {Tick: time.Second}, {Tick: 20 * time.Second}, {Exit: &seven}}, time.Second, 0, ErrClock},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		w := &watch{cancel: cancel}
		for i, r := range c.reports {
			w.take(r, now.Add(time.Duration(i)*c.every))
		}
		status, err := w.outcome(context.Cause(ctx), nil)
		if status != c.status || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v", name, status, err)
		}
		cancel(nil)
	}
}

func TestJob(t *testing.T) {
	j := Job{Command: []string{"true"}}.withDefaults(64)
	if j.CPUs != maxCPUs || j.Nodes != DefaultNodes || j.MemMiB != DefaultMemMiB || j.Limit != DefaultLimit || j.Dir != "/" {
		t.Errorf("defaults: %+v", j)
	}
	if one := (Job{}).withDefaults(1); one.CPUs != 1 {
		t.Errorf("defaults on a small machine: %+v", one)
	}
	if err := j.check(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Job{{}, {Command: j.Command, Nodes: 17, Accel: "tcg"}, {Command: j.Command, Nodes: 2, Accel: "xen"}} {
		if bad.check() == nil {
			t.Errorf("accepted: %+v", bad)
		}
	}
}

// bzImage is a kernel file with the given compressed payload.
func bzImage(payload []byte) []byte {
	const sectors, offset = 2, 64
	out := make([]byte, (sectors+1)*512+offset)
	out[setupSectors] = sectors
	binary.LittleEndian.PutUint32(out[payloadOffset:], offset)
	binary.LittleEndian.PutUint32(out[payloadLength:], uint32(len(payload)+4))
	return append(append(out, payload...), 1, 2, 3, 4)
}

func TestUnpackImage(t *testing.T) {
	packed := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	got, err := unpackImage(t.Context(), bzImage(packed("\x7fELF and more")))
	if err != nil || string(got) != "\x7fELF and more" {
		t.Errorf("%q, %v", got, err)
	}
	good := bzImage(packed("\x7fELF and more"))
	for name, image := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)-10], "no ELF": bzImage(packed("MZ")), "other compression": bzImage([]byte("????????")),
	} {
		if _, err := unpackImage(t.Context(), image); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestModulesOfWrongKernel(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "9p.ko"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openModules(dir); err == nil || !strings.Contains(err.Error(), "rdma_rxe") {
		t.Errorf("%v", err)
	}
}
