package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// claim is a daemon's hold on one arena name: the locked file, not yet mapped, and what an earlier run left there.
type claim struct {
	name      string // the part of the file names that is this daemon's
	file      *os.File
	arenaPath string
	statePath string
	// state is the earlier run's identity when it is to be taken up again, nil for a first start.
	state *State
	// sealed is the exact text of state.
	sealed []byte
	// wanted are ports of an earlier run whose arena is gone; they are taken again if they are free.
	wanted *State
	notes  []string
}

// errHeld says that a living daemon holds the arena.
var errHeld = errors.New("held by another daemon")

// identity is the part of an arena's file name that a restart finds again, and whether it can only mean one daemon.
// Without a name or a port of its own a daemon is one of several; then the name gets a number.
func (c *Config) identity() (name string, only bool) {
	host := fileSafe(c.host())
	switch {
	case c.SegmentName != "":
		return host + "_name-" + fileSafe(c.SegmentName), true
	case c.TEPort != 0:
		return fmt.Sprintf("%s_te%d", host, c.TEPort), true
	case c.DataPort != 0:
		return fmt.Sprintf("%s_data%d", host, c.DataPort), true
	case c.HTTPPort > 0:
		return fmt.Sprintf("%s_http%d", host, c.HTTPPort), true
	}
	return host + "_any", false
}

// fileSafe keeps letters, digits, dots and dashes; anything else becomes an underscore and two hex digits.
func fileSafe(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	out := b.String()
	if len(out) > limits.SegmentFileNameBytes {
		out = out[:limits.SegmentFileNameBytes]
	}
	return out
}

// claimArena finds and locks the arena of this configuration. For a daemon with an identity of its own that is one
// file, and anything there that does not fit is an error. For one of several, the first free arena that fits is taken
// up again; one that does not fit or is damaged is left alone with a note, and a new one is made.
func claimArena(c *Config) (*claim, error) {
	name, only := c.identity()
	if only {
		cl, err := claimOne(c, name)
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("arena %s is held by another daemon on this host: give this one its own --segment_name, --te_port or --http_port", arenaPath(c, name))
		}
		return cl, err
	}
	taken := slotsPresent(c, name)
	var notes []string
	for i := range limits.SegmentsPerHost {
		if !taken[i] {
			continue
		}
		cl, err := claimOne(c, name+strconv.Itoa(i))
		var old *leftover
		switch {
		case errors.Is(err, errHeld):
			continue
		case errors.As(err, &old):
			notes = append(notes, err.Error()+" (left alone)")
			continue
		case err != nil:
			return nil, err
		}
		cl.notes = append(cl.notes, notes...)
		return cl, nil
	}
	for i := range limits.SegmentsPerHost {
		if taken[i] {
			continue
		}
		cl, err := claimOne(c, name+strconv.Itoa(i))
		if errors.Is(err, errHeld) { // another daemon that starts at this moment was quicker
			continue
		}
		if err != nil {
			return nil, err
		}
		cl.notes = append(cl.notes, notes...)
		return cl, nil
	}
	return nil, fmt.Errorf("%d arenas named %s* are in %s, no more are allowed", limits.SegmentsPerHost, name, c.ShmDir)
}

// slotsPresent finds the numbers of which an arena or a state file exists.
func slotsPresent(c *Config, name string) map[int]bool {
	present := make(map[int]bool)
	look := func(dir, suffix string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return // the lock file cannot be made there either, and that error names the flag
		}
		for _, e := range entries {
			digits, ok := strings.CutPrefix(e.Name(), arenaPrefix+name)
			if !ok {
				continue
			}
			if digits, ok = strings.CutSuffix(digits, suffix); !ok {
				continue
			}
			if n, err := strconv.Atoi(digits); err == nil && n >= 0 && n < limits.SegmentsPerHost {
				present[n] = true
			}
		}
	}
	look(c.ShmDir, arenaSuffix)
	look(c.stateDir(), stateSuffix)
	return present
}

const (
	arenaPrefix = "mooncake-segment_"
	arenaSuffix = ".arena"
	stateSuffix = ".json"
)

func arenaPath(c *Config, name string) string {
	return filepath.Join(c.ShmDir, arenaPrefix+name+arenaSuffix)
}

func statePath(c *Config, name string) string {
	return filepath.Join(c.stateDir(), arenaPrefix+name+stateSuffix)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// leftover is an error about what an earlier run left under a name; the name itself could be locked.
type leftover struct{ err error }

func (l *leftover) Error() string { return l.err.Error() }
func (l *leftover) Unwrap() error { return l.err }

// claimOne locks one arena name and decides what its files mean.
func claimOne(c *Config, name string) (*claim, error) { return claimName(c, name, nil) }

// claimName is claimOne; with the state of a daemon's first extent it is about a further one of that daemon.
func claimName(c *Config, name string, first *State) (*claim, error) {
	cl := &claim{name: name, arenaPath: arenaPath(c, name), statePath: statePath(c, name)}
	f, err := lockFile(cl.arenaPath)
	if err != nil {
		return nil, err
	}
	cl.file = f
	removeUnfinished(cl.statePath)
	if err := cl.inspect(c, first); err != nil {
		f.Close()
		return nil, &leftover{err}
	}
	return cl, nil
}

// removeUnfinished removes what a daemon left that was killed while it wrote its state file. The lock of the arena is held, so
// nobody is writing now.
func removeUnfinished(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // whoever reads the state file tells of it
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+unfinishedMark) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // what cannot be removed does no harm
		}
	}
}

