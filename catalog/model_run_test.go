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
		{"mixed", append(slices.Clone(plain), bundles...), []string{"", "", "g1", "g2"}, 60, 2100},
		{"large", plain, []string{""}, 300, 1200},
		{"bundles", bundles, []string{""}, 300, 700},
		{"groups", bundles[:8], []string{"", "g1", "g2"}, 300, 900},
	} {
		t.Run(p.name, func(t *testing.T) { runModel(t, p) })
	}
}

// A profile says what a random run works with.
type profile struct {
	name         string
	keys, groups []string
	small, large uint64 // most bytes of small and large objects
}

func runModel(t *testing.T, p profile) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		cfg.LeaseMs, cfg.PutDiscardMs, cfg.PutReleaseMs, cfg.MaxSoftPinMs = 1000, 3000, 8000, 60_000
		cfg.SoftPinMs, cfg.ClientTTLMs = 4000, 5000
		cfg.AllowEvictSoftPinned = rapid.Bool().Draw(rt, "evict soft pinned")
		cfg.HighWatermark = rapid.SampledFrom([]float64{0, 0.5, 0.9}).Draw(rt, "watermark")
		cfg.Seed = rapid.Uint64().Draw(rt, "seed")
		r := &modelRun{t: rt, p: p, m: newModel(cfg), c: newTest(nopCleanup{t}, cfg), now: 10_000}
		r.c.tries = rapid.SampledFrom([]int{limits.EvictTries, 1, 0}).Draw(rt, "tries")
		defer r.c.Close()
		defer r.c.twin.Close()
		log := r.c.onChange
		r.c.OnChange(func(changes []Change) {
			log(changes)
			r.watch(changes)
		})
		for _, id := range []UUID{{1, 1}, {1, 2}} {
			s := Segment{ID: UUID{id.Lo, 2}, Name: "one", Base: 4096, Size: 2000}
			r.m.touch(r.now, id)
			r.same("mount", r.c.MountSegment(r.now, id, s), r.m.mount(id, s))
		}
		actions := []func(*rapid.T){
			r.put, r.put, r.put, r.put, r.upsert, r.end, r.end, r.end, r.revoke, r.get, r.exist, r.remove, r.tick, r.tick,
			r.ping, r.ping, r.remount, r.rare,
		}
		for i := range rapid.IntRange(1, 150).Draw(rt, "steps") {
			rapid.SampledFrom(actions).Draw(rt, "action")(rt)
			r.sums()
			r.c.now = max(r.c.now, r.now)
			if i%10 == 0 {
				r.c.compare()
			}
		}
		r.c.compare()
	})
}

// rare does what empties the store.
func (r *modelRun) rare(t *rapid.T) {
	rapid.SampledFrom([]func(*rapid.T){r.mount, r.mount, r.unmount, r.matching}).Draw(t, "rare")(t)
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
	evicted []string
}

// watch notes what the Catalog chose.
func (r *modelRun) watch(changes []Change) {
	for i := range changes {
		ch := &changes[i]
		if ch.Kind == ChangeDrop && ch.Cause == CauseEvict {
			r.evicted = append(r.evicted, strings.Clone(ch.Key))
		}
		if ch.Kind == ChangeRelease {
			for _, rc := range ch.Replicas {
				r.m.held = slices.DeleteFunc(r.m.held, func(h modelRange) bool {
					return h.seg == rc.Segment && h.off == rc.Offset && (h.until <= r.now || h.early <= r.now)
				})
			}
		}
	}
}

// judge takes the evictions over into the model, if they were allowed.
func (r *modelRun) judge(key, group string) {
	for _, victim := range r.evicted {
		o := r.m.objects[victim]
		if o == nil || !r.m.evictable(r.now, o, key, group, r.m.cfg.AllowEvictSoftPinned) {
			r.t.Fatalf("%q was evicted for %q: %+v", victim, key, o)
		}
		if unit := unitOf(o); unit != "" {
			for _, x := range r.m.members(unit) {
				if !slices.Contains(r.evicted, x.key) {
					r.t.Fatalf("%q was evicted without %q", victim, x.key)
				}
			}
		}
	}
	for _, victim := range r.evicted {
		r.m.drop(r.m.objects[victim], 0, 0)
	}
	r.evicted = nil
}

