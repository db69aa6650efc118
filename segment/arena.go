package segment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// Arena is the memory of one segment: a named, locked file of shared memory, mapped once for the life of the process.
// It outlives the process unless Remove is called.
type Arena struct {
	claim  *claim
	mapped []byte
	size   uint64
	fresh  bool        // made by this start
	huge   *hugeBlocks // nil with small pages only
}

// Bytes is exactly the announced segment; the slice is valid until Close.
func (a *Arena) Bytes() []byte { return a.mapped[:a.size:a.size] }

// Path names the file, for logs.
func (a *Arena) Path() string { return a.claim.arenaPath }

// mapArena sizes the claimed file and maps it. For a claim that is taken up again the contents stay as they are.
func mapArena(cl *claim, size uint64, hugePages bool) (*Arena, error) {
	if size > math.MaxInt64-sealBytes-pageBytes || fileBytes(size) > math.MaxInt {
		return nil, fmt.Errorf("a segment of %d bytes cannot be mapped", size)
	}
	if cl.state == nil {
		if err := cl.file.Truncate(fileBytes(size)); err != nil {
			return nil, fmt.Errorf("cannot size arena %s to %d bytes: %w", cl.arenaPath, fileBytes(size), err)
		}
	}
	mapped, err := mapAligned(int(cl.file.Fd()), int(fileBytes(size)))
	if err != nil {
		return nil, fmt.Errorf("cannot map arena %s: %w", cl.arenaPath, err)
	}
	if hugePages {
		// Advice only: kernels without huge pages for shared memory answer EINVAL and nothing is lost.
		_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE)
	}
	// A core dump of the daemon is about the daemon, not about terabytes of other people's tensors.
	_ = unix.Madvise(mapped, unix.MADV_DONTDUMP)
	a := &Arena{claim: cl, mapped: mapped, size: size, fresh: cl.state == nil}
	if hugePages {
		a.huge = newHugeBlocks(len(mapped))
	}
	return a, nil
}

// seal writes the identity into the arena and then beside it; from here on a crash can be recovered from.
func (a *Arena) seal(s *State) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	page, err := encodeSeal(text)
	if err != nil {
		return err
	}
	if _, err := a.claim.file.WriteAt(page, fileBytes(a.size)-sealBytes); err != nil {
		return fmt.Errorf("cannot write to arena %s: %w", a.claim.arenaPath, err)
	}
	if err := writeState(a.claim.statePath, text); err != nil {
		return fmt.Errorf("cannot write state file: %w (--state_dir)", err)
	}
	a.claim.state, a.claim.sealed = s, text
	return nil
}

// slice is how much memory is found at a time: n of SegmentPrefaultBytes from at on, fewer at the end.
func (a *Arena) slice(at uint64) []byte {
	return a.mapped[at:min(at+limits.SegmentPrefaultBytes, uint64(len(a.mapped)))]
}

// find makes the kernel find the pages of a slice. What is there already, and what peers write meanwhile, stays as it is.
func (a *Arena) find(at uint64) error {
	part := a.slice(at)
	a.enlarge(at, uint64(len(part)))
	err := unix.Madvise(part, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) { // before Linux 5.14: at least the pages are there then
		err = unix.Fallocate(int(a.claim.file.Fd()), 0, int64(at), int64(len(part)))
	}
	if err != nil {
		return fmt.Errorf("cannot get memory for arena %s: %w (--populate)", a.claim.arenaPath, err)
	}
	return nil
}

// Close unmaps and unlocks; file and state stay for the next start.
func (a *Arena) Close() error {
	err := unmap(a.mapped)
	a.mapped = nil
	if cerr := a.claim.file.Close(); err == nil {
		err = cerr
	}
	return err
}

// Remove deletes arena and state and then closes. The state goes first: an arena without one is recovered from its
// seal, while a state without an arena could promise bytes that are gone.
func (a *Arena) Remove() error {
	err := os.Remove(a.claim.statePath)
	if rerr := os.Remove(a.claim.arenaPath); err == nil {
		err = rerr
	}
	if cerr := a.Close(); err == nil {
		err = cerr
	}
	return err
}

// abandon gives everything up because the start failed: what this start made is removed, what was there before stays.
func (a *Arena) abandon() {
	if a.fresh {
		_ = a.Remove() // the start's own error is the one to tell
		return
	}
	_ = a.Close()
}

// newBase picks the announced address of a new segment. It is no pointer, only a number that peers add offsets to. It
// is drawn anew for every segment, so that addresses of an earlier segment at the same endpoint fall outside this one
// and are refused instead of served with other bytes.
func newBase(size uint64) uint64 {
	const align = 2 << 20
	span := (limits.SegmentBaseHigh - limits.SegmentBaseLow - size) / align
	return limits.SegmentBaseLow + rand.Uint64N(span)*align
}
