package catalog

import (
	"slices"
	"strings"

	"mooncake/bundle"
	"pgregory.net/rapid"
)

// rule gives the rule of an object; the zero rule when there is none.
func (m *model) rule(o *modelObject) (best Workload) {
	tenant, length := o.tenant, -1
	if tenant == "" {
		tenant = "default"
	}
	for _, w := range m.rules {
		for _, p := range w.Prefixes {
			if p != "" && strings.HasPrefix(o.key, p) && len(p) > length {
				best, length = w, len(p)
			}
		}
	}
	if length >= 0 {
		return best
	}
	for _, w := range m.rules {
		if slices.Contains(w.Tenants, tenant) {
			return w
		}
	}
	for _, w := range m.rules {
		if slices.Contains(w.Prefixes, "") {
			return w
		}
	}
	return best
}

// bytes gives what counts of an object.
func (m *model) bytes(o *modelObject) (bytes uint64) {
	for _, r := range o.replicas {
		if m.stage(r.Segment.ID) < StageLost {
			bytes += o.size
		}
	}
	return bytes
}

func (m *model) used(workload string) (bytes uint64) {
	for _, o := range m.all() {
		if m.rule(o).Name == workload {
			bytes += m.bytes(o)
		}
	}
	return bytes
}

// closedTo gives the bytes that others than a workload have reserved and do not use.
func (m *model) closedTo(workload string) (bytes uint64) {
	for _, w := range m.rules {
		if used := m.used(w.Name); w.Name != workload && used < w.ReservedBytes {
			bytes += w.ReservedBytes - used
		}
	}
	return bytes
}

// free gives the free bytes of all segments in sight.
func (m *model) free() (bytes uint64) {
	for id, s := range m.segs {
		if m.stage(id) < StageSuspected {
			bytes += s.Size
		}
	}
	for _, o := range m.all() {
		for _, r := range o.replicas {
			if m.stage(r.Segment.ID) < StageSuspected {
				bytes -= o.size
			}
		}
	}
	for _, r := range m.held {
		if m.stage(r.seg) < StageSuspected {
			bytes -= r.size
		}
	}
	return bytes
}

// givenUp tells whether the rules of workloads ever let an object go.
func (m *model) givenUp(o *modelObject) bool {
	all := m.tied(o)
	parts := slices.ContainsFunc(all, func(x *modelObject) bool { return bundle.Prefix(x.key) != "" })
	unread := m.unread(o)
	for _, x := range all {
		w := m.rule(x)
		if w.Evict == EvictNever || w.Evict == EvictBundle && !parts || unread && w.Unread == UnreadKeep {
			return false
		}
	}
	return true
}

// reserved tells whether an object, or one that goes with it, is of a workload with a reservation.
func (m *model) reserved(o *modelObject) bool {
	return slices.ContainsFunc(m.tied(o), func(x *modelObject) bool { return m.rule(x).ReservedBytes > 0 })
}

// evictableBytes adds up what may be evicted for a put, leaving workloads with reservations alone; only of one workload if
// it has a name.
func (r *modelRun) evictableBytes(key, group string, e effort, workload *Workload) (bytes uint64) {
	m := r.m
	for _, o := range m.all() {
		if !m.evictable(r.now, o, key, group, e.soft) || !m.ripe(r.now, o) || !e.unread && m.unread(o) || m.reserved(o) && workload == nil {
			continue
		}
		if workload != nil && slices.ContainsFunc(m.tied(o), func(x *modelObject) bool { return m.rule(x).Name != workload.Name }) {
			continue
		}
		if !slices.ContainsFunc(m.tied(o), m.inSight) {
			continue // looked at again a little later
		}
		if workload == nil {
			for _, x := range o.replicas {
				if m.stage(x.Segment.ID) < StageSuspected {
					bytes += o.size
				}
			}
			continue
		}
		bytes += m.bytes(o)
	}
	return bytes
}

// inSight tells whether readers may see a copy of an object.
func (m *model) inSight(o *modelObject) bool {
	return slices.ContainsFunc(o.replicas, func(x Replica) bool { return m.stage(x.Segment.ID) < StageSuspected })
}

// A modelAsk is what a put is judged by: what there was when it began.
type modelAsk struct {
	rule       Workload
	size       uint64
	used, free uint64
	credit     uint64
	key, group string
}

