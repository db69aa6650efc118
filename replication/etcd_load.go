package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// shelf is the log of a cluster as it lies in etcd.
type shelf struct {
	etcd Store
	boot func() int64 // a clock that also counts while the machine sleeps, in nanoseconds
	keys keyspace
	// revision pins what is read of the log; 0 = as it is now.
	revision int64
	cluster  string
	catalog  catalog.Config
	space    *space
	dir      *snapshotDir // nil: this member keeps no snapshots
	// partsMax bounds the parts of a snapshot in etcd; a larger one is kept by members.
	partsMax int
	// progress, unless it is nil, is told how far a history is that is being loaded.
	progress func(number uint64)
	gentle   gentle // of whoever loads beside the catalog in use

	log  *zap.Logger
	rare *zap.Logger // for what is tried again and again: one line in a while says it
}

func rarely(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, limits.LogComplainMs*time.Millisecond, 1, 0)
	}))
}

// errHole says that records are missing which others had in hand a moment ago: they were moved meanwhile. It passes.
var errHole = errors.New("records are missing")

// load builds the history from what is there now. Records move from log/ to roll/ and from there into a snapshot, so
// reading in this order finds each at least once, whoever writes meanwhile.
func (s *shelf) load(ctx context.Context) (h *History, err error) {
	began := time.Now()
	for try := range limits.LogLoadTries {
		if try > 0 {
			s.log.Info("the log in etcd moved while it was read", zap.Error(err))
		}
		if h, err = s.loadOnce(ctx); err == nil {
			s.log.Info("log read from etcd", zap.Uint64("records", h.Last), zap.Uint64("objects", h.Catalog.Stats().Keys),
				zap.Duration("took", time.Since(began)))
			return h, nil
		}
		if !errors.Is(err, errHole) {
			break
		}
	}
	return s.salvage(ctx, err)
}

func (s *shelf) loadOnce(ctx context.Context) (*History, error) {
	logs, err := s.all(ctx, s.keys.logs())
	if err != nil {
		return nil, err
	}
	rolls, err := s.all(ctx, s.keys.rolls())
	if err != nil {
		return nil, err
	}
	h := newHistory(s.catalog, s.log)
	h.gentle = s.gentle
	if err = s.loadSnapshot(ctx, h); err == nil {
		err = s.takeAll(h, append(rolls, logs...))
	}
	if err != nil {
		h.Catalog.Close()
		return nil, err
	}
	return h, nil
}

// all reads everything with a prefix.
func (s *shelf) all(ctx context.Context, prefix string) (out []etcdkv.KV, err error) {
	return s.between(ctx, prefix, end(prefix))
}

// between reads everything from a key up to, and without, another, in pages.
func (s *shelf) between(ctx context.Context, from, to string) (out []etcdkv.KV, err error) {
	for {
		page, more, _, err := s.etcd.Range(ctx, from, to, etcdkv.Page{Limit: limits.LogPageKeys, Revision: s.revision})
		if err != nil {
			return nil, err
		}
		out = append(out, page...)
		if !more || len(page) == 0 {
			return out, nil
		}
		from = page[len(page)-1].Key + "\x00"
	}
}

// take applies the records of a value that the history does not have.
func (h *History) take(keys *keyspace, key string, value []byte) error {
	if _, last, ok := keys.span(key); ok && last <= h.Last {
		return nil // whatever it has
	}
	return records(key, value, func(head *header, payload []byte) error {
		switch {
		case head.number <= h.Last:
			return nil
		case head.number > h.Last+1:
			return fmt.Errorf("%d to %d: %w", h.Last+1, head.number-1, errHole)
		}
		return h.visit(head, payload)
	})
}

// currentSnapshot reads which snapshot counts.
func (s *shelf) currentSnapshot(ctx context.Context) (p pointer, found bool, err error) {
	kvs, _, _, err := s.etcd.Range(ctx, s.keys.current(), s.keys.current()+"\x00", etcdkv.Page{Revision: s.revision})
	if err != nil || len(kvs) == 0 {
		return p, false, err
	}
	p, err = parsePointer(kvs[0].Value)
	return p, err == nil, err
}

func (s *shelf) loadSnapshot(ctx context.Context, h *History) error {
	p, found, err := s.currentSnapshot(ctx)
	if err != nil || !found {
		return err
	}
	text, err := s.snapshotText(ctx, p)
	if err != nil {
		return err
	}
	return h.decodeSnapshot("snapshot "+p.ID, text)
}

