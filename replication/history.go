package replication

import (
	"errors"
	"fmt"
	"maps"

	"go.uber.org/zap"

	"mooncake/catalog"
)

// History is what a log says there is.
type History struct {
	Catalog *catalog.Catalog
	Names   map[string][]byte // of the metadata server
	Notes   *Notes
	Last    uint64       // number of the last record
	Time    catalog.Time // the latest in any record
	Dropped []string     // keys of objects that damage made doubtful
	Lost    uint64       // records that could not be read

	BadValues uint64 // of etcd

	DroppedBy map[string]uint64 // reason, see DropReasons → objects

	cfg      catalog.Config
	anew     bool // it is to begin with a record that makes void what is in the log
	log      *zap.Logger
	lately   []granted // of the records read last
	bytes    int64     // of records read from journal files
	gentle   gentle    // of whoever applies
	repaired bool      // records are missing: what follows may not fit
}

func newHistory(cfg catalog.Config, log *zap.Logger) *History {
	return &History{Catalog: catalog.New(cfg), Names: map[string][]byte{}, Notes: new(Notes), DroppedBy: map[string]uint64{}, cfg: cfg, log: log}
}

// errGap says that too much is missing for what is left to be trusted.
var errGap = errors.New("too many records in a row are missing: what is left may name bytes that were written over; " +
	"--force_empty begins anew and puts the files aside")

// apply adds one record to the history. Records that are included already are passed over. When records before it are
// missing, every object goes whose bytes they may have let somebody write over; that cannot be told when more are missing
// than this record repeats.
func (h *History) apply(e *Entry) error {
	if e.Number <= h.Last {
		return nil
	}
	if e.Anew {
		h.begin(e.Number - 1)
	}
	if missing := e.Number - h.Last - 1; missing > 0 {
		if e.Since > h.Last+1 {
			return fmt.Errorf("records %d to %d: %w", h.Last+1, e.Number-1, errGap)
		}
		h.Lost += missing
		h.repaired, h.lately = true, nil
		ranges := make([]catalog.Range, 0, len(e.Before))
		for _, g := range e.Before {
			ranges = append(ranges, catalog.Range(g))
		}
		h.drop(DroppedGranted, h.Catalog.Vacate(ranges))
	}
	h.Last = e.Number
	h.advance(e)
	reason := DroppedOverlap
	if h.repaired {
		reason = DroppedTaken
	}
	if dropped := h.Catalog.Recover(e.Changes); len(dropped) > 0 {
		h.repaired = true
		h.drop(reason, dropped)
	}
	for i := range e.Names {
		if n := &e.Names[i]; n.Removed {
			delete(h.Names, n.Name)
		} else {
			h.Names[n.Name] = n.Value
		}
	}
	for _, n := range e.Notes {
		h.Notes.Add(n)
	}
	return nil
}

// begin makes the history that of nothing, up to a record.
func (h *History) begin(last uint64) {
	h.Catalog.Close()
	h.Catalog, h.Names, h.Notes, h.lately, h.Last = catalog.New(h.cfg), map[string][]byte{}, new(Notes), nil, last
}

// advance keeps the latest time. Times of the future, such as the ends of pins, are not when something was decided.
func (h *History) advance(e *Entry) {
	h.Time = max(h.Time, e.Base)
	for i := range e.Changes {
		h.Time = max(h.Time, e.Changes[i].Time)
	}
}

func (h *History) drop(reason string, keys []string) {
	for _, key := range keys {
		h.log.Warn("object dropped: the journal does not tell whether its bytes were written over",
			zap.String("action", "journal_dropped_object"), zap.String("key", key), zap.String("reason", reason))
	}
	if len(keys) > 0 {
		h.DroppedBy[reason] += uint64(len(keys))
	}
	h.Dropped = append(h.Dropped, keys...)
}

// snapshot writes the history down as entries, from which apply makes it again.
func (h *History) snapshot(yield func(*batch) error) error {
	b := new(batch)
	number := uint64(0)
	next := func(fill func()) error {
		number++
		b.start(number, number, nil)
		fill()
		return yield(b)
	}
	err := h.Catalog.Snapshot(func(changes []catalog.Change) error {
		return next(func() { b.addChanges(changes) })
	})
	for _, name := range sorted(maps.Keys(h.Names)) {
		if err == nil {
			err = next(func() { b.addName(&NameChange{Name: name, Value: h.Names[name]}) })
		}
	}
	if err == nil && h.Notes.Len() > 0 { // all of them are small
		err = next(func() {
			for n := range h.Notes.All() {
				b.addNote(&n)
			}
		})
	}
	return err
}