func (r *modelRun) same(what string, got, want error) {
	r.t.Helper()
	if !errors.Is(got, want) {
		r.t.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}

func (r *modelRun) sums() {
	st := r.c.Stats()
	if len(r.m.objects) != int(st.Keys) || r.m.allocated() != st.AllocatedBytes || r.m.heldBytes() != st.QuarantinedBytes ||
		r.m.capacity() != st.CapacityBytes {
		r.t.Fatalf("%+v; the model has %d keys, %d bytes, %d held, capacity %d", st, len(r.m.objects), r.m.allocated(), r.m.heldBytes(), r.m.capacity())
	}
	if keys := strings.Join(slices.Sorted(r.c.Keys), " "); keys != r.m.readableKeys() {
		r.t.Fatalf("keys %s; the model has %s", keys, r.m.readableKeys())
	}
}

func (r *modelRun) key(t *rapid.T) string { return rapid.SampledFrom(r.p.keys).Draw(t, "key") }

func (r *modelRun) client(t *rapid.T) UUID {
	return UUID{1, rapid.Uint64Range(1, 3).Draw(t, "client")}
}

func (r *modelRun) segment(t *rapid.T, id UUID) Segment {
	n := rapid.Uint64Range(1, 2).Draw(t, "segment")
	return Segment{ID: UUID{id.Lo, n}, Name: "one", Base: rapid.SampledFrom([]uint64{4096, 4096, 4096, 0}).Draw(t, "base"), Size: 1000 * n}
}

func (r *modelRun) mount(t *rapid.T) {
	id := r.client(t)
	s := r.segment(t, id)
	r.m.touch(r.now, id)
	r.same("mount", r.c.MountSegment(r.now, id, s), r.m.mount(id, s))
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
		c.ping, want = r.now, c.ok
	}
	if got := r.c.Ping(r.now, id); got != want {
		r.t.Fatalf("ping %v, the model says %v", got, want)
	}
}

