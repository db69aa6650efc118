package replication

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// Saved describes a snapshot that was saved: a file of the form that a journal's snapshots have.
type Saved struct {
	Last    uint64 // number of the last record in it
	Time    catalog.Time
	Objects uint64
	Bytes   int64
	SHA256  string // of the file, in hex
}

// save writes a history as a snapshot.
func (h *History) save(ctx context.Context, out io.Writer, identity uint64) (s Saved, err error) {
	sum := sha256.New()
	s = Saved{Last: h.Last, Time: h.Time, Objects: h.Catalog.Stats().Keys}
	if s.Bytes, err = h.encode(ctx, io.MultiWriter(out, sum), identity); err != nil {
		return s, err
	}
	s.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return s, nil
}

// Save writes all that is durable now as a snapshot. It is made from the files alone, so whoever uses the journal is not held
// up; for the time being the memory of the catalog is needed twice.
func (j *Journal) Save(ctx context.Context, out io.Writer) (Saved, error) {
	return saveDir(ctx, j.cfg.Dir, j.cfg.Catalog, j.Durable(), gentle{on: true}, out)
}

// SaveDir writes what the directory of a journal holds as a snapshot. What somebody who uses it is writing at the moment may be
// missing.
func SaveDir(ctx context.Context, dir string, out io.Writer) (Saved, error) {
	return saveDir(ctx, dir, catalog.Config{}, 0, gentle{}, out)
}

// saveDir reads a directory up to a record at least. Files may be deleted meanwhile, since a snapshot makes them unnecessary.
func saveDir(ctx context.Context, dir string, cfg catalog.Config, atLeast uint64, g gentle, out io.Writer) (Saved, error) {
	var failed error
	for range limits.LogLoadTries {
		h, identity, err := readDir(ctx, dir, cfg, g)
		if err == nil && h.Last < atLeast {
			h.Catalog.Close()
			err = fmt.Errorf("%s ends at record %d, %d was kept: %w", dir, h.Last, atLeast, errHole)
		}
		if err == nil {
			defer h.Catalog.Close()
			return h.save(ctx, out, identity)
		}
		if failed = err; !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errHole) || ctx.Err() != nil {
			break
		}
	}
	return Saved{}, failed
}

// readDir builds the history of a directory without touching it. Damage is an error.
func readDir(ctx context.Context, dir string, cfg catalog.Config, g gentle) (h *History, identity uint64, err error) {
	l, err := list(dir)
	if err != nil {
		return nil, 0, err
	}
	if len(l.snapshots)+len(l.journals) == 0 {
		return nil, 0, fmt.Errorf("%s has no journal and no snapshot", dir)
	}
	if len(l.snapshots) > 0 {
		head, err := readHead(l.snapshots[len(l.snapshots)-1].path, kindSnapshot)
		if err != nil {
			return nil, 0, err
		}
		identity = head.identity
	} else {
		head, err := readHead(l.journals[0].path, kindJournal)
		if err != nil {
			return nil, 0, err
		}
		identity = head.identity
	}
	h = newHistory(cfg, zap.NewNop())
	h.gentle = g
	defer func() {
		if err != nil {
			h.Catalog.Close()
		}
	}()
	if n := len(l.snapshots); n > 0 {
		if err := h.loadSnapshot(l.snapshots[n-1].path, identity); err != nil {
			return h, 0, err
		}
	}
	for i, f := range l.journals {
		last := i+1 == len(l.journals)
		if !last && l.journals[i+1].number <= h.Last+1 {
			continue // a snapshot includes it
		}
		if ctx.Err() != nil {
			return h, 0, ctx.Err()
		}
		_, text, err := read(f.path, kindJournal)
		if err != nil {
			return h, 0, err
		}
		found, err := scan(f.path, text, identity, h.visit)
		switch {
		case err != nil:
			return h, 0, err
		case len(found.damaged) > 0 || h.Lost > 0:
			return h, 0, fmt.Errorf("%s is damaged: a start of the master repairs it", f.path)
		}
	}
	return h, identity, nil
}

// Save writes all that is in etcd now as a snapshot, beside the catalog in use.
func (t *Term) Save(ctx context.Context, out io.Writer) (Saved, error) {
	quiet := t.shelf
	quiet.log, quiet.rare, quiet.gentle.on = zap.NewNop(), zap.NewNop(), true
	h, err := quiet.load(ctx)
	if err != nil {
		return Saved{}, err
	}
	defer h.Catalog.Close()
	return h.save(ctx, out, h.Last)
}
