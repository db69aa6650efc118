package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mooncake/internal/limits"
	"pgregory.net/rapid"
)

// TestModel plays random calls against the Catalog and the model and compares every answer and all sums.
func TestModel(t *testing.T) {
	bundles := []string{}
	for i := 1; i <= 3; i++ {
		for _, part := range []string{"meta", "buffer/a", "buffer/b", "manifest"} {
			bundles = append(bundles, fmt.Sprintf("p/%032x/%s", i, part))
		}
	}
	plain := []string{"", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
	for _, p := range []profile{
		{"mixed", append(slices.Clone(plain), bundles...), []string{"", "", "g1", "g2"}, 60, 2100, false},
		{"large", plain, []string{""}, 300, 1200, false},
		{"bundles", bundles, []string{""}, 300, 700, false},
		{"handed", append(slices.Clone(plain[1:5]), bundles[:4]...), []string{"", "g1"}, 400, 1000, false},
		{"groups", bundles[:8], []string{"", "g1", "g2"}, 300, 900, false},
		{"workloads", append(slices.Clone(plain), bundles...), []string{"", "", "", "g1"}, 200, 800, true},
		{"small workloads", append(slices.Clone(plain), bundles[:8]...), []string{"", "", "", "g1"}, 60, 300, true},
	} {
		t.Run(p.name, func(t *testing.T) { runModel(t, p) })
	}
}

// A profile says what a random run works with.
type profile struct {
	name         string
	keys, groups []string
	small, large uint64 // most bytes of small and large objects
	workloads    bool   // with rules
}

func runModel(t *testing.T, p profile) {
	steps := 0
	defer func() { t.Logf("%d steps", steps) }()
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		cfg.LeaseMs, cfg.PutDiscardMs, cfg.PutReleaseMs, cfg.MaxSoftPinMs = 1000, 3000, 8000, 60_000
		cfg.SoftPinMs, cfg.WriterQuarantineMs, cfg.BundleStagingIdleMs = 4000, 1500, 5000
		cfg.HideDamagedBundles = rapid.Bool().Draw(rt, "hide damaged")
		cfg.SuspectMissedPingsMs, cfg.ClientActiveTTLMs, cfg.ClientSuspicionTTLMs, cfg.ClientLostTTLMs = 1500, 4000, 3000, 6000
		cfg.AllowEvictSoftPinned = rapid.Bool().Draw(rt, "evict soft pinned")
		cfg.HighWatermark = rapid.SampledFrom([]float64{0, 0.5, 0.9}).Draw(rt, "watermark")
		cfg.Seed = rapid.Uint64().Draw(rt, "seed")
		r := &modelRun{t: rt, p: p, m: newModel(cfg), c: newTest(nopCleanup{t}, cfg), now: 10_000, askers: map[string]string{}}
		r.c.clearReads = rapid.SampledFrom([]int{0, 1, limits.ClearReads}).Draw(rt, "held back one by one")
		r.c.tries = rapid.SampledFrom([]int{limits.EvictTries, 1, 0}).Draw(rt, "tries")
		defer r.c.Close()
		defer r.c.twin.Close()
		r.now += rapid.SampledFrom([]Time{1_800_000_000_000, 0}).Draw(rt, "start") // clocks count from anywhere
		log := r.c.onChange
		r.c.OnChange(func(changes []Change) {
			log(changes)
			r.watch(changes)
		})
		r.m.now = r.now
		for _, id := range []UUID{{1, 1}, {1, 2}} {
			s := segmentOf(id, 2)
			r.m.touch(r.now, id)
			r.same("mount", r.c.MountSegment(r.now, id, s), r.m.mount(r.now, id, s))
		}
		// Rapid prefers the first of what it may choose from, so each run gets an order of its own.
		r.p.keys = rapid.Permutation(p.keys).Draw(rt, "keys")
		r.ids = rapid.Permutation([]uint64{1, 2, 3}).Draw(rt, "clients")
		actions := rapid.Permutation([]func(*rapid.T){
			r.put, r.put, r.put, r.put, r.upsert, r.end, r.end, r.end, r.revoke, r.get, r.exist, r.remove, r.tick, r.tick,
			r.ping, r.ping, r.ping, r.remount, r.rare, r.snatch, r.snatch, r.silence,
			r.rules,
		}).Draw(rt, "actions")
		for i := range rapid.SampledFrom([]int{modelStepsMax / 10, modelStepsMax / 2, modelStepsMax}).Draw(rt, "steps") {
			rapid.SampledFrom(actions).Draw(rt, "action")(rt)
			r.sums()
			steps++
			r.c.now = max(r.c.now, r.now)
			if i%10 == 0 {
				r.c.compare()
			}
		}
		r.c.compare()
		r.c.compareSnapshot()
	})
}

