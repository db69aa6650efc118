package replication

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
)

// errDamaged says that a value of the log is not what a leader wrote.
var errDamaged = errors.New("the value is damaged")

// errNewest says that the loss cannot be bounded: it is the newest record that repeats nobody's grants but its own.
var errNewest = errors.New("the newest record cannot be read, and nothing tells whose bytes it gave away; " +
	"--force_empty begins anew")

// found is a record that was read from a damaged log.
type found struct {
	key     string
	head    header
	payload []byte
	anew    bool
}

// salvage builds the history from a log that cannot be read as it should: a value is damaged, or records are missing and
// nobody moved them. All of it is read as of one revision, so nothing seems missing that was only moved. What is left is
// applied as after damage of a journal: every record repeats the grants of those before it, and whatever lies in a range
// that the lost ones gave away goes.
func (s *shelf) salvage(ctx context.Context, cause error) (*History, error) {
	_, _, revision, err := s.etcd.Range(ctx, s.keys.leader, s.keys.leader+"\x00", etcdkv.Page{KeysOnly: true})
	if err != nil {
		return nil, err
	}
	pinned := *s
	pinned.revision = revision
	logs, err := pinned.all(ctx, s.keys.logs())
	if err != nil {
		return nil, err
	}
	rolls, err := pinned.all(ctx, s.keys.rolls())
	if err != nil {
		return nil, err
	}
	h := newHistory(s.catalog, s.log)
	err = s.applyFound(h, append(rolls, logs...), func() error { return pinned.loadSnapshot(ctx, h) })
	if err != nil {
		h.Catalog.Close()
		return nil, err
	}
	if !h.repaired && h.BadValues == 0 {
		return h, nil // nothing is wrong as of that revision
	}
	h.repaired = true
	s.log.Error("the log in etcd is damaged: what cannot be trusted is dropped", zap.String("action", "log_damaged"), zap.Uint64("records", h.Last),
		zap.Uint64("lost_records", h.Lost), zap.Int("dropped_objects", len(h.Dropped)), zap.Any("dropped_by", h.DroppedBy), zap.NamedError("first", cause))
	return h, nil
}

// applyFound applies the records that can be read, in their order: those after the snapshot, or from the last that makes void
// what was before.
func (s *shelf) applyFound(h *History, values []etcdkv.KV, loadSnapshot func() error) error {
	var good []found
	for _, kv := range values {
		if first, last, ok := s.keys.span(kv.Key); ok {
			list, _ := readable(kv, first, last) // what is wrong with it is said below
			good = append(good, list...)
		}
	}
	slices.SortStableFunc(good, func(a, b found) int { return cmp.Compare(a.head.number, b.head.number) })
	begins := uint64(0)
	for i := range good {
		if good[i].anew {
			begins = good[i].head.number
		}
	}
	if err := loadSnapshot(); err != nil && begins == 0 {
		return err
	}
	if begins > h.Last {
		h.begin(begins - 1)
	}
	newest, newestKey, err := s.sayWhatIsWrong(h, values)
	if err != nil {
		return err
	}
	for i := range good {
		f := &good[i]
		if f.head.number <= h.Last {
			continue
		}
		if err := h.visit(&f.head, f.payload); err != nil {
			return fmt.Errorf("etcd key %s: record %d: %w", f.key, f.head.number, err)
		}
	}
	if newest > h.Last {
		return fmt.Errorf("etcd key %s: records %d to %d: %w", newestKey, h.Last+1, newest, errNewest)
	}
	return nil
}

// sayWhatIsWrong logs and counts the values after the history that are damaged, and tells which key has the newest record.
func (s *shelf) sayWhatIsWrong(h *History, values []etcdkv.KV) (newest uint64, newestKey string, err error) {
	newest = h.Last
	for _, kv := range values {
		first, last, ok := s.keys.span(kv.Key)
		if !ok {
			s.log.Error("a key of the log is none of ours", zap.String("action", "log_damaged_key"), zap.String("key", kv.Key))
			continue
		}
		if last <= h.Last {
			continue
		}
		if last > newest {
			newest, newestKey = last, kv.Key
		}
		list, err := readable(kv, first, last)
		if err != nil && !errors.Is(err, errDamaged) {
			return 0, "", fmt.Errorf("etcd key %s: %w", kv.Key, err)
		}
		if err != nil {
			h.BadValues++
			s.log.Error("a value of the log is damaged", zap.String("action", "log_damaged_key"), zap.String("key", kv.Key),
				zap.Int("readable_records", len(list)), zap.Error(err))
		}
	}
	return newest, newestKey, nil
}