func (r *modelRun) options(t *rapid.T) *PutOptions {
	o := &PutOptions{
		Replicas: rapid.SampledFrom([]uint64{1, 1, 1, 2, 3, 0}).Draw(t, "replicas"),
		Group:    rapid.SampledFrom(r.p.groups).Draw(t, "group"),
		HardPin:  rapid.IntRange(0, 9).Draw(t, "hard") == 0,
		SoftPin:  rapid.SampledFrom([]uint8{0, 0, 0, 0, 1, 1, 2, 3}).Draw(t, "soft"),
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
	old, want := r.m.putStart(r.now, key, size, o)
	replicas, err := r.c.PutStart(r.now, id, key, size, o, nil)
	if want != nil {
		r.same("put", err, want)
		return
	}
	r.judge(key, o.Group)
	if err != nil {
		r.refused(err, key, o.Group, size, nil)
		return
	}
	if old != nil {
		until := old.time + Time(r.m.cfg.PutReleaseMs)
		if until <= r.now {
			until = 0
		}
		r.m.drop(old, until, Never)
	} else if len(replicas) < int(o.Replicas) {
		r.refused(ErrNoSpace, key, o.Group, size, replicas)
	}
	r.m.created(r.now, id, key, size, o, replicas, nil)
}

// refused fails the test when eviction could have made room on a segment that is not used yet.
func (r *modelRun) refused(err error, key, group string, size uint64, used []Replica) {
	r.same("put", err, ErrNoSpace)
	for id, seg := range r.m.segs {
		if slices.ContainsFunc(used, func(x Replica) bool { return x.Segment.ID == id }) || seg.Size < size {
			continue
		}
		if r.m.roomFor(r.now, seg, key, group, size, r.m.cfg.AllowEvictSoftPinned) {
			r.t.Fatalf("%q of %d bytes was refused though %v could make room", key, size, id)
		}
	}
}

func (r *modelRun) upsert(t *rapid.T) {
	id, key, size, o := r.client(t), r.key(t), r.size(t), r.options(t)
	if old := r.m.objects[key]; old != nil && rapid.Bool().Draw(t, "same size") {
		size = old.size
	}
	replicas, err := r.c.UpsertStart(r.now, id, key, size, o, nil)
	old := r.m.objects[key]
	if r.m.invalid(key, size, o) || old != nil && o.Group != "" && o.Group != old.group {
		r.same("upsert", err, ErrInvalidParams)
		return
	}
	group := o.Group
	if old != nil {
		group = old.group
	}
	r.judge(key, group)
	if old != nil && !old.open && old.size == size {
		r.same("upsert in place", err, nil)
		r.reopened(id, old, o, replicas)
		return
	}
	if err != nil {
		r.refused(err, key, group, size, nil)
		return
	}
	if old != nil {
		early := Never
		if !old.open {
			early = old.lease
			if u := r.m.unit(old); u != nil {
				early = max(early, u.lease)
			}
		}
		r.m.drop(old, r.now+Time(r.m.cfg.PutReleaseMs), early)
	}
	r.m.created(r.now, id, key, size, o, replicas, old)
}

func (r *modelRun) reopened(id UUID, old *modelObject, o *PutOptions, replicas []Replica) {
	for i := range replicas {
		if replicas[i].Offset != old.replicas[i].Offset || replicas[i].Segment.ID != old.replicas[i].Segment.ID {
			r.t.Fatalf("upsert in place moved: %+v to %+v", old.replicas, replicas)
		}
	}
	old.open, old.client, old.time = true, id, r.now
	r.m.asked(old, o)
	if u := r.m.unit(old); u != nil {
		u.touch = max(u.touch, r.now)
	}
}

func (r *modelRun) end(t *rapid.T) {
	id, key, sum := r.client(t), r.key(t), rapid.Uint64Range(0, 2).Draw(t, "checksum")
	if o := r.m.objects[key]; o != nil && rapid.IntRange(0, 9).Draw(t, "owner") > 0 {
		id = o.client
	}
	r.same("end", r.c.PutEnd(r.now, id, key, sum, sum > 0, ReplicaTypeAll), r.m.putEnd(r.now, id, key, sum, sum > 0))
}

func (r *modelRun) revoke(t *rapid.T) {
	id, key := r.client(t), r.key(t)
	r.same("revoke", r.c.PutRevoke(r.now, id, key, ReplicaTypeMemory), r.m.putRevoke(id, key))
}

func (r *modelRun) get(t *rapid.T) {
	key := r.key(t)
	o, replicas, err := r.c.Get(r.now, key, nil)
	want, wantErr := r.m.readable(key)
	r.same("get", err, wantErr)
	if err != nil {
		return
	}
	if o.Size != want.size || o.HasChecksum != want.hasSum || o.Checksum != want.sum || o.HardPin != want.hard || len(replicas) != len(want.replicas) {
		r.t.Fatalf("get %q: %+v with %d replicas; the model has %+v", key, o, len(replicas), want)
	}
	for i := range replicas {
		if replicas[i].ID != want.replicas[i].ID || replicas[i].Offset != want.replicas[i].Offset || *replicas[i].Segment != *want.replicas[i].Segment {
			r.t.Fatalf("get %q: %+v; the model has %+v", key, replicas, want.replicas)
		}
	}
	r.m.lease(r.now, want)
}

func (r *modelRun) exist(t *rapid.T) {
	key := r.key(t)
	want, err := r.m.readable(key)
	if got := r.c.Exist(r.now, key); got != (err == nil) {
		r.t.Fatalf("exist %q: %v; the model says %v", key, got, err)
	}
	if err == nil {
		r.m.lease(r.now, want)
	}
}

func (r *modelRun) remove(t *rapid.T) {
	key, force := r.key(t), rapid.Bool().Draw(t, "force")
	r.same("remove", r.c.Remove(r.now, key, force), r.m.remove(r.now, key, force))
}

func (r *modelRun) matching(t *rapid.T) {
	prefix, force := rapid.SampledFrom([]string{"", "k", "p/", "k3"}).Draw(t, "prefix"), rapid.Bool().Draw(t, "force")
	match := func(key string) bool { return strings.HasPrefix(key, prefix) }
	want := r.m.removeMatching(r.now, match, force)
	if prefix == "" {
		match = nil
	}
	if got := r.c.RemoveMatching(r.now, match, force); got != want {
		r.t.Fatalf("removed %d, the model %d", got, want)
	}
}

func (r *modelRun) tick(t *rapid.T) {
	r.now += Time(rapid.SampledFrom([]int64{0, 1, 100, 500, 1000, 1900, 2500}).Draw(t, "ms"))
	r.m.sweep(r.now)
	r.c.Sweep(r.now)
	r.judge("", "")
	m := r.m
	if len(m.objects) == 0 {
		return
	}
	usable := float64(m.capacity() - m.heldBytes())
	if m.cfg.HighWatermark == 0 || float64(m.allocated()) <= m.cfg.HighWatermark*usable {
		return
	}
	for _, o := range m.objects {
		if m.evictable(r.now, o, "", "", m.cfg.AllowEvictSoftPinned) {
			r.t.Fatalf("%d of %v bytes are allocated and %q stays", m.allocated(), usable, o.key)
		}
	}
}