// rare does what empties the store.
func (r *modelRun) rare(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){r.mount, r.mount, r.unmount, r.matching, r.suspect, r.dead, r.softPin}).Draw(t, "rare")(t)
}

// nopCleanup lets rapid decide when a catalog ends.
type nopCleanup struct{ *testing.T }

func (nopCleanup) Cleanup(func()) {}

type modelRun struct {
	t       *rapid.T
	p       profile
	m       *model
	c       *replayed
	now     Time
	ids     []uint64 // of clients
	evicted []string
	askers  map[string]string // by key: the workload for which it was evicted
	expired []string
	reused  bool // a range was taken from readers
	cleared bool // what went with all objects is held back in pieces
}

// watch notes what the Catalog chose.
func (r *modelRun) watch(changes []Change) {
	for i := range changes {
		ch := &changes[i]
		if ch.Kind == ChangeDrop && ch.Cause == CauseEvict {
			r.evicted = append(r.evicted, strings.Clone(ch.Key))
			r.askers[strings.Clone(ch.Key)] = r.asker()
		}
		if ch.Kind == ChangeDrop && ch.Cause == CauseExpire {
			r.expired = append(r.expired, strings.Clone(ch.Key))
		}
		r.cleared = r.cleared || ch.Kind == ChangeClear && ch.Until != 0
		if ch.Kind == ChangeRelease {
			for _, rc := range ch.Replicas {
				r.m.held = slices.DeleteFunc(r.m.held, func(h modelRange) bool {
					if h.seg != rc.Segment || h.off != rc.Offset || h.until > r.now && h.handed == Never {
						return false
					}
					r.reused = r.reused || h.until > r.now
					return true
				})
			}
		}
	}
}

// judge takes the evictions over into the model, if they were allowed.
func (r *modelRun) judge(key, group string) {
	var victims []*modelObject
	for _, victim := range r.evicted {
		o := r.m.objects[victim]
		if o == nil || !r.m.evictable(r.now, o, key, group, r.m.cfg.AllowEvictSoftPinned) {
			r.t.Fatalf("%q was evicted for %q: %+v", victim, key, o)
		}
		if unit := unitOf(o); unit != "" {
			for _, x := range r.m.tied(o) {
				if !slices.Contains(r.evicted, x.key) {
					r.t.Fatalf("%q was evicted without %q", victim, x.key)
				}
			}
		}
	}
	for _, victim := range r.evicted {
		victims = append(victims, r.m.objects[victim])
		r.m.drop(r.m.objects[victim], CauseEvict, 0, 0)
	}
	r.inside(victims)
	r.evicted = nil
}

