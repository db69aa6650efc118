package replication

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// crashDisk does what it is told with real files and remembers it, so that a test can make the directory that a loss of
// power at any moment leaves behind.
type crashDisk struct {
	osDisk
	mu    sync.Mutex
	steps []diskStep
}

type diskStep struct {
	kind byte // 'c' create, 'w' write, 's' sync, 'r' reserve, 'm' rename, 'd' remove, 't' truncate, 'n' names are synced
	path string
	to   string
	at   int64
	data []byte
}

// do does a step and remembers it. Steps are in the order in which they were done.
func (d *crashDisk) do(s diskStep, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.path, s.to = filepath.Base(s.path), filepath.Base(s.to)
	d.steps = append(d.steps, s)
	return do()
}

func (d *crashDisk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.steps)
}

func (d *crashDisk) create(path string) (f diskFile, err error) {
	err = d.do(diskStep{kind: 'c', path: path}, func() error { f, err = d.osDisk.create(path); return err })
	return &crashFile{diskFile: f, d: d, path: path}, err
}

func (d *crashDisk) rename(from, to string) error {
	return d.do(diskStep{kind: 'm', path: from, to: to}, func() error { return d.osDisk.rename(from, to) })
}

func (d *crashDisk) remove(path string) error {
	return d.do(diskStep{kind: 'd', path: path}, func() error { return d.osDisk.remove(path) })
}

func (d *crashDisk) truncate(path string, size int64) error {
	return d.do(diskStep{kind: 't', path: path, at: size}, func() error { return d.osDisk.truncate(path, size) })
}

func (d *crashDisk) syncDir(dir string) error {
	return d.do(diskStep{kind: 'n', path: dir}, func() error { return nil }) // what is synced is for this test to say
}

type crashFile struct {
	diskFile
	d    *crashDisk
	path string
	at   int64
}

func (f *crashFile) Write(p []byte) (n int, err error) {
	n, err = f.WriteAt(p, f.at)
	f.at += int64(n)
	return n, err
}

func (f *crashFile) WriteAt(p []byte, at int64) (n int, err error) {
	err = f.d.do(diskStep{kind: 'w', path: f.path, at: at, data: slices.Clone(p)}, func() error { n, err = f.diskFile.WriteAt(p, at); return err })
	return n, err
}

func (f *crashFile) reserve(bytes int64) error {
	return f.d.do(diskStep{kind: 'r', path: f.path, at: bytes}, func() error { return f.diskFile.reserve(bytes) })
}

func (f *crashFile) sync() error {
	return f.d.do(diskStep{kind: 's', path: f.path}, func() error { return nil })
}

// image is a directory as it lies on a disk: what is durable, and what was only asked for.
type image struct {
	names   map[string]*content // as every process sees them
	kept    map[string]*content // as they are after a loss of power
	renamed []func(names map[string]*content)
}

type content struct {
	kept    []byte
	pending []diskStep
}

func newImage() *image { return &image{names: map[string]*content{}, kept: map[string]*content{}} }

// name changes names: at once for processes, after the next sync for good.
func (i *image) name(change func(names map[string]*content)) {
	change(i.names)
	i.renamed = append(i.renamed, change)
}

func (i *image) apply(s diskStep) {
	switch s.kind {
	case 'c':
		if old := i.names[s.path]; old != nil {
			old.pending = append(old.pending, s)
			return
		}
		made := &content{}
		i.name(func(names map[string]*content) { names[s.path] = made })
	case 'w', 'r':
		c := i.names[s.path]
		c.pending = append(c.pending, s)
	case 's', 't':
		c := i.names[s.path]
		for _, p := range c.pending {
			c.change(p, nil)
		}
		if c.pending = nil; s.kind == 't' {
			c.kept = c.kept[:s.at]
		}
	case 'm':
		moved := i.names[s.path]
		i.name(func(names map[string]*content) { delete(names, s.path); names[s.to] = moved })
	case 'd':
		i.name(func(names map[string]*content) { delete(names, s.path) })
	case 'n':
		i.kept, i.renamed = maps.Clone(i.names), nil
	}
}

// change does a step to the bytes on the disk. With dice, only some sectors of a write get there.
func (c *content) change(s diskStep, dice *rand.Rand) {
	const sector = 512
	switch s.kind {
	case 'c':
		c.kept = nil
	case 'r':
		c.grow(s.at)
	case 'w':
		for from := int64(0); from < int64(len(s.data)); {
			to := min(int64(len(s.data)), (s.at+from)/sector*sector+sector-s.at)
			if dice == nil || dice.IntN(2) > 0 {
				c.grow(s.at + to)
				copy(c.kept[s.at+from:s.at+to], s.data[from:to])
			}
			from = to
		}
	}
}