// snapshotText reads a snapshot from wherever it lies.
func (s *shelf) snapshotText(ctx context.Context, p pointer) ([]byte, error) {
	if p.Place != placeMembers {
		return s.joinParts(ctx, p)
	}
	if s.dir != nil {
		text, err := s.dir.text(p)
		if err == nil {
			return text, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Error("a snapshot that was kept cannot be used: another master is asked", zap.String("action", "snapshot_damaged"), zap.Error(err))
		}
	}
	text, err := s.fetch(ctx, p)
	if err == nil && s.dir != nil {
		err = s.dir.keep(p, text)
	}
	return text, err
}

// joinParts reads the parts of a snapshot in etcd. Those that are not there any more were replaced.
func (s *shelf) joinParts(ctx context.Context, p pointer) ([]byte, error) {
	prefix := s.keys.partsOf(p.ID)
	parts, err := s.all(ctx, prefix)
	if err != nil {
		return nil, err
	}
	text := make([]byte, 0, p.Bytes)
	for _, part := range parts {
		text = append(text, part.Value...)
	}
	if len(parts) != p.Parts || int64(len(text)) != p.Bytes {
		return nil, fmt.Errorf("etcd keys %s: %d of %d parts: %w", prefix, len(parts), p.Parts, errHole)
	}
	if err := p.matches(text); err != nil {
		return nil, fmt.Errorf("etcd keys %s: %w", prefix, err)
	}
	return text, nil
}

// decodeSnapshot starts the history with the text of a snapshot.
func (h *History) decodeSnapshot(place string, text []byte) error {
	text, err := unpackSnapshot(text)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	head, err := parseFileHeader(text, kindSnapshot)
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return h.decode(place, head, text)
}

// catchUp applies what came after the history, and tells as of which revision that was everything. Records that were joined
// meanwhile are read where they are now: only what a snapshot has swallowed is out of reach, and errHole says so.
func (s *shelf) catchUp(ctx context.Context, h *History) (revision int64, err error) {
	for {
		page, more, at, err := s.etcd.Range(ctx, s.keys.log(h.Last+1), end(s.keys.logs()), etcdkv.Page{Limit: limits.LogPageKeys})
		if err != nil {
			return 0, err
		}
		if s.keys.skips(page, h.Last) { // read after the page: what it lacks is in rolls by now, if it is anywhere
			if err := s.takeRolls(ctx, h); err != nil {
				return 0, err
			}
		}
		for _, kv := range page {
			if err := h.take(&s.keys, kv.Key, kv.Value); err != nil {
				return 0, err
			}
		}
		if !more {
			return at, nil
		}
	}
}

// skips tells whether a page of records does not begin with the one after a number.
func (k keyspace) skips(page []etcdkv.KV, last uint64) bool {
	if len(page) == 0 {
		return false
	}
	n, ok := k.logNumber(page[0].Key)
	return ok && n > last+1
}

// takeRolls applies the joined records that the history lacks. Rolls that are joined themselves while they are read may be
// missed: then they are read again.
func (s *shelf) takeRolls(ctx context.Context, h *History) error {
	for try := 0; ; try++ {
		rolls, _, _, err := s.etcd.Range(ctx, s.keys.rolls(), end(s.keys.rolls()), etcdkv.Page{KeysOnly: true})
		if err != nil {
			return err
		}
		next := slices.IndexFunc(rolls, func(kv etcdkv.KV) bool {
			_, last, ok := s.keys.rollSpan(kv.Key)
			return ok && last > h.Last
		})
		if next < 0 {
			return nil
		}
		values, err := s.between(ctx, rolls[next].Key, end(s.keys.rolls()))
		if err == nil {
			err = s.takeAll(h, values)
		}
		if !errors.Is(err, errHole) || try == limits.LogLoadTries {
			return err
		}
	}
}

// tail keeps the history up with the log until ctx ends. applied is told how far it is. errHole means that it has to be
// loaded anew.
func (s *shelf) tail(ctx context.Context, h *History, applied func(number uint64)) error {
	for {
		revision, err := s.catchUp(ctx, h)
		if err == nil {
			applied(h.Last)
			err = s.etcd.Watch(ctx, s.keys.logs(), end(s.keys.logs()), revision+1, func(events []etcdkv.Event, _ int64) error {
				for i := range events {
					if e := &events[i]; !e.Deleted {
						if err := h.take(&s.keys, e.Key, e.Value); err != nil {
							return err
						}
					}
				}
				applied(h.Last)
				return nil
			})
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, etcdkv.ErrCompacted):
		case isDamage(err):
			return err
		default:
			s.rare.Warn("the log in etcd cannot be followed", zap.String("action", "tail_failed"), zap.Error(err))
			if !pause(ctx, limits.LogRetryMs*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
}

// pause waits, and is false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
