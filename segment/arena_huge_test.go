package segment

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
	"mooncake/rdma"
)

// memoryDir is a folder on a memory file system.
func memoryDir(t *testing.T) string {
	t.Helper()
	const shm, want = "/dev/shm", 64 << 20
	var fs unix.Statfs_t
	if err := unix.Statfs(shm, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < want {
		t.Fatalf("%s has %d bytes free, %d are wanted (%v)", shm, fs.Bavail*uint64(fs.Bsize), want, err)
	}
	dir, err := os.MkdirTemp(shm, "mooncake-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// memoryArena is an arena of so many bytes on a memory file system, where a kernel may have huge pages.
func memoryArena(t *testing.T, size uint64, huge bool) *Arena {
	t.Helper()
	c := smallConfig(t)
	c.ShmDir, c.SegmentBytes = memoryDir(t), size
	cl, err := claimArena(c)
	if err != nil {
		t.Fatal(err)
	}
	a, err := mapArena(cl, size, huge)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Remove() })
	return a
}

// counts tells how many blocks that somebody asked for, and what came of it.
func (h *hugeBlocks) counts() (asked, got, refused int) {
	for i := range h.asked {
		for w := h.asked[i].Load(); w != 0; w &= w - 1 {
			asked++
		}
	}
	return asked, int(h.got.Load()), limits.SegmentHugeRefusals - int(h.tries.Load())
}

func TestBlocksAreFoundWhereBytesGo(t *testing.T) {
	const size = 5*hugeBytes + 100
	for _, c := range []struct {
		name     string
		at, size uint64
		blocks   int
	}{
		{"nothing", 0, 0, 0},
		{"the first byte", 0, 1, 1},
		{"the last byte of a block", hugeBytes - 1, 1, 1},
		{"over a border", hugeBytes - 1, 2, 2},
		{"a block", hugeBytes, hugeBytes, 1},
		{"all", 0, size, 5},
		{"behind the last whole block", 5 * hugeBytes, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := memoryArena(t, size, true)
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(a.mapped))); at%hugeBytes != 0 {
				t.Errorf("mapped at %#x", at)
			}
			a.ready(c.at, c.size)
			a.ready(c.at, c.size)
			asked, got, refused := a.huge.counts()
			t.Logf("%d blocks asked for, %d huge, %d refusals", asked, got, refused)
			if asked != c.blocks || got != asked && refused == 0 || got > asked {
				t.Errorf("%d blocks asked for, %d huge, %d refusals, want %d", asked, got, refused, c.blocks)
			}
			if a.hugeResident() != uint64(got)*hugeBytes {
				t.Errorf("%d bytes for %d blocks", a.hugeResident(), got)
			}
			there := 0
			for at := 0; at < 5*hugeBytes; at += hugeBytes {
				if rdma.Resident(a.mapped[at:at+hugeBytes]) == hugeBytes {
					there++
				}
			}
			if there < got {
				t.Errorf("%d blocks are there as a whole, %d are said to be huge", there, got)
			}
			if !bytes.Equal(a.Bytes(), make([]byte, size)) {
				t.Error("new memory is not zero")
			}
		})
	}
}

func TestBlocksThatAreLeftAlone(t *testing.T) {
	a := memoryArena(t, 3*hugeBytes, true)
	scarce := true
	a.heed(func() bool { return scarce }, func(error) {})
	a.ready(0, hugeBytes)
	if asked, _, _ := a.huge.counts(); asked != 0 || rdma.Resident(a.mapped) != 0 {
		t.Errorf("%d blocks asked for while memory is scarce", asked)
	}
	scarce = false
	for at := 0; at < hugeBytes; at += pageBytes { // it has pages already
		a.mapped[at] = 7
	}
	a.ready(0, hugeBytes)
	if asked, got, refused := a.huge.counts(); asked != 1 || got != 0 || refused != 0 {
		t.Errorf("%d asked for, %d huge, %d refused: a block with pages", asked, got, refused)
	}
	a.huge.tries.Store(0)
	a.ready(hugeBytes, 1)
	if asked, _, _ := a.huge.counts(); asked != 1 {
		t.Errorf("%d blocks asked for after the last refusal", asked)
	}
}

// TestDearBlocks has writes find small pages once huge ones were dear often enough, and whoever finds memory ahead go on with huge ones,
// which makes writes try again when they have become cheap.
func TestDearBlocks(t *testing.T) {
	a := memoryArena(t, 6*hugeBytes, true)
	const cheap, dear = limits.SegmentHugeDearUs * time.Microsecond, limits.SegmentHugeDearUs*time.Microsecond + 1
	for _, step := range []struct {
		blocks uint64
		cost   time.Duration // of each
		asks   bool          // whether a write asks for a block after it
	}{
		{limits.SegmentHugeDear - 1, dear, true},
		{1, cheap, true},
		{limits.SegmentHugeDear - 1, dear, true},
		{1, dear, false},
		{1, cheap, true},
		{1 << 32, dear, false},
	} {
		a.huge.count(step.blocks, time.Duration(step.blocks)*step.cost)
		kept := a.huge.dear.Load()
		before, _, _ := a.huge.counts()
		a.ready(uint64(before)*hugeBytes, 1)
		after, _, _ := a.huge.counts()
		if asks := after > before; asks != step.asks {
			t.Errorf("%d blocks for %v each: a write asks for a block: %v", step.blocks, step.cost, asks)
		}
		a.huge.dear.Store(kept) // what the block itself cost does not count here
	}
	before, _, _ := a.huge.counts()
	if err := a.find(0); err != nil {
		t.Fatal(err)
	}
	if after, _, _ := a.huge.counts(); after <= before {
		t.Errorf("%d blocks asked for, and %d when memory is found ahead", before, after)
	}
}

// TestRefusalsEnd has the kernel refuse every block: after a few nobody asks, and that is told once.
func TestRefusalsEnd(t *testing.T) {
	a := memoryArena(t, (limits.SegmentHugeRefusals+2)*hugeBytes, true)
	told := 0
	a.heed(func() bool { return false }, func(error) { told++ })
	for block := range uint64(limits.SegmentHugeRefusals + 2) {
		// What is mapped for reading only cannot be found for writing.
		if err := unix.Mprotect(a.mapped, unix.PROT_READ); err != nil {
			t.Fatal(err)
		}
		a.ready(block*hugeBytes, 1)
	}
	if asked, got, refused := a.huge.counts(); asked != limits.SegmentHugeRefusals || got != 0 || refused != asked || told != 1 {
		t.Errorf("%d blocks asked for, %d huge, %d refused, told %d times", asked, got, refused, told)
	}
	if err := unix.Mprotect(a.mapped, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	a.mapped[0] = 1 // as before
	memoryArena(t, 3*hugeBytes, false).ready(0, 1)
}

// TestBlocksUnderWriters has many write into the same new blocks, each to its own bytes.
func TestBlocksUnderWriters(t *testing.T) {
	const writers, piece, size = 8, 10_007, 8 * hugeBytes
	a := memoryArena(t, size, true)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for at := w * piece; at+piece <= size; at += writers * piece {
				a.ready(uint64(at), piece)
				for i := range piece {
					a.Bytes()[at+i] = byte(w + 1)
				}
			}
		})
	}
	all.Wait()
	for at := 0; at+piece <= size; at += piece {
		want := bytes.Repeat([]byte{byte(at/piece%writers + 1)}, piece)
		if !bytes.Equal(a.Bytes()[at:at+piece], want) {
			t.Fatalf("bytes at %d are not what was written there", at)
		}
	}
}
