package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"mooncake/catalog"
)

// TestComesBack ends a journal in the middle of random work, in turn cleanly and by a crash, and goes on with it.
func TestComesBack(t *testing.T) {
	dir := t.TempDir()
	want := ""
	for round := range 6 {
		m := open(t, Config{Dir: dir, FileBytes: 1 << 16, SnapshotBytes: 1 << 14})
		if round > 0 {
			expectSame(t, fmt.Sprintf("start %d", round), m.describe(), want)
		}
		m.dice.Uint64()
		m.cat.Resume(m.now)
		if round == 0 {
			m.mount(1, 40_000)
			m.mount(2, 30_000)
		}
		for range 1500 {
			m.step()
		}
		m.settle()
		m.awaitSnapshot()
		m.close()
		want = m.describe()
		stats := m.journal.Stats()
		if stats.Snapshots == 0 || stats.SnapshotErrors > 0 || stats.Files < 2 {
			t.Errorf("round %d: %+v", round, stats)
		}
		if n := len(journalFiles(t, dir)); n > 4 {
			t.Errorf("round %d: %d journal files are left", round, n)
		}
	}
}

// TestEveryCut cuts the file off at many places, as a crash of the machine does, and expects exactly the records before
// the cut.
func TestEveryCut(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, FileBytes: 1 << 16})
	m.mount(1, 40_000)
	states := map[uint64]string{}
	states[m.settle()] = m.describe()
	for range 150 {
		m.step()
		states[m.settle()] = m.describe()
	}
	states[0] = describe(t, catalog.New(catalogConfig()), nil)
	m.close()
	path := journalFiles(t, dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[uint64]int{}
	_, err = scan(path, text, m.journal.identity, func(h *header, _ []byte) error {
		ends[h.number] = ends[h.number-1] + padded(h.length)
		if h.number == 1 {
			ends[1] += fileHeaderBytes
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for number := uint64(1); number < uint64(len(ends)); number += 7 {
		for _, cut := range []int{ends[number], ends[number] + 3, ends[number] + headerBytes + 1, ends[number+1] - 8} {
			other := copyDir(t, dir)
			torn := append([]byte(nil), text[:cut]...)
			torn = append(torn, make([]byte, len(text)-cut)...)
			if err := os.WriteFile(filepath.Join(other, filepath.Base(path)), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			want := number
			if cut > ends[number] && isZero(text[cut:max(cut, ends[number+1])]) { // nothing of it is missing
				want++
			}
			if _, known := states[want]; !known {
				continue // in the middle of a step
			}
			again := open(t, Config{Dir: other})
			if again.history.Lost != 0 || again.history.Last != want {
				t.Fatalf("cut at %d: %d records, %d lost; want %d", cut, again.history.Last, again.history.Lost, want)
			}
			expectSame(t, fmt.Sprintf("cut at %d after record %d", cut, number), again.describe(), states[want])
			again.close()
		}
	}
}

// TestNothingUndurableIsSeen stops the journal from writing: what is decided meanwhile is not shown to readers, and what
// was shown survives.
func TestNothingUndurableIsSeen(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir})
	m.mount(1, 40_000)
	put := func(key string) {
		t.Helper()
		if _, err := m.cat.PutStart(m.now, m.client, key, 10, &catalog.PutOptions{Replicas: 1}, nil); err != nil {
			t.Fatal(err)
		}
		if err := m.cat.PutEnd(m.now, m.client, key, 0, false, catalog.ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	if !m.cat.Exist(m.now, "first") { // waits until it is durable
		t.Fatal("a durable object is not seen")
	}
	m.journal.out.file.Close() // the next write fails
	put("second")
	if err := m.journal.WaitDurable(m.journal.Last()); !errors.Is(err, ErrFailed) {
		t.Fatalf("waiting for what cannot be written: %v", err)
	}
	if _, _, err := m.cat.Get(m.now, "second", nil); !errors.Is(err, catalog.ErrNotReady) {
		t.Errorf("an object that is not durable: %v", err)
	}
	select {
	case <-m.journal.Failed():
	default:
		t.Error("the failure is not told")
	}
	put("third")
	if err := m.journal.WaitDurable(m.journal.Last()); !errors.Is(err, ErrFailed) {
		t.Errorf("after the failure: %v", err)
	}
	m.journal.After(m.journal.Last(), func() { t.Error("called though it never became durable") })
	if err := m.journal.Room(context.Background()); !errors.Is(err, ErrFailed) {
		t.Errorf("room after the failure: %v", err)
	}
	_ = m.stop() // it has failed
	again := open(t, Config{Dir: dir})
	for key, there := range map[string]bool{"first": true, "second": false, "third": false} {
		if _, _, err := again.cat.Peek(key, nil); (err == nil) != there {
			t.Errorf("%s after the restart: %v", key, err)
		}
	}
}

// TestManyWaiters lets many goroutines append and wait: every number is durable when Wait returns, and many share a
// record.
func TestManyWaiters(t *testing.T) {
	m := open(t, Config{Dir: t.TempDir(), Sync: SyncAlways})
	m.mount(1, 1<<30)
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			for i := range 20 {
				key := fmt.Sprintf("%d/%d", w, i)
				if _, err := m.cat.PutStart(m.now, m.client, key, 100, &catalog.PutOptions{Replicas: 1}, nil); err != nil {
					t.Error(err)
					return
				}
				called := make(chan struct{})
				last := m.journal.Last()
				m.journal.After(last, func() { close(called) })
				if err := m.journal.WaitDurable(last); err != nil || m.journal.Durable() < last {
					t.Errorf("durable %d of %d: %v", m.journal.Durable(), last, err)
				}
				<-called
			}
		})
	}
	wg.Wait()
	if s := m.journal.Stats(); s.Records == 0 || s.Records > 641 || s.Last != s.Durable {
		t.Errorf("%+v", s)
	}
}

// TestWaitEnds gives up with the caller's context and with the journal.
func TestWaitEnds(t *testing.T) {
	m := open(t, Config{Dir: t.TempDir()})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := m.journal.Wait(ctx, 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	got := make(chan error)
	go func() { got <- m.journal.WaitDurable(1000) }()
	m.close()
	select {
	case err := <-got:
		if !errors.Is(err, errClosed) {
			t.Errorf("closed: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a waiter outlives the journal")
	}
}

// TestIntervalSync writes at once and syncs from time to time.
func TestIntervalSync(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, Sync: SyncInterval, SyncEvery: time.Millisecond})
	m.mount(1, 1000)
	m.settle()
	want := m.describe()
	m.close()
	expectSame(t, "after the end", open(t, Config{Dir: dir}).describe(), want)
}

// TestRefusals are directories and settings that cannot be used; the sentence says why, and nothing is changed.
func TestRefusals(t *testing.T) {
	used := t.TempDir()
	m := open(t, Config{Dir: used})
	m.mount(1, 1000)
	m.settle()
	m.close()
	path := filepath.Base(journalFiles(t, used)[0])
	edited := func(edit func(text []byte) []byte) string {
		dir := copyDir(t, used)
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		text = edit(text)
		if err := os.WriteFile(filepath.Join(dir, path), text, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	held := open(t, Config{Dir: copyDir(t, used)})
	for _, c := range []struct {
		what string
		cfg  Config
		want string
	}{
		{"a file", Config{Dir: file}, "not a directory"},
		{"policy", Config{Dir: used, Sync: "sometimes"}, `"sometimes" is none of`},
		{"interval", Config{Dir: used, Sync: SyncInterval}, "not above 0"},
		{"in use", Config{Dir: held.journal.cfg.Dir}, "in use by another process"},
		{"version", Config{Dir: edited(func(b []byte) []byte {
			h := fileHeader{kindJournal, 1, 1}
			head := h.append(nil)
			head[12] = 9
			return append(resum(head), b[fileHeaderBytes:]...)
		})}, "version 9"},
		{"magic", Config{Dir: edited(func(b []byte) []byte { b[0] = 'X'; return b })}, "does not begin with"},
		{"header", Config{Dir: edited(func(b []byte) []byte { b[17] ^= 1; return b })}, "checksum of its first 64 bytes"},
	} {
		before := ""
		if c.cfg.Dir != file {
			before = listNames(t, c.cfg.Dir)
		}
		other, err := tryOpen(t, c.cfg)
		if err == nil {
			other.close()
			t.Errorf("%s: accepted", c.what)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q in it", c.what, err, c.want)
		}
		if before != "" && listNames(t, c.cfg.Dir) != before {
			t.Errorf("%s: the directory changed", c.what)
		}
	}
}

func listNames(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(entries)
}

// TestForceEmpty begins anew and keeps the old files.
func TestForceEmpty(t *testing.T) {
	dir := t.TempDir()
	m := open(t, Config{Dir: dir})
	m.mount(1, 1000)
	m.settle()
	m.close()
	again := open(t, Config{Dir: dir, ForceEmpty: true})
	if stats := again.cat.Stats(); stats.Segments != 0 {
		t.Errorf("%d segments in an empty start", stats.Segments)
	}
	aside, err := filepath.Glob(filepath.Join(dir, asidePrefix+"*"))
	if err != nil || len(aside) != 1 {
		t.Errorf("put aside: %v, %v", aside, err)
	}
}

// TestRoom holds writers back while too much waits.
func TestRoom(t *testing.T) {
	m := open(t, Config{Dir: t.TempDir()})
	if err := m.journal.Room(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAppendWait(b *testing.B) {
	for _, sync := range []Sync{SyncAlways, SyncNever} {
		b.Run(string(sync), func(b *testing.B) {
			m := open(b, Config{Dir: b.TempDir(), Sync: sync})
			m.mount(1, 1<<40)
			change := []catalog.Change{{
				Kind: catalog.ChangePut, Key: strings.Repeat("k", 40), Size: 1000, Client: m.client, Time: 1,
				Replicas: []catalog.ReplicaChange{{ID: 1, Segment: catalog.UUID{Hi: 9, Lo: 1}, Size: 1000}},
			}}
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := m.journal.WaitDurable(m.journal.Append(change)); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// TestHistoryIsGivenBackBeforeReadingBack makes a snapshot of a history that is not there any more when it is read back: never
// are there two beside the catalog in use.
func TestHistoryIsGivenBackBeforeReadingBack(t *testing.T) {
	m := open(t, Config{Dir: t.TempDir()})
	m.mount(1, 1<<20)
	for range 200 {
		m.step()
	}
	m.settle()
	m.close()
	h := newHistory(catalogConfig(), m.journal.cfg.Log)
	l, err := list(m.journal.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.journal.readAll(h, l); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(m.journal.cfg.Dir, snapshotName(h.Last))
	given := 0
	_, err = m.journal.writeSnapshot(t.Context(), h, func() {
		given++
		if _, err := os.Stat(named + partSuffix); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(named); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the snapshot has its name already: %v", err)
		}
		h.Catalog.Close()
	})
	if err != nil || given != 1 {
		t.Fatalf("given back %d times, %v", given, err)
	}
	if _, err := os.Stat(named); err != nil {
		t.Error(err)
	}
}
