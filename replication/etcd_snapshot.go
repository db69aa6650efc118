package replication

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// maybeSnapshot has a snapshot made when enough was written since the last, and lets it count. What it makes unnecessary
// is deleted afterwards.
func (t *Term) maybeSnapshot(ctx context.Context) error {
	k := &t.keeper
	wrote := k.wrote.Load()
	due := max(t.snapshotBytes, k.snapshotBytes.Load())
	if t.space.crowded() {
		due = limits.LogTrimBytes
	}
	if wrote < due {
		return nil
	}
	began := time.Now()
	p, maker, err := t.makeSnapshot(ctx)
	if err == nil {
		err = t.publish(ctx, p)
	}
	if err != nil {
		t.stats.snapshotErrors.Add(1)
		return fmt.Errorf("no snapshot: %w", err)
	}
	k.wrote.Add(-wrote)
	k.snapshotBytes.Store(p.Bytes)
	k.due, k.dueSince, k.behind = &p, t.boot(), nil
	t.stats.snapshotMade(time.Since(began))
	t.shelf.log.Info("snapshot made", zap.Uint64("up_to", p.Last), zap.Int64("bytes", p.Bytes), zap.String("by", maker), zap.Duration("took", time.Since(began)))
	return nil
}

// publish lets a snapshot count.
func (t *Term) publish(ctx context.Context, p pointer) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return t.fenced(ctx, etcdkv.Put(t.keys.current(), value, 0))
}

// makeSnapshot has a standby make a snapshot, the one that is furthest, or makes it itself when none does: for as long as
// it takes, memory is needed twice.
func (t *Term) makeSnapshot(ctx context.Context) (p pointer, maker string, err error) {
	members, err := t.others(ctx, t.self)
	if err != nil {
		return p, "", err
	}
	slices.SortStableFunc(members, func(a, b presence) int { return cmp.Compare(b.Applied, a.Applied) })
	for _, m := range members {
		if m.GRPC == "" {
			continue
		}
		if p, err = askSnapshot(ctx, m, t.cluster, t.created); err == nil {
			if err = t.hold(ctx, m, p); err == nil {
				return p, m.ID, nil
			}
		}
		if ctx.Err() != nil {
			return p, "", ctx.Err()
		}
		t.rare.Warn("another master makes no snapshot", zap.String("action", "snapshot_refused"), zap.String("member", m.ID), zap.Error(err))
	}
	p, err = t.buildSnapshot(ctx, t.fence(), t.self)
	return p, t.self, err
}

// hold makes sure of a snapshot that another member made: it is in etcd, or it lies here as well.
func (t *Term) hold(ctx context.Context, m presence, p pointer) error {
	var text []byte
	var err error
	if p.Place == placeMembers {
		if text, err = fetchFrom(ctx, m.GRPC, t.cluster, p); err == nil && t.dir != nil {
			err = t.dir.keep(p, text)
		}
	} else {
		text, err = t.joinParts(ctx, p)
	}
	if err != nil {
		return err
	}
	got := newHistory(t.catalog, zap.NewNop())
	got.gentle.on = true
	defer got.Catalog.Close()
	return got.decodeSnapshot("snapshot "+p.ID, text)
}

// buildSnapshot builds the history from what lies in etcd, beside the catalog in use, writes it down, and reads it back.
// What goes to etcd does so only while the fence holds. It is for the leader to let the snapshot count.
func (s *shelf) buildSnapshot(ctx context.Context, fence etcdkv.Condition, maker string) (p pointer, err error) {
	quiet := *s
	quiet.log, quiet.gentle.on = zap.NewNop(), true
	h, err := quiet.load(ctx)
	if err != nil {
		return p, err
	}
	release := sync.OnceFunc(h.Catalog.Close)
	defer release()
	var out bytes.Buffer
	if _, err := h.encode(ctx, &out, h.Last); err != nil {
		return p, err
	}
	want := h.census()
	release() // what is read back below takes as much memory once more
	text := packSnapshot(out.Bytes())
	sum := sha256.Sum256(text)
	p = pointer{
		// Two makers of one term do not get in each other's way.
		ID:   fmt.Sprintf("%016x-%x-%08x", h.Last, fence.Created, crc32.ChecksumIEEE([]byte(maker))),
		Last: h.Last, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Parts: (len(text) + limits.LogPartBytes - 1) / limits.LogPartBytes,
	}
	var back []byte
	switch {
	case p.Parts <= s.partsMax:
		if err = s.putParts(ctx, fence, p, text); err == nil {
			back, err = s.joinParts(ctx, p)
		}
	case s.dir == nil:
		err = fmt.Errorf("it has %d bytes, and %d is all that etcd is asked to keep: give the masters a --snapshot_dir", p.Bytes, s.partsMax*limits.LogPartBytes)
	default:
		p.Parts, p.Place = 0, placeMembers
		if err = s.dir.keep(p, text); err == nil {
			back, err = s.dir.text(p)
		}
	}
	if err != nil {
		return p, err
	}
	got := newHistory(s.catalog, zap.NewNop())
	got.gentle.on = true
	defer got.Catalog.Close()
	if err := got.decodeSnapshot("snapshot "+p.ID, back); err != nil {
		return p, err
	}
	return p, want.same(got, "snapshot "+p.ID)
}

