package catalog

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"mooncake/internal/limits"
)

// A Catalog is the leader's view: the state, and what only a leader knows.
type Catalog struct {
	cfg      Config
	onChange func([]Change)
	heard    func() bool
	log      Log
	last     atomic.Uint64 // number of the newest decision
	fresh    fresh
	parting  partings
	granted  []*grant // windows opened by the decision under way

	mu       sync.Mutex
	s        *state
	dice     *rand.Rand
	clients  map[UUID]*client
	away     Swept       // clients that went since the last sweep
	left     []Departure // the same
	stats    Stats
	sweeper  sweeper
	watch    bundleWatch
	firsts   firstReads
	trivial  map[string]trivial
	quotas   quotas
	offload  offloading
	promote  promotions
	unsummed unsummed

	placer     placer
	asks       uint32 // puts that looked for room
	walks      uint32 // looks for what is tied together
	tries      int    // limits.EvictTries, but for tests
	lostMax    uint64 // limits.CatalogLostObjectsMax, but for tests
	clearReads int    // limits.ClearReads, but for tests
	aside      Time   // up to when objects out of sight were put off; see pickOldest

	// What a decision is written into. It is used again by the next one.
	changes  []Change
	replicas []ReplicaChange
	text     []byte
}

// New returns an empty Catalog.
func New(cfg Config) *Catalog {
	return &Catalog{
		cfg:        cfg,
		s:          newState(),
		dice:       rand.New(rand.NewPCG(cfg.Seed, cfg.Seed^0x9e3779b97f4a7c15)),
		clients:    map[UUID]*client{},
		tries:      limits.EvictTries,
		lostMax:    limits.CatalogLostObjectsMax,
		clearReads: limits.ClearReads,
	}
}

// Close gives the memory of the records back. Nothing may be called afterwards.
func (c *Catalog) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.arena.freeAll()
}

// OnChange sets a function that is told of every decision before it takes effect. It is called under the writer's lock
// and must not call the Catalog; the Changes are valid until it returns. It must be set before the first call.
func (c *Catalog) OnChange(f func([]Change)) { c.onChange = f }

// Apply carries out Changes that were decided elsewhere.
func (c *Catalog) Apply(changes []Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range changes {
		c.s.apply(&changes[i], false)
	}
	c.s.segments.settle()
	c.s.tidy(limits.CatalogSliceItems)
	c.s.reaccount(limits.CatalogSliceItems)
}

// begin starts the writing down of a decision. What a large one needed is not kept for the next.
func (c *Catalog) begin() {
	if max(cap(c.changes), cap(c.replicas)) > limits.CatalogChangesKept || cap(c.text) > limits.CatalogTextKept {
		c.changes, c.replicas, c.text = nil, nil, nil
	}
	clear(c.changes)
	c.changes, c.replicas, c.text = c.changes[:0], c.replicas[:0], c.text[:0]
}

// expectDrops makes room at once for the decision that so many objects go: growing while it is written down costs more than all
// the rest.
func (c *Catalog) expectDrops(list []name) {
	keys := 0
	for _, n := range list {
		keys += int(c.s.record(n).keyBytes)
	}
	c.changes, c.replicas, c.text = slices.Grow(c.changes, len(list)), slices.Grow(c.replicas, len(list)), slices.Grow(c.text, keys)
}

// note adds a Change to the decision. The result is valid until the next note.
func (c *Catalog) note(kind ChangeKind, now Time) *Change {
	n := len(c.changes)
	if n == cap(c.changes) {
		c.changes = append(c.changes, Change{})
	}
	c.changes = c.changes[:n+1] // what is behind the end is zero: see begin
	ch := &c.changes[n]
	ch.Kind, ch.Time = kind, now
	return ch
}

// commit reports the decision and carries it out.
func (c *Catalog) commit() {
	if len(c.changes) == 0 {
		return
	}
	number := c.appended()
	for i := range c.changes {
		c.s.apply(&c.changes[i], true)
	}
	c.queueFresh(number)
	c.s.segments.settle()
}

// keep copies a key out of its record into the decision: applying the Change may take the record away.
func (c *Catalog) keep(key string) string {
	at := len(c.text)
	c.text = append(c.text, key...)
	return unsafe.String(unsafe.SliceData(c.text[at:]), len(key))
}

// replicasOf lists the replicas of an object on mounted segments in the decision: all, or those with the given status.
func (c *Catalog) replicasOf(n name, status uint8) []ReplicaChange {
	at := len(c.replicas)
	size := c.s.record(n).size
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		if seg := c.s.segments.list[rep.segment]; !seg.dead.Load() && (status == 0 || rep.status == status) {
			c.replicas = append(c.replicas, ReplicaChange{rep.id, seg.info.ID, rep.offset, size})
		}
		rn = rep.more
	}
	return c.replicas[at:len(c.replicas):len(c.replicas)]
}

// noteDrop decides that an object goes with all its replicas.
func (c *Catalog) noteDrop(now Time, n name, cause Cause, until, handed Time) {
	if st := c.s.copyOf(n); st != 0 && st != n {
		c.noteAside(now, st, CauseAbort) // somebody may be writing to its ranges
	}
	replicas := c.replicasOf(n, 0)
	key := c.keep(c.s.record(n).key())
	ch := c.note(ChangeDrop, now)
	ch.Key, ch.Cause, ch.Until, ch.HandedOut, ch.Replicas = key, cause, until, handed, replicas
}

// Provide gets memory for the next records if there will be need of it soon. A large page takes the system milliseconds to clear,
// and who puts has no lock yet: the others go on meanwhile. It is for before a Turn that puts, and mostly nothing is to be done.
func (c *Catalog) Provide() {
	a := c.s.arena
	if !a.thin.Load() || !a.thin.CompareAndSwap(true, false) {
		return
	}
	pair := mapPair()
	if pair == nil {
		return
	}
	populate(pair)
	c.mu.Lock()
	defer c.mu.Unlock()
	a.add(pair)
}

// Shrink gives the spans that are kept back for the next objects to the system, a few at a time.
func (c *Catalog) Shrink() { c.inSlices(c.s.arena.shrink) }

// KeyCount is Stats().Keys alone, for who asks often.
func (c *Catalog) KeyCount() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.s.keys - c.s.lostKeys
}

// Stats returns the figures behind the metrics.
func (c *Catalog) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.Keys, st.OpenKeys = c.s.keys-c.s.lostKeys, uint64(c.s.open.count)
	st.SoftPinnedKeys, st.Groups = uint64(len(c.s.pins)), c.s.units
	st.Bundles.Bundles = c.s.bundleCount
	c.diskStats(&st)
	st.ArenaBytes, st.LostKeys = uint64(c.s.arena.held.Load()), c.s.lostKeys
	st.CorruptBytes, st.CorruptRanges = c.s.heldBack.corruptBytes(), uint64(len(c.s.heldBack.corrupt))
	for _, seg := range c.s.segments.mounted {
		if seg.at() == StageLost {
			st.LostBytes += seg.used
			continue
		}
		st.Segments++
		st.CapacityBytes += seg.info.Size
		st.AllocatedBytes += seg.used
		st.QuarantinedBytes += seg.quarantined
	}
	for _, cl := range c.clients {
		if cl.ok && cl.stage <= StageSuspect {
			st.ActiveClients++
		}
		switch cl.stage {
		case StageSuspect:
			st.SuspectClients++
		case StageSuspected:
			st.SuspectedClients++
		case StageLost:
			st.LostClients++
		}
	}
	return st
}