// anewAfter prepares a history that makes void what lies in etcd: it begins behind the newest record, readable or not.
func (s *shelf) anewAfter(ctx context.Context) (*History, error) {
	h := newHistory(s.catalog, s.log)
	h.anew, h.repaired = true, true // what is void is deleted as after a repair
	for _, prefix := range []string{s.keys.logs(), s.keys.rolls()} {
		newest, _, _, err := s.etcd.Range(ctx, prefix, end(prefix), etcdkv.Page{KeysOnly: true, Last: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		for _, kv := range newest {
			if _, last, ok := s.keys.span(kv.Key); ok {
				h.Last = max(h.Last, last)
			}
		}
	}
	if p, found, err := s.currentSnapshot(ctx); err == nil && found {
		h.Last = max(h.Last, p.Last)
	}
	return h, nil
}

// span reads which records a key of the log has.
func (k keyspace) span(key string) (first, last uint64, ok bool) {
	if n, ok := k.logNumber(key); ok {
		return n, n, true
	}
	return k.rollSpan(key)
}

// readable gives the records of a value that can be read, and errDamaged when there is anything else in it. Another error
// is that of a record that is as it was written, by another version.
func readable(kv etcdkv.KV, first, last uint64) (list []found, err error) {
	text, err := unpackValue(kv.Value)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(text); {
		h, ok := readHeader(text[at:])
		fits := ok && len(text)-at-headerBytes >= int(h.length) && h.number >= first && h.number <= last
		if fits {
			payload := text[at+headerBytes : at+headerBytes+int(h.length)]
			if crc32.Checksum(payload, castagnoli) == h.sum {
				e, err := parsePayload(&h, payload)
				if err != nil {
					return nil, fmt.Errorf("record %d: %w", h.number, err)
				}
				list = append(list, found{kv.Key, h, payload, e.Anew})
				at += padded(h.length)
				continue
			}
		}
		err = errDamaged
		at += recordAlign
	}
	if err == nil && uint64(len(list)) != last-first+1 {
		err = fmt.Errorf("%d records of %d: %w", len(list), last-first+1, errDamaged)
	}
	return list, err
}

// mend writes a repaired history down and deletes the damaged values with everything else that is in it: what damage took
// stays away. Until then every load comes to the same result from the same values.
func (t *Term) mend(ctx context.Context) error {
	if !t.damaged.Load() {
		return nil
	}
	p, err := t.buildSnapshot(ctx, t.fence(), t.self)
	if err == nil {
		err = t.publish(ctx, p)
	}
	if err == nil {
		err = t.fenced(ctx, etcdkv.DeleteRange(t.keys.logs(), t.keys.log(p.Last)), etcdkv.DeleteRange(t.keys.rolls(), end(t.keys.rolls())))
	}
	if err != nil {
		return fmt.Errorf("the repaired log was not written down: %w", err)
	}
	t.keeper.due, t.keeper.dueSince, t.keeper.behind = &p, t.boot(), nil
	t.damaged.Store(false)
	t.shelf.log.Warn("the repaired log was written down", zap.String("action", "log_mended"), zap.Uint64("up_to", p.Last))
	return nil
}

// harmed notes that the log was damaged while this master leads. The next leader will have what can be read; what that is,
// and what is missing, is said now.
func (t *Term) harmed(ctx context.Context) {
	t.damaged.Store(true)
	h, err := t.load(ctx)
	if err != nil {
		return // mend will meet the same
	}
	defer h.Catalog.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.harm = Harm{h.BadValues, h.Lost, h.DroppedBy}
}

// isDamage tells whether an error is one that a repair may help with.
func isDamage(err error) bool { return errors.Is(err, errDamaged) || errors.Is(err, errHole) }
