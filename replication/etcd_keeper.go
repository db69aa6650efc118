package replication

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// keeper is what the tidying up of a term remembers.
type keeper struct {
	wrote         atomic.Int64 // bytes of records since the last snapshot
	snapshotBytes atomic.Int64 // of the last snapshot
	compactable   int64        // revision up to which the next compaction goes
	compacted     time.Time

	rolls int // that were left when they were last joined

	looked   bool     // for what a leader before has not deleted
	due      *pointer // the snapshot that makes unnecessary what is still there; nil: nothing is
	dueSince int64    // on the shelf's clock
}

// tidyUp bounds what lies in etcd: it joins small records, makes snapshots, deletes what they make unnecessary and lets
// etcd forget the deleted. All it writes is fenced like records are. What fails is tried again at the next time.
func (t *Term) tidyUp(ctx context.Context) {
	tick := time.NewTicker(limits.LogTidyMs * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.nudge:
		case <-tick.C:
		}
		t.look(ctx)
		err := t.mend(ctx)
		if err == nil {
			err = t.rollUp(ctx)
		}
		if err == nil {
			err = t.rollAgain(ctx)
		}
		if isDamage(err) { // found by the way: the next load repairs what it can
			t.harmed(ctx)
			err = errors.Join(err, t.mend(ctx))
		}
		if err == nil {
			err = t.maybeSnapshot(ctx)
		}
		if err == nil {
			err = t.trimDue(ctx)
		}
		if err == nil && t.compact {
			err = t.forget(ctx)
		}
		if err != nil && ctx.Err() == nil {
			t.rare.Warn("the log in etcd is not tidied up and grows", zap.String("action", "tidy_failed"), zap.Error(err))
		}
	}
}

// fenced changes something as the leader.
func (t *Term) fenced(ctx context.Context, ops ...etcdkv.Op) error {
	out, err := t.etcd.Txn(ctx, []etcdkv.Condition{t.fence()}, ops, nil)
	if err == nil && !out.Done {
		return ErrDeposed
	}
	return err
}

// rollUp joins the oldest records in one key as long as there are many.
func (t *Term) rollUp(ctx context.Context) error {
	for {
		keys, _, _, err := t.etcd.Range(ctx, t.keys.logs(), end(t.keys.logs()), etcdkv.Page{KeysOnly: true, Limit: limits.LogRollAbove + 1})
		if err != nil || len(keys) <= limits.LogRollAbove {
			return err
		}
		page, _, _, err := t.etcd.Range(ctx, t.keys.logs(), end(t.keys.logs()), etcdkv.Page{Limit: limits.LogRollKeys})
		if err != nil {
			return err
		}
		joined, numbers, err := t.join(page)
		if err != nil {
			return err
		}
		first, last := numbers[0], numbers[len(numbers)-1]
		if err := t.fenced(ctx, etcdkv.Put(t.keys.roll(first, last), joined, 0), etcdkv.DeleteRange(t.keys.log(first), t.keys.log(last+1))); err != nil {
			return err
		}
	}
}

// join puts the values of consecutive records together, as many as fit and one at least.
func (t *Term) join(page []etcdkv.KV) (joined []byte, numbers []uint64, err error) {
	joined = append(joined, valueHead...)
	for _, kv := range page {
		n, ok := t.keys.logNumber(kv.Key)
		if !ok {
			return nil, nil, fmt.Errorf("etcd key %s is none of ours", kv.Key)
		}
		text, err := unpackValue(kv.Value)
		if err == nil {
			_, err = readable(kv, n, n) // damage must not be spread
		}
		if err != nil {
			return nil, nil, fmt.Errorf("etcd key %s: %w", kv.Key, err)
		}
		if len(numbers) > 0 && (n != numbers[len(numbers)-1]+1 || len(joined)+len(text) > limits.LogRollBytes) {
			break
		}
		joined = append(joined, text...)
		numbers = append(numbers, n)
	}
	return packValue(joined), numbers, nil
}

// rollAgain joins neighbouring rolls when there are many, or the slow trickle of small records would fill etcd with keys.
// Those that are full cannot be joined: it is tried again when there are half as many more than were left.
func (t *Term) rollAgain(ctx context.Context) error {
	keys, _, _, err := t.etcd.Range(ctx, t.keys.rolls(), end(t.keys.rolls()), etcdkv.Page{KeysOnly: true})
	if err != nil || len(keys) <= max(limits.LogRollsAbove, t.keeper.rolls+t.keeper.rolls/2) {
		return err
	}
	rolls, err := t.all(ctx, t.keys.rolls())
	if err != nil {
		return err
	}
	t.keeper.rolls = len(rolls)
	for len(rolls) > 1 {
		joined, taken := bytes.Clone(valueHead), []etcdkv.KV(nil)
		var first, last uint64
		for _, kv := range rolls {
			a, b, ok := t.keys.rollSpan(kv.Key)
			if !ok {
				return fmt.Errorf("etcd key %s is none of ours", kv.Key)
			}
			text, err := unpackValue(kv.Value)
			if err != nil {
				return fmt.Errorf("etcd key %s: %w", kv.Key, err)
			}
			if len(taken) > 0 && (a != last+1 || len(joined)+len(text) > limits.LogRollBytes || len(taken) == limits.LogRollKeys-1) {
				break
			}
			if len(taken) == 0 {
				first = a
			}
			joined, last, taken = append(joined, text...), b, append(taken, kv)
		}
		rolls = rolls[len(taken):]
		if len(taken) < 2 {
			continue
		}
		ops := []etcdkv.Op{etcdkv.Put(t.keys.roll(first, last), packValue(joined), 0)}
		for _, kv := range taken {
			ops = append(ops, etcdkv.Delete(kv.Key))
		}
		if err := t.fenced(ctx, ops...); err != nil {
			return err
		}
		t.keeper.rolls -= len(taken) - 1
	}
	return nil
}

// forget lets etcd drop what was deleted up to the time before: a standby that reads meanwhile has that long.
func (t *Term) forget(ctx context.Context) error {
	k := &t.keeper
	if time.Since(k.compacted) < limits.LogCompactMs*time.Millisecond {
		return nil
	}
	_, _, revision, err := t.etcd.Range(ctx, t.keys.leader, t.keys.leader+"\x00", etcdkv.Page{KeysOnly: true})
	if err != nil {
		return err
	}
	if k.compactable > 0 {
		err = t.etcd.Compact(ctx, k.compactable)
	}
	if errors.Is(err, etcdkv.ErrDenied) { // everything else goes on; somebody else may compact, as etcd itself can be told to
		t.compact, err = false, nil
		t.shelf.log.Warn("etcd lets this user not compact: its history grows until somebody does", zap.String("action", "compaction_denied"))
	}
	k.compacted, k.compactable = time.Now(), revision
	return err
}
