package replication

import (
	"fmt"
	"os"

	"go.uber.org/zap"

	"mooncake/catalog"
)

// Inspection is what a directory of a journal holds. It is made without touching anything, beside a master in use too: what is
// being written at the moment may be missing.
type Inspection struct {
	Files       []InspectedFile
	Identity    uint64 // of the journal
	First, Last uint64 // numbers of records that were read
	Time        catalog.Time
	Stats       catalog.Stats
	Segments    []catalog.SegmentStatus
	Names       int // entries of the metadata server
	Damaged     []Damage
	TailBytes   int64 // behind the last whole record
}

// InspectedFile is a file of the directory.
type InspectedFile struct {
	Path     string
	Snapshot bool
	Number   uint64 // last record of a snapshot, first one of a journal file
	Bytes    int64
	Used     bool // it counts for the next start
}

// Inspect reads a directory.
func Inspect(dir string) (*Inspection, error) {
	l, err := list(dir)
	if err != nil {
		return nil, err
	}
	if len(l.snapshots)+len(l.journals) == 0 {
		return nil, fmt.Errorf("%s has no journal and no snapshot", dir)
	}
	h := newHistory(catalog.Config{}, zap.NewNop())
	defer h.Catalog.Close()
	out := &Inspection{}
	if n := len(l.snapshots); n > 0 {
		head, text, err := read(l.snapshots[n-1].path, kindSnapshot)
		if err != nil {
			return nil, err
		}
		out.Identity = head.identity
		if err := h.decode(l.snapshots[n-1].path, head, text); err != nil {
			return nil, err
		}
	}
	out.First = h.Last
	for i, s := range l.snapshots {
		out.note(s, true, i+1 == len(l.snapshots))
	}
	for i, f := range l.journals {
		used := i+1 == len(l.journals) || l.journals[i+1].number > h.Last+1
		out.note(f, false, used)
		if !used {
			continue
		}
		if err := out.scan(h, f.path); err != nil {
			return nil, err
		}
	}
	out.Last, out.Time, out.Stats, out.Names, out.Segments = h.Last, h.Time, h.Catalog.Stats(), len(h.Names), h.Catalog.AllSegments()
	return out, nil
}

func (i *Inspection) note(f numbered, snapshot, used bool) {
	x := InspectedFile{Path: f.path, Snapshot: snapshot, Number: f.number, Used: used}
	if info, err := os.Stat(f.path); err == nil {
		x.Bytes = info.Size()
	}
	i.Files = append(i.Files, x)
}

func (i *Inspection) scan(h *History, path string) error {
	head, text, err := read(path, kindJournal)
	if err != nil {
		return err
	}
	if i.Identity == 0 {
		i.Identity = head.identity
	}
	found, err := scan(path, text, i.Identity, h.visit)
	i.Damaged = append(i.Damaged, found.damaged...)
	i.TailBytes += found.tail
	return err
}
