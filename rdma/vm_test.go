//go:build rdmavm

package rdma

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"mooncake/descriptor"
)

// These tests need two devices, rxe0 and rxe1, that reach each other, and the rights to break them: they run in the emulated
// machine of the tests of package interop.

const self = "192.168.99.1:17001"

const base = 0x5a00_0000_0000

// rxe chooses devices as the daemon does.
func rxe(t *testing.T, names ...string) []Verdict {
	t.Helper()
	devices, err := Scan("/")
	must(t, err)
	choice, err := Choose(devices, Wish{Names: names, NUMA: -1, GIDIndex: -1})
	t.Logf("%s", choice.Table())
	must(t, err)
	return choice.Chosen()
}

func openVM(t *testing.T, cfg Config) *Fabric {
	t.Helper()
	if cfg.Rails == nil {
		cfg.Rails = rxe(t, "rxe0")
	}
	if cfg.Log == nil {
		cfg.Log = zaptest.NewLogger(t)
	}
	f, err := OpenFabric(cfg)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-done)
		must(t, f.Close())
	})
	return f
}

func verbsOf(t *testing.T) layer {
	t.Helper()
	l, err := library()
	must(t, err)
	return l
}

// resources counts what the kernel holds for all processes, by the words of the rdma tool.
func resources(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rdma", "res").CombinedOutput()
	if err != nil {
		t.Fatalf("rdma res: %v: %s", err, out)
	}
	return string(out)
}

func run(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// eventually waits for something that other threads and the kernel do in their own time.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// TestVMServes lets a client write and read through the passive side, over part borders, and refuses what it may not.
func TestVMServes(t *testing.T) {
	before := resources(t)
	t.Run("", func(t *testing.T) {
		f := openVM(t, Config{PartBytes: 2 << 20})
		mem := mapped(t, 9<<20)
		region, err := f.Register(t.Context(), mem, base, func(done, total uint64) { t.Logf("registered %d of %d", done, total) })
		must(t, err)
		devices, buffers := region.Publish()
		t.Logf("%+v %+v", devices, buffers)
		w := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15001")
		defer w.vanish()
		w.connect(f, self, "rxe0", 2)
		segment := descriptor.Segment{Buffers: buffers}
		for i, size := range []int{1, 4096, 65536, 1 << 20} {
			at := uint64(base + 2<<20 - size/2)
			b := segment.Remote(at, uint64(size))
			for j := range size {
				w.mem[j] = byte(rand.Uint32())
			}
			must(t, w.do(i%2, opWrite, 0, size, at, b.RKey[0]))
			must(t, w.do(i%2, opRead, 2<<20, size, at, b.RKey[0]))
			if !bytes.Equal(w.mem[:size], w.mem[2<<20:2<<20+size]) || !bytes.Equal(w.mem[:size], mem[at-base:at-base+uint64(size)]) {
				t.Errorf("%d bytes differ", size)
			}
		}
		if err := w.do(0, opRead, 0, 64, base+9<<20-32, buffers[len(buffers)-1].RKey[0]); err == nil || !strings.Contains(err.Error(), "remote access") {
			t.Errorf("reading beyond the end: %v", err)
		}
		eventually(t, "the peer that asked for too much is disconnected", func() bool { return f.Stats().QPs == 0 })
		w.dropPairs()
		w.connect(f, self, "rxe0", 2) // and may come again
		must(t, w.do(1, opRead, 0, 64, base, buffers[0].RKey[0]))
	})
	if after := resources(t); after != before {
		t.Errorf("resources before:\n%safter:\n%s", before, after)
	}
}

// TestVMProbes reaps a peer that vanished and keeps one that is there.
func TestVMProbes(t *testing.T) {
	f := openVM(t, Config{Timeout: 14, ProbeEvery: 300 * time.Millisecond})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	key := region.Describe()[0].RKey[0]
	stays := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15001")
	defer stays.vanish()
	stays.connect(f, self, "rxe0", 2)
	goes := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15002")
	goes.connect(f, self, "rxe0", 4)
	must(t, goes.do(3, opWrite, 0, 100, base, key))
	eventually(t, "both have answered", func() bool {
		s := f.Stats()
		return len(s.Peers) == 2 && !s.Peers[0].Answered.IsZero() && !s.Peers[1].Answered.IsZero()
	})
	goes.vanish()
	eventually(t, "the vanished peer is reaped", func() bool { return f.Stats().QPs == 2 })
	must(t, stays.do(0, opWrite, 0, 100, base, key))
	must(t, stays.do(1, opRead, 0, 100, base, key))
	t.Logf("%+v", f.Stats())
}