func (r *modelRun) same(what string, got, want error) {
	r.t.Helper()
	if !errors.Is(got, want) {
		r.t.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}

func (r *modelRun) sums() {
	r.c.tidyAll()
	r.c.inSlices(r.c.countLost)
	st, lost := r.c.Stats(), r.m.lostKeys()
	if f := st.Refusals; f.Leased+f.Pinned+f.InFlight+f.OwnBundle+f.NoSegment+f.Quota+f.Reserved+f.UnreadKept != st.PutStartAllocFailures {
		r.t.Fatalf("%d refusals, by reason %+v", st.PutStartAllocFailures, f)
	}
	if len(r.m.objects)-lost != int(st.Keys) || lost != int(st.LostKeys) || r.m.allocated() != st.AllocatedBytes || r.m.heldBytes() != st.QuarantinedBytes ||
		r.m.capacity() != st.CapacityBytes {
		r.t.Fatalf("%+v; the model has %d keys, %d lost, %d bytes, %d held, capacity %d", st, len(r.m.objects), lost, r.m.allocated(), r.m.heldBytes(), r.m.capacity())
	}
	r.sameBundles()
	if keys := strings.Join(slices.Sorted(r.c.Keys), " "); keys != r.m.readableKeys() {
		r.t.Fatalf("keys %s; the model has %s", keys, r.m.readableKeys())
	}
	r.shares()
}

func (r *modelRun) key(t *rapid.T) string { return rapid.SampledFrom(r.p.keys).Draw(t, "key") }

func (r *modelRun) client(t *rapid.T) UUID {
	return UUID{1, rapid.SampledFrom(r.ids).Draw(t, "client")}
}

func (r *modelRun) segment(t *rapid.T, id UUID) Segment {
	s := segmentOf(id, rapid.Uint64Range(1, 2).Draw(t, "segment"))
	s.Base = rapid.SampledFrom([]uint64{s.Base, s.Base, s.Base, 5000, 0}).Draw(t, "base")
	return s
}

// segmentOf makes one of the two segments of a client. The third client shares an endpoint with the first and a name with
// the second; the first two share a host.
func segmentOf(id UUID, n uint64) Segment {
	return Segment{
		ID: UUID{id.Lo, n}, Name: []string{"one", "two", "two"}[id.Lo-1], Base: 4096 * n, Size: 1000 * n,
		Endpoint: []string{"x:1", "x:2", "x:1"}[id.Lo-1],
	}
}

func (r *modelRun) suspect(t *rapid.T) {
	id := r.client(t)
	c := r.m.clients[id]
	want := c != nil && c.stage == StageActive && r.m.owns(id)
	if got := r.c.Suspect(r.now, id); got != want {
		r.t.Fatalf("suspect: %v, the model says %v", got, want)
	}
	if want {
		c.stage, c.reported = StageSuspect, true
	}
}

func (r *modelRun) dead(t *rapid.T) {
	id := r.client(t)
	d := Departure{id, r.now - Time(rapid.SampledFrom([]int64{0, 0, 500, 3000}).Draw(t, "ago"))}
	want := r.m.dead(r.now, d)
	if got := r.c.WritersGone(r.now, []Departure{d})[0]; got != want {
		r.t.Fatalf("%d writes ended, the model says %d", got, want)
	}
}

func (r *modelRun) mount(t *rapid.T) {
	id := r.client(t)
	s := r.segment(t, id)
	r.m.touch(r.now, id)
	r.same("mount", r.c.MountSegment(r.now, id, s), r.m.mount(r.now, id, s))
}

func (r *modelRun) remount(t *rapid.T) {
	id := r.client(t)
	list := []Segment{r.segment(t, id), r.segment(t, r.client(t))}
	r.same("remount", r.c.ReMountSegments(r.now, id, list), r.m.remount(r.now, id, list))
}

func (r *modelRun) unmount(t *rapid.T) {
	s := r.segment(t, r.client(t))
	_, err := r.c.UnmountSegment(r.now, s.ID, UUID{})
	r.same("unmount", err, nil)
	r.m.unmount(s.ID)
}

func (r *modelRun) ping(t *rapid.T) {
	id := r.client(t)
	want := false
	if c := r.m.clients[id]; c != nil {
		c.ping, c.stage, c.reported, want = r.now, StageActive, false, c.ok
	}
	if got := r.c.Ping(r.now, id); got != want {
		r.t.Fatalf("ping %v, the model says %v", got, want)
	}
}

func (r *modelRun) options(t *rapid.T) *PutOptions {
	o := &PutOptions{
		Replicas:  rapid.SampledFrom([]uint64{1, 1, 1, 2, 3, 0}).Draw(t, "replicas"),
		Group:     rapid.SampledFrom(r.p.groups).Draw(t, "group"),
		HardPin:   rapid.IntRange(0, 9).Draw(t, "hard") == 0,
		Preferred: rapid.SampledFrom([][]string{nil, nil, nil, {"two", "none", "one"}}).Draw(t, "preferred"),
		SoftPin:   rapid.SampledFrom([]uint8{0, 0, 0, 0, 1, 1, 2, 3}).Draw(t, "soft"),
	}
	if r.p.workloads {
		o.Tenant = rapid.SampledFrom([]string{"", "", "red", "default", "blue"}).Draw(t, "tenant")
	}
	if o.SoftPin == SoftPinEnable && rapid.Bool().Draw(t, "with ttl") {
		o.SoftPinTTLSet, o.SoftPinTTLMs = true, rapid.SampledFrom([]int64{0, 1500, 70_000}).Draw(t, "ttl")
	}
	return o
}

func (r *modelRun) size(t *rapid.T) uint64 {
	return rapid.OneOf(rapid.Uint64Range(0, r.p.small), rapid.Uint64Range(100, r.p.large)).Draw(t, "size")
}

func (r *modelRun) put(t *rapid.T) {
	id, key, size, o := r.client(t), r.key(t), r.size(t), r.options(t)
	old, want := r.m.putStart(r.now, id, key, size, o)
	room, a := r.room(key, o.Group, size), r.ask(key, o.Tenant, o.Group, size, old)
	replicas, err := r.c.PutStart(r.now, id, key, size, o, nil)
	if want != nil {
		r.same("put", err, want)
		return
	}
	r.judge(key, o.Group)
	r.placed(err, &a, r.m.copies(key, o), replicas, room)
	if err != nil {
		return
	}
	if old != nil {
		r.m.makeWay(r.now, old)
	}
	r.m.created(r.now, id, key, size, o, replicas, nil)
}

// room tells whether a put can be served without disturbing readers and without evicting unread bundles.
func (r *modelRun) room(key, group string, size uint64) bool {
	if size == 0 || !r.m.reading(r.now) {
		return false
	}
	return r.roomBeside(nil, key, group, size, effort{soft: r.m.cfg.AllowEvictSoftPinned})
}

// roomBeside tells whether room can be made on a segment that is not used yet.
func (r *modelRun) roomBeside(used []Replica, key, group string, size uint64, e effort) bool {
	for id, seg := range r.m.segs {
		if !slices.ContainsFunc(used, func(x Replica) bool { return x.Segment.ID == id }) && r.m.roomFor(r.now, seg, key, group, size, e) {
			return true
		}
	}
	return false
}

// placed judges the places that a put got, or did not get. Room says that there was some without disturbing readers.
func (r *modelRun) placed(err error, a *modelAsk, wanted uint64, replicas []Replica, room bool) {
	key, group, size := a.key, a.group, a.size
	if err != nil {
		r.same("put", err, ErrNoSpace)
	} else {
		r.granted(a, replicas)
	}
	if r.reused && room && len(r.m.rules) == 0 {
		r.t.Fatalf("%q of %d bytes took a range from readers though there was room: %v", key, size, replicas)
	}
	reused := r.reused
	r.reused = false
	e := effort{soft: r.m.cfg.AllowEvictSoftPinned, reuse: true, unread: true}
	hidden := slices.ContainsFunc(replicas, func(x Replica) bool { return r.m.stage(x.Segment.ID) != StageActive })
	switch {
	case hidden && (len(replicas) > 1 || r.m.stage(replicas[0].Segment.ID) != StageSuspect):
		r.t.Fatalf("%q was put on %v", key, replicas)
	case hidden || err != nil:
		replicas = nil
	case uint64(len(replicas)) == wanted || reused:
		return
	default:
		e.reuse, e.unread = false, false
	}
	if r.roomBeside(replicas, key, group, size, e) && !r.mayRefuse(a, replicas, e) {
		r.t.Fatalf("%q of %d bytes got %v though there was room elsewhere", key, size, replicas)
	}
}

func (r *modelRun) upsert(t *rapid.T) {
	id, key, size, o := r.client(t), r.key(t), r.size(t), r.options(t)
	if old := r.m.objects[key]; old != nil && rapid.Bool().Draw(t, "same size") {
		size = old.size
	}
	old := r.m.objects[key]
	if old != nil && r.m.lost(old) {
		r.upsertLost(id, key, size, o, old)
		return
	}
	group := o.Group
	if old != nil {
		group = old.group
	}
	room, a := r.room(key, group, size), r.ask(key, o.Tenant, group, size, nil)
	if old != nil && old.open {
		a = r.ask(key, o.Tenant, group, size, old)
	}
	replicas, err := r.c.UpsertStart(r.now, id, key, size, o, nil)
	switch {
	case r.m.invalid(key, size, o):
		r.same("upsert", err, ErrInvalidParams)
		return
	case r.m.late(r.now, id, key):
		r.same("upsert", err, ErrUnavailableStatus)
		return
	case old != nil && o.Group != "" && o.Group != old.group:
		r.same("upsert", err, ErrInvalidParams)
		return
	}
	r.judge(key, group)
	wanted := r.m.copies(key, o)
	if old != nil && !old.open && old.size == size {
		if r.m.inPlace(old) {
			r.same("upsert of the same size", err, nil)
			r.replaced(id, old, o, replicas, &a)
			return
		}
		wanted = r.activeCopies(old)
	}
	r.placed(err, &a, wanted, replicas, room)
	if err != nil {
		return
	}
	if old != nil {
		release := r.now + Time(r.m.cfg.PutReleaseMs)
		switch {
		case old.open:
			r.m.drop(old, CauseDiscard, r.m.outlast(r.now, old, release), Never)
		case old.next != nil:
			r.m.drop(old.next, CauseDiscard, release, Never)
		}
	}
	r.m.created(r.now, id, key, size, o, replicas, old)
}

// upsertLost is an upsert of an object that counts as absent.
func (r *modelRun) upsertLost(id UUID, key string, size uint64, o *PutOptions, old *modelObject) {
	room, a := r.room(key, o.Group, size), r.ask(key, o.Tenant, o.Group, size, old)
	replicas, err := r.c.UpsertStart(r.now, id, key, size, o, nil)
	switch {
	case r.m.invalid(key, size, o):
		r.same("upsert", err, ErrInvalidParams)
		return
	case r.m.late(r.now, id, key):
		r.same("upsert", err, ErrUnavailableStatus)
		return
	}
	r.judge(key, o.Group)
	r.placed(err, &a, r.m.copies(key, o), replicas, room)
	if err == nil {
		r.m.makeWay(r.now, old)
		r.m.created(r.now, id, key, size, o, replicas, nil)
	}
}

// replaced takes over an upsert of the same size: into a new range, or in place when there is no room.
func (r *modelRun) replaced(id UUID, old *modelObject, o *PutOptions, replicas []Replica, a *modelAsk) {
	if r.reused {
		r.t.Fatalf("%q took a range from readers though it has one", old.key)
	}
	if old.next != nil {
		r.m.drop(old.next, CauseDiscard, r.now+Time(r.m.cfg.PutReleaseMs), Never)
	}
	active := r.activeCopies(old)
	if replicas[0].ID != old.replicas[0].ID {
		if uint64(len(replicas)) != active {
			r.t.Fatalf("%q has %v; the new value has %v", old.key, old.replicas, replicas)
		}
		r.granted(a, replicas)
		r.m.created(r.now, id, old.key, old.size, o, replicas, old)
		return
	}
	until, _ := r.m.hold(r.now, old)
	e := effort{soft: r.m.cfg.AllowEvictSoftPinned}
	if until > 0 && active < 2 && r.roomBeside(nil, old.key, old.group, old.size, e) && !r.mayRefuse(a, nil, e) {
		r.t.Fatalf("%q goes over what somebody reads though there is room", old.key)
	}
	r.reopened(id, old, o, replicas)
}

// activeCopies is how many copies the new value of an object gets.
func (r *modelRun) activeCopies(old *modelObject) (n uint64) {
	for _, x := range old.replicas {
		if r.m.stage(x.Segment.ID) == StageActive {
			n++
		}
	}
	return max(n, 1)
}

func (r *modelRun) reopened(id UUID, old *modelObject, o *PutOptions, replicas []Replica) {
	for i := range replicas {
		if replicas[i].Offset != old.replicas[i].Offset || replicas[i].Segment.ID != old.replicas[i].Segment.ID {
			r.t.Fatalf("upsert in place moved: %+v to %+v", old.replicas, replicas)
		}
	}
	old.open, old.client, old.time = true, id, r.now
	r.m.asked(old, o)
	r.m.wrote(old)
	if u := r.m.unit(old); u != nil {
		u.touch = max(u.touch, r.now)
	}
}

func (r *modelRun) end(t *rapid.T) {
	id, key, sum := r.client(t), r.key(t), rapid.Uint64Range(0, 2).Draw(t, "checksum")
	if o := r.m.objects[key]; o != nil && rapid.IntRange(0, 9).Draw(t, "owner") > 0 {
		if id = o.client; o.next != nil {
			id = o.next.client
		}
	}
	r.same("end", r.c.PutEnd(r.now, id, key, sum, sum > 0, ReplicaTypeAll), r.m.putEnd(r.now, id, key, sum, sum > 0))
}

func (r *modelRun) revoke(t *rapid.T) {
	id, key := r.client(t), r.key(t)
	r.same("revoke", r.c.PutRevoke(r.now, id, key, ReplicaTypeMemory), r.m.putRevoke(r.now, id, key))
}

func (r *modelRun) get(t *rapid.T) { r.read(t) }

func (r *modelRun) read(t *rapid.T) (key string) {
	key = r.key(t)
	o, replicas, err := r.c.Get(r.now, key, nil)
	want, wantReplicas, wantErr := r.m.readable(key)
	r.same("get", err, wantErr)
	if err != nil {
		return key
	}
	if o.Size != want.size || o.HasChecksum != want.hasSum || o.Checksum != want.sum || o.HardPin != want.hard || len(replicas) != len(wantReplicas) {
		r.t.Fatalf("get %q: %+v with %d replicas; the model has %+v", key, o, len(replicas), want)
	}
	for i := range replicas {
		if x := wantReplicas[i]; replicas[i].ID != x.ID || replicas[i].Offset != x.Offset || *replicas[i].Segment != *x.Segment {
			r.t.Fatalf("get %q: %+v; the model has %+v", key, replicas, wantReplicas)
		}
	}
	r.m.lease(r.now, want)
	want.handed = r.now
	r.m.wasRead(want)
	return key
}

func (r *modelRun) exist(t *rapid.T) {
	key := r.key(t)
	want, _, err := r.m.readable(key)
	if got := r.c.Exist(r.now, key); got != (err == nil) {
		r.t.Fatalf("exist %q: %v; the model says %v", key, got, err)
	}
	if err == nil {
		r.m.lease(r.now, want)
	}
}

func (r *modelRun) remove(t *rapid.T) {
	key, force := r.key(t), rapid.Bool().Draw(t, "force")
	r.same("remove", r.c.Remove(r.now, key, force), r.m.remove(r.now, key, force, true))
}

func (r *modelRun) softPin(t *rapid.T) {
	key, ttl := r.key(t), rapid.SampledFrom([]int64{0, 500, 5000, 60_001}).Draw(t, "pinned for")
	r.same("soft pin", r.c.SoftPin(r.now, key, ttl), r.m.softPin(r.now, key, ttl))
}

// snatch removes an object from under a reader.
func (r *modelRun) snatch(t *rapid.T) {
	key := r.read(t)
	r.same("remove", r.c.Remove(r.now, key, true), r.m.remove(r.now, key, true, true))
}

// silence lets time pass in which one client at most gives a sign of life.
func (r *modelRun) silence(t *rapid.T) {
	id := r.client(t)
	for range rapid.IntRange(1, 6).Draw(t, "ticks") {
		r.pass(1900)
		r.c.now = max(r.c.now, r.now)
		if c := r.m.clients[id]; c != nil {
			c.ping, c.stage, c.reported = r.now, StageActive, false
		}
		r.c.Ping(r.now, id)
	}
}

func (r *modelRun) tick(t *rapid.T) {
	r.pass(Time(rapid.SampledFrom([]int64{0, 1, 100, 500, 1000, 1900, 2500}).Draw(t, "ms")))
}

func (r *modelRun) pass(ms Time) {
	r.now += ms
	r.m.now = r.now
	r.m.sweep(r.now)
	r.c.Sweep(r.now)
	r.expire()
	r.judge("", "")
	r.overdue()
	m := r.m
	usable, allocated := m.filled()
	if m.cfg.HighWatermark == 0 || allocated <= m.cfg.HighWatermark*usable || r.c.aside > r.now {
		return
	}
	for _, o := range m.objects {
		if m.inSight(o) && !m.reserved(o) && !m.unread(o) && m.ripe(r.now, o) && m.evictable(r.now, o, "", "", m.cfg.AllowEvictSoftPinned) {
			r.t.Fatalf("%v of %v bytes are allocated and %q stays", allocated, usable, o.key)
		}
	}
}
