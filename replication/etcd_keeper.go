package replication

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// keeper is what the tidying up of a term remembers.
type keeper struct {
	wrote         atomic.Int64 // bytes of records since the last snapshot
	usual         atomic.Int64 // bytes of a record, on average of the last dozens
	own           ownValues
	snapshotBytes atomic.Int64 // of the last snapshot
	compactable   int64        // revision up to which the next compaction goes
	compacted     time.Time

	rolls int // that were left when they were last joined

	looked   bool              // for what a leader before has not deleted
	due      *pointer          // the snapshot that makes unnecessary what is still there; nil: nothing is
	dueSince int64             // on the shelf's clock; later when somebody is waited for who comes nearer
	behind   map[string]uint64 // who was behind then, and how far he was; nil: nobody looked yet
}

// noteRecord notes a record that was written. Only the goroutine that writes calls it.
func (k *keeper) noteRecord(key string, value []byte) {
	k.own.note(key, value)
	k.wrote.Add(int64(len(value)))
	k.usual.Store(k.usual.Load() + (int64(len(value))-k.usual.Load())/limits.LogUsualRecords)
}

// tidyUp bounds what lies in etcd: it joins small records, makes snapshots, deletes what they make unnecessary and lets
// etcd forget the deleted. All it writes is fenced like records are. What fails is tried again at the next time.
func (t *Term) tidyUp(ctx context.Context) {
	tick := time.NewTicker(limits.LogTidyMs * time.Millisecond)
	defer tick.Stop()
	t.look(ctx) // by which the member is found that takes records the fastest
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