func (r *modelRun) ask(key, tenant, group string, size uint64, replaced *modelObject) modelAsk {
	m := r.m
	a := modelAsk{rule: m.rule(&modelObject{key: key, tenant: tenant}), size: size, free: m.free(), key: key, group: group}
	a.used = m.used(a.rule.Name)
	if replaced != nil && m.rule(replaced).Name == a.rule.Name {
		a.credit = m.bytes(replaced)
	}
	return a
}

// mayRefuse tells whether limits of workloads can be the reason why a put did not get one more replica. The evictions that
// it caused have happened in the model.
func (r *modelRun) mayRefuse(a *modelAsk, got []Replica, e effort) bool {
	if len(r.m.rules) == 0 {
		return false
	}
	taken := uint64(len(got)) * a.size
	if hard, after := a.rule.HardBytes+a.credit, r.m.used(a.rule.Name)+taken+a.size; a.rule.HardBytes > 0 && after > hard {
		over := after - hard
		if a.size <= a.rule.HardBytes {
			over = min(over, a.size)
		}
		if r.evictableBytes(a.key, a.group, e, &a.rule) < over {
			return true
		}
	}
	if closed := r.m.closedTo(a.rule.Name); closed > 0 {
		left, free := min(closed, a.free)+a.size, r.m.free()-taken
		if left > free && r.evictableBytes(a.key, a.group, e, nil) < min(left-free, a.size) {
			return true
		}
	}
	return false
}

// granted judges a put that got its places by the limits of workloads. It is not in the model yet, nor is what it replaces
// gone.
func (r *modelRun) granted(a *modelAsk, got []Replica) {
	m := r.m
	bytes := uint64(0)
	for _, x := range got {
		if m.stage(x.Segment.ID) < StageSuspected {
			bytes += a.size
		}
	}
	if hard, now := a.rule.HardBytes, m.used(a.rule.Name)+uint64(len(got))*a.size-a.credit; hard > 0 && now > max(hard, a.used) {
		r.t.Fatalf("%q: workload %q has %d bytes of %d, it had %d", a.key, a.rule.Name, now, hard, a.used)
	}
	if left := m.free() - bytes; left < min(a.free, m.closedTo(a.rule.Name)) {
		r.t.Fatalf("%q of %q leaves %d bytes free, there were %d and %d are closed to it", a.key, a.rule.Name, left, a.free, m.closedTo(a.rule.Name))
	}
}

// inside makes sure that the evictions left every reservation alone, but for the asker's own.
func (r *modelRun) inside(victims []*modelObject) {
	for _, v := range victims {
		asker := r.askers[v.key]
		if w := r.m.rule(v); w.Name != asker && w.ReservedBytes > 0 && r.m.used(w.Name) < w.ReservedBytes {
			r.t.Fatalf("%q was evicted for %q though workload %q has only %d bytes of the %d reserved", v.key, asker, w.Name, r.m.used(w.Name), w.ReservedBytes)
		}
	}
}

// asker names the workload for which the Catalog evicts.
func (r *modelRun) asker() string {
	by := r.c.placer.needer
	if by == forWatermark {
		return ""
	}
	return r.c.s.shares.list[by].rule.Name
}

// overdue makes sure of what a sweep leaves.
func (r *modelRun) overdue() {
	m := r.m
	m.noteBlocked(r.now)
	for _, o := range m.objects {
		w, unit := m.rule(o), unitOf(o)
		if unit == "" {
			if w.TTLMs > 0 && !o.open && o.time+Time(w.TTLMs) <= r.now {
				r.t.Fatalf("%q of %q is older than %d ms", o.key, w.Name, w.TTLMs)
			}
			continue
		}
		all := m.tied(o)
		mixed := slices.ContainsFunc(all, func(x *modelObject) bool { return m.rule(x).Name != w.Name })
		if touch, blocked := m.lastOf(all); !mixed && w.TTLMs > 0 && max(touch, m.units[unit].knotted+1000)+Time(w.TTLMs) <= r.now && blocked+1000 < r.now {
			r.t.Fatalf("%q of %q is older than %d ms, and so is all of %s", o.key, w.Name, w.TTLMs, unit)
		}
	}
	e := effort{soft: m.cfg.AllowEvictSoftPinned, unread: true}
	for _, w := range m.rules {
		if w.HardBytes > 0 && m.used(w.Name) > w.HardBytes && r.evictableBytes("", "", e, &w) > 0 {
			r.t.Fatalf("workload %q keeps %d bytes, %d are its hard limit", w.Name, m.used(w.Name), w.HardBytes)
		}
	}
	if closed, free := m.closedTo(""), m.free(); closed > free && r.evictableBytes("", "", e, nil) > 0 {
		r.t.Fatalf("%d bytes are reserved and only %d are free", closed, free)
	}
}