// putParts writes a snapshot to etcd, one part after another, so that records beside them are not held up.
func (s *shelf) putParts(ctx context.Context, fence etcdkv.Condition, p pointer, text []byte) error {
	put := func(op etcdkv.Op) error {
		out, err := s.etcd.Txn(ctx, []etcdkv.Condition{fence}, []etcdkv.Op{op}, nil)
		if err == nil && !out.Done {
			return ErrDeposed
		}
		return err
	}
	if err := put(etcdkv.DeleteRange(s.keys.partsOf(p.ID), end(s.keys.partsOf(p.ID)))); err != nil {
		return err
	}
	for n := range p.Parts {
		part := text[n*limits.LogPartBytes:]
		if err := put(etcdkv.Put(s.keys.part(p.ID, n), part[:min(len(part), limits.LogPartBytes)], 0)); err != nil {
			return err
		}
	}
	return nil
}

// trimDue deletes what the snapshot that counts makes unnecessary, as far as the other members have it: a standby whose
// next record is deleted has to begin anew. One that does not come along for limits.MemberLagMs is not waited for.
func (t *Term) trimDue(ctx context.Context) error {
	k := &t.keeper
	if k.due == nil && !k.looked { // what a leader before has left
		p, found, err := t.currentSnapshot(ctx)
		if err != nil {
			return err
		}
		if k.looked = true; found {
			k.due, k.dueSince, k.behind = &p, t.boot(), nil
		}
	}
	if k.due == nil {
		return nil
	}
	floor, err := t.floor(ctx, *k.due)
	if err != nil {
		return err
	}
	if floor < k.due.Last {
		return t.fenced(ctx, etcdkv.DeleteRange(t.keys.logs(), t.keys.log(floor)))
	}
	err = t.trim(ctx, *k.due)
	if err == nil && k.due.Place == placeMembers && t.dir != nil {
		err = t.dir.prune(k.due.ID)
	}
	if err == nil {
		k.due = nil
	}
	return err
}

// floor is the number below which nobody needs records. Who is behind but comes nearer is waited for as long as etcd has
// room; without that one whose reading takes longer than writers need for the next snapshots would read for ever.
func (t *Term) floor(ctx context.Context, p pointer) (uint64, error) {
	k := &t.keeper
	members, err := t.others(ctx, t.self)
	if err != nil {
		return 0, err
	}
	floor, nearer := p.Last, false
	behind := map[string]uint64{}
	for _, m := range members {
		floor = min(floor, m.Applied)
		if m.Applied < p.Last {
			behind[m.ID] = m.Applied
			before, known := k.behind[m.ID]
			nearer = nearer || known && m.Applied > before
		}
		if p.Place == placeMembers && m.Keeps && m.Snapshot != p.ID {
			floor = 0 // as long as only one has it, the records are the other copy
		}
	}
	if k.behind == nil {
		k.behind = behind
	}
	if t.boot()-k.dueSince <= limits.MemberLagMs*int64(time.Millisecond) {
		return floor, nil
	}
	if !nearer || t.space.crowded() {
		return p.Last, nil
	}
	k.behind, k.dueSince = behind, t.boot()
	return floor, nil
}

// trim deletes what a snapshot makes unnecessary: records, rolls, and parts of other snapshots. The last record stays, so
// that the newest number can be read from its key.
func (t *Term) trim(ctx context.Context, p pointer) error {
	mine := t.keys.partsOf(p.ID)
	err := t.fenced(ctx,
		etcdkv.DeleteRange(t.keys.logs(), t.keys.log(p.Last)),
		etcdkv.DeleteRange(t.keys.parts(), mine), etcdkv.DeleteRange(end(mine), end(t.keys.parts())))
	if err != nil {
		return err
	}
	rolls, _, _, err := t.etcd.Range(ctx, t.keys.rolls(), end(t.keys.rolls()), etcdkv.Page{KeysOnly: true})
	if err != nil {
		return err
	}
	var ops []etcdkv.Op
	for _, kv := range rolls {
		if _, last, ok := t.keys.rollSpan(kv.Key); ok && last <= p.Last {
			ops = append(ops, etcdkv.Delete(kv.Key))
		}
	}
	for len(ops) > 0 {
		n := min(len(ops), limits.LogRollKeys)
		if err := t.fenced(ctx, ops[:n]...); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}
