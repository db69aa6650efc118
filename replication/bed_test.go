package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mooncake/catalog"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

func catalogConfig() catalog.Config {
	return catalog.Config{
		LeaseMs: 100, SoftPinMs: 1000, MaxSoftPinMs: 10_000, ClientActiveTTLMs: 10_000, ClientSuspicionTTLMs: 20_000, ClientLostTTLMs: 300_000,
		PutDiscardMs: 500, PutReleaseMs: 5000, WriterQuarantineMs: 50, EvictionRatio: 0.05, HighWatermark: 0.95, AllowEvictSoftPinned: true, Seed: 1,
	}
}

// decisionLog is what decisions go to.
type decisionLog interface {
	catalog.Log
	AppendName(n NameChange) (number uint64)
	AppendNote(n Note)
	Last() uint64
	Wait(ctx context.Context, number uint64) error
}

// master is a catalog that decides with a journal below it.
type master struct {
	t       testing.TB
	journal *Journal
	log     decisionLog
	history *History
	cat     *catalog.Catalog
	now     catalog.Time
	dice    *rand.Rand
	open    []string
	client  catalog.UUID
	names   map[string]string
	stop    func() error
	changes []catalog.Change // everything decided, in order
}

func open(t testing.TB, cfg Config) *master {
	t.Helper()
	m, err := tryOpen(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// kept is what a history has beside the catalog.
func kept(h *History) map[string]string {
	out := map[string]string{}
	for k, v := range h.Names {
		out[k] = string(v)
	}
	for n := range h.Notes.All() {
		out["note of "+n.Name] = string(n.Value)
	}
	return out
}

func tryOpen(t testing.TB, cfg Config) (*master, error) {
	if cfg.Sync == "" {
		cfg.Sync = SyncNever
	}
	if cfg.FileBytes == 0 {
		cfg.FileBytes = 1 << 20
	}
	cfg.Catalog = catalogConfig()
	j, h, err := Open(cfg)
	if err != nil {
		return nil, err
	}
	m := &master{t: t, journal: j, log: j, history: h, cat: h.Catalog, now: h.Time + 1, dice: rand.New(rand.NewPCG(1, 2)), client: catalog.UUID{Hi: 1, Lo: 1}, names: kept(h)}
	m.cat.OnChange(func(changes []catalog.Change) {
		for i := range changes {
			m.changes = append(m.changes, changes[i].Clone())
		}
	})
	m.cat.SetLog(j)
	j.OnDurable(m.cat.Settled)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- j.Run(ctx) }()
	closed := false
	m.stop = func() error {
		if closed {
			return nil
		}
		closed = true
		cancel()
		err := <-ended
		return errors.Join(err, j.Close())
	}
	t.Cleanup(func() {
		_ = m.stop() // a test that wants to know has stopped it before
		m.cat.Close()
	})
	return m, nil
}

// awaitSnapshot waits for the snapshot under way.
func (m *master) awaitSnapshot() {
	m.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); m.journal.snapshot.busy.Load(); {
		select {
		case <-tick.C:
		case <-end:
			m.t.Fatal("a snapshot does not end")
		}
	}
}

// close ends the journal as a clean end of the process does.
func (m *master) close() {
	m.t.Helper()
	if err := m.stop(); err != nil {
		m.t.Fatal(err)
	}
}

// settle waits until everything decided so far is durable.
func (m *master) settle() uint64 {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	last := m.log.Last()
	if err := m.log.Wait(ctx, last); err != nil {
		m.t.Fatal(err)
	}
	return last
}

func (m *master) mount(number int, size uint64) {
	m.t.Helper()
	s := catalog.Segment{
		ID: catalog.UUID{Hi: 9, Lo: uint64(number)}, Name: fmt.Sprintf("segment-%d", number), Base: 1 << 40, Size: size,
		Endpoint: fmt.Sprintf("127.0.0.%d:1", number), Protocol: "tcp",
	}
	if err := m.cat.ReMountSegments(m.now, catalog.UUID{Hi: 8, Lo: uint64(number)}, []catalog.Segment{s}); err != nil {
		m.t.Fatal(err)
	}
}