// lastOf gives the last write to all units of some objects, and when any of them last could not end.
func (m *model) lastOf(all []*modelObject) (touch, blocked Time) {
	for _, x := range all {
		if u := m.unit(x); u != nil {
			touch, blocked = max(touch, u.touch), max(blocked, u.blocked)
		}
	}
	return touch, blocked
}

// blocked notes which units cannot end now whatever their age.
func (m *model) noteBlocked(now Time) {
	for _, o := range m.all() {
		u := m.unit(o)
		if u == nil {
			continue
		}
		all := m.tied(o)
		for _, x := range all {
			b := m.bundles[bundle.Prefix(x.key)]
			if x.open || b != nil && b.published == 0 && b.deadAt == 0 {
				u.blocked = now
			}
			if m.unit(x) != u {
				u.knotted = now
			}
		}
	}
}

// expire takes the ends of lives over into the model, if they were due.
func (r *modelRun) expire() {
	m := r.m
	for _, key := range r.expired {
		o := m.objects[key]
		if o == nil {
			r.t.Fatalf("%q expired, but it is not there", key)
		}
		if unitOf(o) == "" {
			if w := m.rule(o); o.open || w.TTLMs == 0 || o.time+Time(w.TTLMs) > r.now {
				r.t.Fatalf("%q of workload %+v expired: %+v", key, w, o)
			}
			continue
		}
		all, due := m.tied(o), false
		touch, _ := m.lastOf(all)
		for _, x := range all {
			w := m.rule(x)
			due = due || w.TTLMs > 0 && touch+Time(w.TTLMs) <= r.now
			if x.open || !slices.Contains(r.expired, x.key) {
				r.t.Fatalf("%q expired before %q is written, or without it", key, x.key)
			}
		}
		if !due {
			r.t.Fatalf("%q expired before its unit is due", key)
		}
	}
	for _, key := range r.expired {
		o := m.objects[key]
		until, handed := m.hold(r.now, o)
		m.drop(o, CauseExpire, until, handed)
	}
	r.expired = nil
}

// rules gives the pool other rules.
func (r *modelRun) rules(t *rapid.T) {
	if !r.p.workloads {
		r.tick(t)
		return
	}
	all := []Workload{
		{Name: "k", Prefixes: []string{"k"}},
		{Name: "deep", Prefixes: []string{"k1", "k2"}},
		{Name: "roll", Prefixes: []string{"p/", "p/00000000000000000000000000000002/buffer/b"}},
		{Name: "red", Tenants: []string{"red"}},
		{Name: "rest", Prefixes: []string{""}, Tenants: []string{"default"}},
	}
	var list []Workload
	for _, w := range all {
		if rapid.IntRange(0, 2).Draw(t, "used") == 0 {
			continue
		}
		w.SoftBytes = rapid.SampledFrom([]uint64{0, 0, 300, 1000}).Draw(t, "soft")
		w.HardBytes = rapid.SampledFrom([]uint64{0, 0, 1000, 2000}).Draw(t, "hard")
		w.ReservedBytes = rapid.SampledFrom([]uint64{0, 0, 0, 400, 1000}).Draw(t, "reserved")
		w.Evict = rapid.SampledFrom([]EvictKind{EvictLRU, EvictLRU, EvictLRU, EvictBundle, EvictNever}).Draw(t, "evict")
		w.Unread = rapid.SampledFrom([]UnreadKind{UnreadDrop, UnreadKeep}).Draw(t, "unread")
		w.TTLMs = rapid.SampledFrom([]int64{0, 0, 0, 2000, 7000}).Draw(t, "life")
		w.Priority = rapid.IntRange(0, 2).Draw(t, "priority")
		list = append(list, w)
	}
	if err := r.c.SetWorkloads(r.now, list); err != nil {
		r.t.Fatalf("%v", err)
	}
	r.m.rules = list
}

// shares compares what every workload has.
func (r *modelRun) shares() {
	for _, st := range r.c.WorkloadStats() {
		keys := uint64(0)
		for _, o := range r.m.objects {
			if r.m.rule(o).Name == st.Name && !r.m.lost(o) {
				keys++
			}
		}
		if used := r.m.used(st.Name); st.Keys != keys || st.Bytes != used {
			r.t.Fatalf("workload %q has %d keys with %d bytes; the model has %d with %d", st.Name, st.Keys, st.Bytes, keys, used)
		}
	}
	r.m.noteBlocked(r.now)
}
