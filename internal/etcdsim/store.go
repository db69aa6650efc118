package etcdsim

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"mooncake/internal/etcdkv"
)

// expiryTick is how often leases are looked at, as etcd does.
const expiryTick = 500 * time.Millisecond

// Store is the content of an etcd. Everything it does is done at once and in one order.
type Store struct {
	// Ignores drops a condition of a transaction when it returns true: for controls that show what the condition is for.
	// It must be set before the first call.
	Ignores func(c etcdkv.Condition) bool
	// Applied is told of every key that is about to be put, with what there is before and the conditions of the
	// transaction, ignored or not. It must be set before the first call and must not call the Store.
	Applied func(before *Keys, kv etcdkv.KV, conditions []etcdkv.Condition)

	underWay sync.WaitGroup // what is sent, until it arrives

	mu        sync.Mutex
	keys      Keys
	compacted int64
	events    []etcdkv.Event // since the last compaction
	leases    map[int64]*lease
	lastLease int64
	stalled   bool
	changed   chan struct{} // closed, and made anew, with every change
}

// Keys is what a store holds at a moment.
type Keys struct {
	all      map[string]etcdkv.KV
	revision int64
}

// Get returns a key.
func (k *Keys) Get(key string) (kv etcdkv.KV, found bool) {
	kv, found = k.all[key]
	return kv, found
}

type lease struct {
	ttl     time.Duration
	expires time.Time
}

// NewStore makes an empty store.
func NewStore() *Store {
	return &Store{keys: Keys{map[string]etcdkv.KV{}, 1}, leases: map[int64]*lease{}, changed: make(chan struct{})}
}

// Run ends leases whose time is over, until ctx ends and nothing is on its way any more.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(expiryTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.underWay.Wait()
			return
		case <-tick.C:
			s.expire()
		}
	}
}

func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return
	}
	now := time.Now()
	for id, l := range s.leases {
		if l.expires.Before(now) {
			s.endLease(id)
		}
	}
}

// Stall stops everything, as the loss of the majority does, or lets it go on. Leases get their full time again then.
func (s *Store) Stall(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = on
	for _, l := range s.leases {
		l.expires = time.Now().Add(l.ttl)
	}
	s.wake()
}

// Read returns a key as it is now.
func (s *Store) Read(key string) (kv etcdkv.KV, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys.Get(key)
}

// Count counts the keys with a prefix.
func (s *Store) Count(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys.between(prefix, etcdkv.PrefixEnd(prefix)))
}

// CompactAll forgets all history.
func (s *Store) CompactAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compact(s.keys.revision)
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// between lists the keys of a range in order; an empty end means the one key.
func (k *Keys) between(from, to string) (keys []string) {
	if to == "" {
		if _, ok := k.all[from]; ok {
			return []string{from}
		}
		return nil
	}
	for key := range maps.Keys(k.all) {
		if key >= from && key < to {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// errStalled says that there is no majority.
var errStalled = errors.New("etcdsim: no majority")

func (s *Store) txn(conditions []etcdkv.Condition, then, otherwise []etcdkv.Op) (out etcdkv.Outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return out, errStalled
	}
	out.Done = true
	for _, c := range conditions {
		if s.Ignores == nil || !s.Ignores(c) {
			out.Done = out.Done && s.keys.all[c.Key].Created == c.Created
		}
	}
	ops := otherwise
	if out.Done {
		ops = then
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == etcdkv.OpPut && o.Lease != 0 && s.leases[o.Lease] == nil {
			return etcdkv.Outcome{}, etcdkv.ErrNoLease
		}
	}
	next := s.keys.revision + 1
	for i := range ops {
		out.Got = append(out.Got, s.apply(&ops[i], next, conditions))
	}
	out.Revision = s.keys.revision
	return out, nil
}

// apply does one step of a transaction that has a revision if it changes anything.
func (s *Store) apply(o *etcdkv.Op, revision int64, conditions []etcdkv.Condition) (got []etcdkv.KV) {
	switch o.Kind {
	case etcdkv.OpPut:
		kv := etcdkv.KV{Key: o.Key, Value: slices.Clone(o.Value), Created: revision, Modified: revision, Lease: o.Lease}
		if old, ok := s.keys.all[o.Key]; ok {
			kv.Created = old.Created
		}
		if s.Applied != nil {
			s.Applied(&s.keys, kv, conditions)
		}
		s.keys.all[o.Key] = kv
		s.note(etcdkv.Event{KV: kv}, revision)
	case etcdkv.OpDelete:
		for _, key := range s.keys.between(o.Key, o.To) {
			s.drop(key, revision)
		}
	case etcdkv.OpGet:
		for _, key := range s.keys.between(o.Key, o.To) {
			if o.Limit == 0 || int64(len(got)) < o.Limit {
				got = append(got, s.keys.all[key])
			}
		}
	}
	return got
}

func (s *Store) drop(key string, revision int64) {
	delete(s.keys.all, key)
	s.note(etcdkv.Event{KV: etcdkv.KV{Key: key, Modified: revision}, Deleted: true}, revision)
}

func (s *Store) note(e etcdkv.Event, revision int64) {
	s.keys.revision = revision
	s.events = append(s.events, e)
	s.wake()
}

func (s *Store) endLease(id int64) {
	delete(s.leases, id)
	next := s.keys.revision + 1
	for key, kv := range s.keys.all {
		if kv.Lease == id {
			s.drop(key, next)
		}
	}
}

// ranged reads keys as they are now. No client of ours asks for older ones.
func (s *Store) ranged(from, to string, p etcdkv.Page) (found []etcdkv.KV, more bool, revision int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return nil, false, 0, errStalled
	}
	if p.Revision != 0 {
		return nil, false, 0, errors.New("etcdsim: reads as of a revision are not simulated")
	}
	keys := s.keys.between(from, to)
	if p.Last {
		slices.Reverse(keys)
	}
	if p.Limit > 0 && int64(len(keys)) > p.Limit {
		keys, more = keys[:p.Limit], true
	}
	for _, key := range keys {
		kv := s.keys.all[key]
		if p.KeysOnly {
			kv.Value = nil
		}
		found = append(found, kv)
	}
	return found, more, s.keys.revision, nil
}

// since returns the events of a range from a revision on, and a channel that is closed with the next change.
func (s *Store) since(from, to string, revision int64) (events []etcdkv.Event, now int64, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if revision <= s.compacted {
		return nil, 0, nil, etcdkv.ErrCompacted
	}
	if s.stalled {
		return nil, 0, s.changed, nil
	}
	for _, e := range s.events {
		if e.Modified >= revision && e.Key >= from && e.Key < to {
			events = append(events, e)
		}
	}
	return events, s.keys.revision, s.changed, nil
}

func (s *Store) compact(revision int64) {
	s.compacted = max(s.compacted, min(revision, s.keys.revision))
	s.events = slices.DeleteFunc(s.events, func(e etcdkv.Event) bool { return e.Modified <= s.compacted })
	s.wake()
}

func (s *Store) grant(ttl time.Duration) (id int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return 0, errStalled
	}
	s.lastLease++
	s.leases[s.lastLease] = &lease{ttl, time.Now().Add(ttl)}
	return s.lastLease, nil
}

func (s *Store) keepAlive(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[id]
	switch {
	case s.stalled:
		return errStalled
	case l == nil:
		return etcdkv.ErrNoLease
	}
	l.expires = time.Now().Add(l.ttl)
	return nil
}

func (s *Store) revoke(id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return errStalled
	}
	if s.leases[id] != nil {
		s.endLease(id)
	}
	return nil
}
