package replication

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"

	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// ownValues remembers checksums of the values that a leader has written lately: what still has its own is as it was written,
// and need not be unpacked to be sure of that.
type ownValues struct {
	mu   sync.Mutex
	sums map[string]uint32
	keys []string // oldest first
}

func (o *ownValues) note(key string, value []byte) {
	sum := crc32.Checksum(value, castagnoli)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sums == nil {
		o.sums = map[string]uint32{}
	}
	if _, there := o.sums[key]; !there {
		o.keys = append(o.keys, key)
	}
	o.sums[key] = sum
	for len(o.keys) > limits.LogOwnValues {
		delete(o.sums, o.keys[0])
		o.keys = o.keys[1:]
	}
}

// has tells whether a value is one that was written here and is unchanged.
func (o *ownValues) has(key string, value []byte) bool {
	sum := crc32.Checksum(value, castagnoli)
	o.mu.Lock()
	defer o.mu.Unlock()
	own, there := o.sums[key]
	return there && own == sum
}

// intact is an error for a value that is not what a leader wrote: damage must not be spread over what it is joined with.
func (t *Term) intact(kv etcdkv.KV, first, last uint64) error {
	if t.keeper.own.has(kv.Key, kv.Value) {
		return nil
	}
	_, err := readable(kv, first, last)
	if err != nil {
		return fmt.Errorf("etcd key %s: %w", kv.Key, err)
	}
	return nil
}

// rollUp joins the oldest records in one key as long as there are many. Large ones come less often, and the next snapshot
// makes them unnecessary soon: it pays to leave more of them alone, since joining writes all of it once more.
func (t *Term) rollUp(ctx context.Context) error {
	above := int64(limits.LogRollAbove)
	if t.keeper.usual.Load() >= limits.LogLargeBytes {
		above = limits.LogRollAboveLarge
	}
	for {
		keys, _, _, err := t.etcd.Range(ctx, t.keys.logs(), end(t.keys.logs()), etcdkv.Page{KeysOnly: true, Limit: above + 1})
		if err != nil || int64(len(keys)) <= above {
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
		key := t.keys.roll(first, last)
		if err := t.fenced(ctx, etcdkv.Put(key, joined, 0), etcdkv.DeleteRange(t.keys.log(first), t.keys.log(last+1))); err != nil {
			return err
		}
		t.keeper.own.note(key, joined)
	}
}

// join puts the values of consecutive records together, as many as fit and one at least.
func (t *Term) join(page []etcdkv.KV) (joined []byte, numbers []uint64, err error) {
	var j joiner
	for _, kv := range page {
		n, ok := t.keys.logNumber(kv.Key)
		if !ok {
			return nil, nil, fmt.Errorf("etcd key %s is none of ours", kv.Key)
		}
		if err := t.intact(kv, n, n); err != nil {
			return nil, nil, err
		}
		if len(numbers) > 0 && (n != numbers[len(numbers)-1]+1 || !j.fits(kv.Value)) {
			break
		}
		if err := j.add(kv.Value); err != nil {
			return nil, nil, fmt.Errorf("etcd key %s: %w", kv.Key, err)
		}
		numbers = append(numbers, n)
	}
	joined, err = j.value()
	return joined, numbers, err
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
		var j joiner
		var taken []etcdkv.KV
		var first, last uint64
		for _, kv := range rolls {
			a, b, ok := t.keys.rollSpan(kv.Key)
			if !ok {
				return fmt.Errorf("etcd key %s is none of ours", kv.Key)
			}
			if err := t.intact(kv, a, b); err != nil {
				return err
			}
			if len(taken) > 0 && (a != last+1 || !j.fits(kv.Value) || len(taken) == limits.LogRollKeys-1) {
				break
			}
			if len(taken) == 0 {
				first = a
			}
			if err := j.add(kv.Value); err != nil {
				return fmt.Errorf("etcd key %s: %w", kv.Key, err)
			}
			last, taken = b, append(taken, kv)
		}
		rolls = rolls[len(taken):]
		if len(taken) < 2 {
			continue
		}
		if err := t.replaceRolls(ctx, &j, t.keys.roll(first, last), taken); err != nil {
			return err
		}
	}
	return nil
}

// replaceRolls puts one value in the place of those that were joined in it.
func (t *Term) replaceRolls(ctx context.Context, j *joiner, key string, taken []etcdkv.KV) error {
	joined, err := j.value()
	if err != nil {
		return err
	}
	ops := []etcdkv.Op{etcdkv.Put(key, joined, 0)}
	for _, kv := range taken {
		ops = append(ops, etcdkv.Delete(kv.Key))
	}
	if err := t.fenced(ctx, ops...); err != nil {
		return err
	}
	t.keeper.own.note(key, joined)
	t.keeper.rolls -= len(taken) - 1
	return nil
}