// step makes one random decision.
func (m *master) step() {
	m.now += catalog.Time(m.dice.IntN(40))
	key := fmt.Sprintf("key-%d", m.dice.IntN(40))
	o := catalog.PutOptions{Replicas: uint64(1 + m.dice.IntN(2))}
	if m.dice.IntN(3) == 0 {
		o.Group = fmt.Sprintf("group-%d", m.dice.IntN(3))
	}
	if m.dice.IntN(4) == 0 {
		o.SoftPin, o.SoftPinTTLMs, o.SoftPinTTLSet = catalog.SoftPinEnable, 300, true
	}
	size := uint64(1 + m.dice.IntN(3000))
	var err error
	switch m.dice.IntN(10) {
	case 0, 1, 2:
		if _, err = m.cat.PutStart(m.now, m.client, key, size, &o, nil); err == nil {
			m.open = append(m.open, key)
		}
	case 3, 4, 5:
		if n := len(m.open); n > 0 {
			key, m.open = m.open[0], m.open[1:]
			_ = m.cat.PutEnd(m.now, m.client, key, uint64(n), n%2 == 0, catalog.ReplicaTypeAll) // it may have been removed
		}
	case 6:
		_ = m.cat.Remove(m.now, key, m.dice.IntN(2) == 0) // it may not be there
	case 7:
		if _, err = m.cat.UpsertStart(m.now, m.client, key, size, &o, nil); err == nil && m.dice.IntN(2) == 0 {
			_ = m.cat.UpsertEnd(m.now, m.client, key, 7, true, catalog.ReplicaTypeAll) // a put may be at it
		}
	case 8:
		_, _, _ = m.cat.Get(m.now, key, nil) // hands out an address, if it is there
	case 9:
		for i := range 3 {
			m.cat.Ping(m.now, catalog.UUID{Hi: 8, Lo: uint64(i)})
		}
		m.cat.Sweep(m.now)
		n := NameChange{Name: key, Value: []byte(fmt.Sprint(m.now)), Removed: m.dice.IntN(3) == 0}
		m.log.AppendName(n)
		m.log.AppendNote(Note{Name: key, Value: n.Value})
		m.names["note of "+key] = string(n.Value)
		if m.names[key] = string(n.Value); n.Removed {
			delete(m.names, key)
		}
	}
}

// describe writes a catalog and names down, so that two can be compared.
func describe(t testing.TB, c *catalog.Catalog, names map[string]string) string {
	t.Helper()
	var lines []string
	err := c.Snapshot(func(changes []catalog.Change) error {
		for i := range changes {
			ch := changes[i]
			if ch.Segment != nil {
				lines = append(lines, fmt.Sprintf("%+v", *ch.Segment))
			}
			ch.Segment, ch.PinnedUntil = nil, 0 // a pin's end is seen by a leader only
			lines = append(lines, fmt.Sprintf("%s %+v", ch.Key, ch))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range names {
		lines = append(lines, "name "+k+"="+v)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (m *master) describe() string {
	m.t.Helper()
	return describe(m.t, m.cat, m.names)
}

// expectSame fails the test unless two descriptions are equal, and shows the first difference.
func expectSame(t testing.TB, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		var x, y string
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if cmp.Compare(x, y) != 0 {
			t.Fatalf("%s: line %d of %d and %d\n got %s\nwant %s", what, i, len(a), len(b), x, y)
		}
	}
}

// copyDir copies the files of a journal, as a crash leaves them.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, e.Name()), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// journalFiles lists the journal files of a directory, oldest first.
func journalFiles(t testing.TB, dir string) []string {
	t.Helper()
	l, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range l.journals {
		paths = append(paths, f.path)
	}
	return paths
}