func (c *content) grow(size int64) {
	if size > int64(len(c.kept)) {
		c.kept = append(c.kept, make([]byte, size-int64(len(c.kept)))...)
	}
}

// lose writes down what a loss of power may leave: names up to some change, and of what was not synced nothing, all, or
// some sectors of some writes.
func (i *image) lose(t *testing.T, dice *rand.Rand) (dir string) {
	t.Helper()
	names := maps.Clone(i.kept)
	for _, change := range i.renamed[:dice.IntN(len(i.renamed)+1)] {
		change(names)
	}
	dir = t.TempDir()
	for name, c := range names {
		left := &content{kept: slices.Clone(c.kept)}
		switch dice.IntN(3) {
		case 0:
		case 1:
			for _, p := range c.pending {
				left.change(p, nil)
			}
		default:
			for _, p := range c.pending {
				if dice.IntN(2) > 0 {
					left.change(p, dice)
				}
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), left.kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLossOfPower loses the power after every step that a journal takes with the disk, and after the steps of the start
// that follows: what was durable is there, nothing else is but whole records, and nothing counts as damage. A journal that
// does not wait for the disk must not pass: that is the control.
func TestLossOfPower(t *testing.T) {
	seed := uint64(1)
	if os.Getenv("MOONCAKE_RANDOM") != "" {
		seed = rand.Uint64()
	}
	if err := losePower(t, SyncAlways, seed); err != nil {
		t.Errorf("seed %d, %v", seed, err)
	}
	if err := losePower(t, SyncNever, seed); err == nil {
		t.Errorf("seed %d: a journal that waits for no disk loses nothing", seed)
	}
}

func losePower(t *testing.T, how Sync, seed uint64) error {
	dice := rand.New(rand.NewPCG(seed, 1))
	disk := &crashDisk{}
	m := open(t, Config{Dir: t.TempDir(), Sync: how, FileBytes: 1 << 13, SnapshotBytes: 1 << 12, disk: disk})
	m.dice = dice
	states := map[uint64]string{}
	durable := map[int]uint64{} // after so many steps
	settle := func() {
		number := m.settle()
		states[number] = m.describe()
		durable[disk.count()] = number
	}
	settle()
	m.mount(1, 40_000)
	settle()
	for range 150 {
		m.step()
		settle()
	}
	m.awaitSnapshot()
	m.close()
	if stats := m.journal.Stats(); stats.Snapshots < 2 || stats.Files < 3 {
		t.Fatalf("too little happened: %+v", stats)
	}
	now, promised := newImage(), uint64(0)
	for at, step := range disk.steps {
		now.apply(step)
		promised = max(promised, durable[at+1])
		what := fmt.Sprintf("after step %d of %d (%c %s)", at+1, len(disk.steps), step.kind, step.path)
		dir := now.lose(t, dice)
		second := imageOf(t, dir)
		again := &crashDisk{}
		last, err := expectWhole(t, dir, again, promised, states)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if dice.IntN(4) > 0 {
			continue
		}
		// The power is lost again while, or after, the journal is taken up.
		taken := dice.IntN(len(again.steps) + 1)
		for _, step := range again.steps[:taken] {
			second.apply(step)
		}
		got, err := expectWhole(t, second.lose(t, dice), &crashDisk{}, promised, states)
		if err == nil && got != last {
			err = fmt.Errorf("%d records instead of %d", got, last)
		}
		if err != nil {
			return fmt.Errorf("%s, and after step %d of %d of the start: %w", what, taken, len(again.steps), err)
		}
	}
	return nil
}

// imageOf reads a directory that is durable.
func imageOf(t *testing.T, dir string) *image {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	i := newImage()
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		i.names[e.Name()] = &content{kept: text}
	}
	i.kept = maps.Clone(i.names)
	return i
}

// expectWhole takes a journal up and compares it with what was promised.
func expectWhole(t *testing.T, dir string, disk *crashDisk, promised uint64, states map[uint64]string) (last uint64, err error) {
	t.Helper()
	m, err := tryOpen(t, Config{Dir: dir, FileBytes: 1 << 13, disk: disk})
	if err != nil {
		return 0, err
	}
	last = m.history.Last
	switch want, known := states[last]; {
	case last < promised || m.history.Lost != 0 || len(m.history.Dropped) != 0:
		err = fmt.Errorf("%d records, %d were durable, %d are lost, %d objects dropped", last, promised, m.history.Lost, len(m.history.Dropped))
	case known && m.describe() != want:
		err = fmt.Errorf("record %d is the last, but not this:\n%s\nbut\n%s", last, want, m.describe())
	}
	return last, errors.Join(err, m.stop())
}
