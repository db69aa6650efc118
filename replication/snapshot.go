package replication

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// A snapshot is a file of records numbered from 1, in which the last one closes it: its payload is 's', the count of the
// records before it, and the latest time of the history. What has no such end is none.
const partEnd = 's'

// snapshotState is what is known of the making of snapshots.
type snapshotState struct {
	busy  atomic.Bool
	at    int64 // bytes written when the last one was begun
	bytes atomic.Int64
	made  atomic.Int64 // when the newest was made, in Unix milliseconds; 0: there is none
}

func sorted(keys iter.Seq[string]) []string { return slices.Sorted(keys) }

// maybeSnapshot begins a snapshot when enough was written since the last. It is made from the files alone, beside the
// catalog in use: that one is not held up, but for the time being the memory is needed twice.
func (j *Journal) maybeSnapshot(ctx context.Context, running *sync.WaitGroup) error {
	written := j.out.total - j.snapshot.at
	if written < max(j.cfg.SnapshotBytes, j.snapshot.bytes.Load()) || j.snapshot.busy.Load() {
		return nil
	}
	j.snapshot.at = j.out.total
	if err := j.rotate(); err != nil {
		return err
	}
	upTo := j.out.first - 1
	j.snapshot.busy.Store(true)
	running.Go(func() {
		defer j.snapshot.busy.Store(false)
		began := time.Now()
		bytes, err := j.makeSnapshot(ctx, upTo)
		switch {
		case err == nil:
			j.stats.snapshotMade(time.Since(began))
			j.cfg.Log.Info("snapshot made", zap.Uint64("up_to", upTo), zap.Int64("bytes", bytes), zap.Duration("took", time.Since(began)))
		case ctx.Err() == nil:
			j.stats.snapshotErrors.Add(1)
			j.cfg.Log.Error("no snapshot: the journal grows until one succeeds", zap.String("action", "snapshot_failed"), zap.Error(err))
		}
	})
	return nil
}

// makeSnapshot builds the history up to a record from what lies on disk, writes it down, reads it back, and deletes what
// it makes unnecessary.
func (j *Journal) makeSnapshot(ctx context.Context, upTo uint64) (int64, error) {
	l, err := list(j.cfg.Dir)
	if err != nil {
		return 0, err
	}
	h := newHistory(j.cfg.Catalog, j.cfg.Log)
	h.gentle.on = true
	release := sync.OnceFunc(h.Catalog.Close)
	defer release()
	if err := h.load(ctx, l, j.identity, upTo); err != nil {
		return 0, err
	}
	if h.Last != upTo {
		return 0, fmt.Errorf("the files end at record %d instead of %d", h.Last, upTo)
	}
	bytes, err := j.writeSnapshot(ctx, h, release)
	if err != nil {
		return 0, err
	}
	return bytes, j.prune(upTo)
}

// load builds the history from the newest snapshot and the journal files after it, all of them sealed.
func (h *History) load(ctx context.Context, l listing, identity, upTo uint64) error {
	if n := len(l.snapshots); n > 0 {
		if err := h.loadSnapshot(l.snapshots[n-1].path, identity); err != nil {
			return err
		}
	}
	for i, f := range l.journals {
		if f.number > upTo || i+1 < len(l.journals) && l.journals[i+1].number <= h.Last+1 {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, text, err := read(f.path, kindJournal)
		if err != nil {
			return err
		}
		found, err := scan(f.path, text, identity, h.visit)
		if err != nil {
			return err
		}
		if len(found.damaged) > 0 || found.tail > 0 {
			return fmt.Errorf("%s is damaged", f.path)
		}
	}
	return nil
}

// visit applies a record.
func (h *History) visit(head *header, payload []byte) error {
	p, err := parse(head, payload, nil)
	if err != nil {
		return err
	}
	return h.applyParsed(&p)
}

// writeSnapshot writes the history into a file that gets its name only when it is complete and was read back. Before that
// it calls written: the history is not needed any more, and what is read back takes as much memory once more.
func (j *Journal) writeSnapshot(ctx context.Context, h *History, written func()) (bytes int64, err error) {
	path := filepath.Join(j.cfg.Dir, snapshotName(h.Last))
	part := path + partSuffix
	file, err := j.cfg.disk.create(part)
	if err != nil {
		return 0, err
	}
	defer func() {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			_ = j.cfg.disk.remove(part) // the error that led here is the one that counts
		}
	}()
	out := bufio.NewWriterSize(file, limits.LogSnapshotBufferBytes)
	if bytes, err = h.encode(ctx, out, j.identity); err != nil {
		return 0, err
	}
	if err := errors.Join(out.Flush(), file.sync()); err != nil {
		return 0, err
	}
	err = file.Close()
	file = nil
	if err != nil {
		return 0, err
	}
	want := h.census()
	written()
	if err := j.verifySnapshot(part, want); err != nil {
		return 0, err
	}
	if err := j.cfg.disk.rename(part, path); err != nil {
		return 0, err
	}
	j.snapshot.bytes.Store(bytes)
	j.snapshot.made.Store(time.Now().UnixMilli())
	return bytes, j.cfg.disk.syncDir(j.cfg.Dir)
}