// inspect reads the state file and the arena's seal and says whether the segment is taken up again. Only pairs that
// were written by one run are; a lost half is made good where nothing can be mixed up by it.
func (cl *claim) inspect(c *Config, first *State) error {
	if c.Fresh {
		return cl.empty("--fresh")
	}
	info, err := cl.file.Stat()
	if err != nil {
		return err
	}
	state, text, err := readState(cl.statePath)
	if err != nil && !errors.Is(err, errNoState) {
		return err
	}
	if info.Size() == 0 {
		if state != nil {
			cl.wanted = state
			cl.notes = append(cl.notes, fmt.Sprintf("the arena of state file %s is gone: starting with an empty segment", cl.statePath))
		}
		return nil
	}
	sealed, sealErr := readSeal(cl.file, info.Size())
	switch {
	case state == nil && sealErr != nil:
		// The seal is written before anything is announced, so nobody knows of these bytes.
		return cl.empty("it was never finished")
	case state == nil:
		if state, err = parseState(sealed); err != nil {
			return fmt.Errorf("arena %s has no state file and its seal is damaged (%w): --fresh discards it", cl.arenaPath, err)
		}
		text = sealed
		if err := writeState(cl.statePath, text); err != nil {
			return err
		}
		cl.notes = append(cl.notes, fmt.Sprintf("state file %s was missing and has been restored from the arena", cl.statePath))
	case sealErr != nil:
		return fmt.Errorf("arena %s is damaged (%w): its bytes cannot be trusted; --fresh discards it", cl.arenaPath, sealErr)
	case string(sealed) != string(text):
		return fmt.Errorf("arena %s and state file %s belong to different runs: --fresh discards both", cl.arenaPath, cl.statePath)
	}
	if info.Size() != fileBytes(state.Size) {
		return fmt.Errorf("arena %s has %d bytes where its state says %d: --fresh discards it", cl.arenaPath, info.Size(), fileBytes(state.Size))
	}
	if first != nil {
		err = state.continues(first)
	} else {
		err = state.fits(c, furtherBytes(c, cl.name))
	}
	if err != nil {
		return fmt.Errorf("arena %s of an earlier run does not fit: %w; start once with the old values, or discard it with --fresh", cl.arenaPath, err)
	}
	cl.state, cl.sealed = state, text
	return nil
}

// empty throws away what the files hold and keeps the lock.
func (cl *claim) empty(why string) error {
	info, err := cl.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 || exists(cl.statePath) {
		cl.notes = append(cl.notes, fmt.Sprintf("what arena %s held is discarded: %s", cl.arenaPath, why))
	}
	if err := os.Remove(cl.statePath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return cl.file.Truncate(0)
}

// missingBytes is how much memory the segment still needs: pages that an earlier run filled are there already.
func (cl *claim) missingBytes(size uint64) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(cl.file.Fd()), &st); err != nil {
		return 0, err
	}
	const statBlockBytes = 512
	return size - min(size, uint64(st.Blocks)*statBlockBytes), nil
}

// abandon gives a claim up because the start failed: what this start made is removed, what was there before stays.
func (cl *claim) abandon() {
	if cl.state == nil {
		os.Remove(cl.arenaPath)
	}
	cl.file.Close()
}

// lockFile opens or makes an arena file of our own and takes its lock, without waiting. The lock goes with the process,
// however it ends.
func lockFile(path string) (*os.File, error) {
	for range limits.SegmentLockTries {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("cannot open the arena: %w (--shm_dir)", err)
		}
		err = checkOwn(f)
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, errHeld
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("arena %s: %w", path, err)
		}
		// Between open and lock a leaving daemon may have removed the name; then this lock guards nothing.
		same, err := sameFile(f, path)
		if err == nil && same {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("arena %s keeps changing while it is being locked", path)
}

func sameFile(f *os.File, path string) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

// checkOwn refuses a file that somebody else put where every user may write.
func checkOwn(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("not a regular file")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("owned by user %d, not by %d", st.Uid, os.Geteuid())
	case st.Nlink != 1:
		return errors.New("has another name as well")
	case st.Mode&0o077 != 0:
		return fmt.Errorf("mode %04o lets other users in, want 0600", st.Mode&0o777)
	}
	return nil
}

// readFull reads until p is full or the file ends.
func readFull(r io.Reader, p []byte) (int, error) {
	n, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return n, err
}
