package replication

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"mooncake/catalog"
)

// resum repairs the checksum of an edited file header.
func resum(head []byte) []byte {
	binary.LittleEndian.PutUint32(head[fileHeaderBytes-4:], crc32.Checksum(head[:fileHeaderBytes-4], castagnoli))
	return head
}

// owners replays what was decided and tells for every byte which replica was last given to a writer there.
type owners map[catalog.UUID][]uint64

func ownersAfter(changes []catalog.Change, size uint64) owners {
	o := owners{}
	for i := range changes {
		for _, g := range grantsOf(nil, &changes[i]) {
			if o[g.Segment] == nil {
				o[g.Segment] = make([]uint64, size)
			}
		}
		if len(grantsOf(nil, &changes[i])) == 0 {
			continue
		}
		for _, r := range changes[i].Replicas {
			for at := r.Offset; at < r.Offset+r.Size; at++ {
				o[r.Segment][at] = r.ID
			}
		}
	}
	return o
}

// TestDamage makes blocks of the journal unreadable, one in each run. What is left never names bytes that another put may
// have written over; when that cannot be told, nothing is started.
func TestDamage(t *testing.T) {
	const size = 20_000
	dir := t.TempDir()
	m := open(t, Config{Dir: dir, FileBytes: 1 << 20})
	m.mount(1, size)
	m.settle()
	for range 2500 {
		m.step()
		m.settle()
	}
	m.close()
	keys := m.cat.Stats().Keys
	truth := ownersAfter(m.changes, size)
	path := journalFiles(t, dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, err := scan(path, text, m.journal.identity, func(*header, []byte) error { return nil })
	if err != nil || found.end < 100_000 {
		t.Fatalf("a journal of %d bytes: %v", found.end, err)
	}
	started, refused, kept := 0, 0, uint64(0)
	for i := range int64(20) {
		for _, bytes := range []int64{1, 512, 4096, 12_000} {
			at := fileHeaderBytes + 2000 + (i*(found.end-20_000))/20
			other := copyDir(t, dir)
			hurt := append([]byte(nil), text...)
			for b := at; b < at+bytes; b++ {
				hurt[b] ^= 0xa5
			}
			if err := os.WriteFile(filepath.Join(other, filepath.Base(path)), hurt, 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := tryOpen(t, Config{Dir: other})
			if err != nil {
				if refused++; !errors.Is(err, errGap) || bytes < LogBlock {
					t.Fatalf("%d bytes at %d: %v", bytes, at, err)
				}
				continue
			}
			started++
			kept += again.cat.Stats().Keys
			if again.history.Lost == 0 && bytes >= recordAlign { // less may hit only the zeros behind a record
				t.Fatalf("%d bytes at %d: nothing is missing", bytes, at)
			}
			expectTrue(t, again, truth)
			want := again.describe()
			again.close()
			third := open(t, Config{Dir: other})
			if third.history.Lost != 0 {
				t.Errorf("%d bytes at %d: the damage is found again after it was repaired", bytes, at)
			}
			expectSame(t, "the start after the repair", third.describe(), want)
			third.close()
		}
	}
	t.Logf("%d starts with %.0f %% of the objects, %d refused", started, 100*float64(kept)/float64(keys*uint64(started)), refused)
	if started < 40 || kept*10 < keys*uint64(started)*7 {
		t.Errorf("only %d starts, %d objects of %d each", started, kept, keys)
	}
}

// LogBlock is the damage that must always be survived.
const LogBlock = 4096 + 1

// expectTrue looks whether every complete object still has its own bytes.
func expectTrue(t *testing.T, m *master, truth owners) {
	t.Helper()
	err := m.cat.Snapshot(func(changes []catalog.Change) error {
		for i := range changes {
			if changes[i].Kind != catalog.ChangeEnd {
				continue
			}
			for _, r := range changes[i].Replicas {
				for at := r.Offset; at < r.Offset+r.Size; at++ {
					if got := truth[r.Segment][at]; got != r.ID {
						t.Fatalf("%q has byte %d of its segment, which was last given to replica %d instead of %d", changes[i].Key, at, got, r.ID)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