// encode writes the history as a snapshot.
func (h *History) encode(ctx context.Context, out io.Writer, identity uint64) (bytes int64, err error) {
	head := fileHeader{kindSnapshot, identity, h.Last}
	if _, err := out.Write(head.append(nil)); err != nil {
		return 0, err
	}
	bytes = fileHeaderBytes
	records := uint64(0)
	put := func(b *batch) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.gentle.rest()
		records = b.number
		n, err := out.Write(b.seal(identity))
		bytes += int64(n)
		return err
	}
	if err := h.snapshot(put); err != nil {
		return bytes, err
	}
	end := new(batch)
	end.start(records+1, records+1, nil)
	end.buf = binary.AppendUvarint(append(end.buf, partEnd), records)
	end.buf = binary.AppendVarint(end.buf, int64(h.Time))
	return bytes, put(end)
}

// verifySnapshot reads a snapshot back as the next start will.
func (j *Journal) verifySnapshot(path string, want census) error {
	got := newHistory(catalog.Config{}, j.cfg.Log)
	got.gentle.on = true
	defer got.Catalog.Close()
	if err := got.loadSnapshot(path, j.identity); err != nil {
		return err
	}
	return want.same(got, path)
}

// census is what a history is compared by with what was read back of it.
type census struct {
	keys, allocated, capacity uint64
	names                     int
	notes                     *Notes
}

func (h *History) census() census {
	s := h.Catalog.Stats()
	return census{s.Keys, s.AllocatedBytes, s.CapacityBytes, len(h.Names), h.Notes}
}

// same tells what is missing from a snapshot that was read back.
func (c census) same(got *History, place string) error {
	b := got.census()
	if c.keys != b.keys || c.allocated != b.allocated || c.capacity != b.capacity || c.names != b.names || !c.notes.equal(b.notes) {
		return fmt.Errorf("%s holds %d objects of %d", place, b.keys, c.keys)
	}
	return nil
}

// loadSnapshot starts a history with a snapshot. A damaged one is an error: it is written and read back as a whole, and
// what it stands for was deleted.
func (h *History) loadSnapshot(path string, identity uint64) error {
	head, text, err := read(path, kindSnapshot)
	if err != nil {
		return err
	}
	if head.identity != identity {
		return fmt.Errorf("%s belongs to another journal", path)
	}
	return h.decode(path, head, text)
}

// decode starts a history with the text of a snapshot.
func (h *History) decode(path string, head fileHeader, text []byte) error {
	ended, before, at := false, uint64(0), catalog.Time(0)
	var found scanned
	err := h.ahead(func(visit func(*header, []byte) error) (err error) {
		found, err = scan(path, text, head.identity, func(head *header, payload []byte) error {
			if end := endOf(payload); end != nil {
				r := reader{in: end}
				ended, before, at = true, r.uvarint(), catalog.Time(r.varint())
				return r.err
			}
			return visit(head, payload)
		})
		return err
	}, func(p *parsedRecord) error {
		if err := h.applyParsed(p); err != nil {
			return fmt.Errorf("%s: record %d: %w", path, p.entry.Number, err)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case ended && before != h.Last:
		return fmt.Errorf("%s: it ends after %d records instead of %d", path, before, h.Last)
	case len(found.damaged) > 0 || found.tail > 0 || !ended:
		return fmt.Errorf("%s is damaged; --force_empty begins anew and puts the files aside", path)
	}
	h.Last, h.Time = head.first, max(h.Time, at)
	h.lately, h.bytes = nil, 0
	return nil
}

// endOf returns what the closing record of a snapshot says; nil for any other record. It follows an empty list of grants.
func endOf(payload []byte) []byte {
	if len(payload) > 4 && payload[0] == partGrants && payload[2] == 0 && payload[3] == partEnd {
		return payload[4:]
	}
	return nil
}

// prune deletes journal files and snapshots that a snapshot makes unnecessary.
func (j *Journal) prune(upTo uint64) error {
	l, err := list(j.cfg.Dir)
	if err != nil {
		return err
	}
	for _, s := range l.snapshots {
		if s.number < upTo {
			err = errors.Join(err, j.cfg.disk.remove(s.path))
		}
	}
	for i, f := range l.journals {
		if i+1 < len(l.journals) && l.journals[i+1].number <= upTo+1 {
			err = errors.Join(err, j.cfg.disk.remove(f.path))
		}
	}
	return errors.Join(err, j.cfg.disk.syncDir(j.cfg.Dir))
}
