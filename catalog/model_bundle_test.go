package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mooncake/bundle"
)

// modelBundle is what is remembered of a bundle beside its members.
type modelBundle struct {
	id                                string
	client                            UUID
	created, lastWrite, touched       Time
	published, deadAt, lastRead       Time
	lost                              int
	cut, unlisted, evicted, collected bool
	writers, read                     bool
	copies, reads                     uint64
}

// parts lists the members of a bundle.
func (m *model) parts(b *modelBundle) (list []*modelObject) {
	for _, o := range m.all() {
		if bundle.Prefix(o.key) == b.id+"/" {
			list = append(list, o)
		}
	}
	return list
}

// manifest tells whether a bundle has a complete manifest.
func (m *model) manifest(b *modelBundle) bool {
	return slices.ContainsFunc(m.parts(b), func(o *modelObject) bool { return !o.open && strings.HasSuffix(o.key, "/manifest") })
}

// tied lists what goes together with an object: its unit, and all that has members of a bundle in common with that.
func (m *model) tied(o *modelObject) []*modelObject {
	all := []*modelObject{o}
	for i := 0; i < len(all); i++ {
		unit, prefix := unitOf(all[i]), bundle.Prefix(all[i].key)
		for _, x := range m.all() {
			if (unit != "" && unitOf(x) == unit || prefix != "" && bundle.Prefix(x.key) == prefix) && !slices.Contains(all, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

// joined notes a new member, which is among the objects already.
func (m *model) joined(o *modelObject) {
	prefix := bundle.Prefix(o.key)
	if prefix == "" {
		return
	}
	b := m.bundles[prefix]
	if b == nil || len(m.parts(b)) == 1 {
		b = &modelBundle{id: strings.TrimSuffix(prefix, "/"), client: o.client, created: o.time, copies: uint64(len(o.replicas))}
		m.bundles[prefix] = b
	}
	m.wrote(o)
}

// wrote notes the start or end of a write.
func (m *model) wrote(o *modelObject) {
	b := m.bundles[bundle.Prefix(o.key)]
	if b == nil {
		return
	}
	if o.open && b.client != o.client {
		b.client, b.writers = o.client, true
	}
	b.lastWrite, b.touched, b.deadAt = m.now, m.now, 0
	if !o.open && strings.HasSuffix(o.key, "/manifest") && b.published == 0 {
		b.published = m.now
	}
}

// left notes that a member went.
func (m *model) left(o *modelObject, cause Cause) {
	b := m.bundles[bundle.Prefix(o.key)]
	if b == nil {
		return
	}
	if cause != 0 {
		b.touched = m.now
	}
	_, part := bundle.Parse(o.key)
	switch {
	case cause == CauseReclaim:
		b.collected = true
	case o.open:
	case cause == CauseEvict:
		b.evicted = true
	case cause == 0, cause == CauseLost:
		b.lost++
	case (cause == CauseRemove || cause == CauseExpire) && b.published != 0 && part == bundle.Buffer:
		b.cut = true
	case (cause == CauseRemove || cause == CauseExpire) && b.published != 0 && part == bundle.Manifest:
		b.unlisted = true
	}
}

// wasRead notes that somebody got the address of a member.
func (m *model) wasRead(o *modelObject) {
	b := m.bundles[bundle.Prefix(o.key)]
	if b == nil || b.published == 0 || b.lastRead == m.now {
		return
	}
	if b.lastRead == 0 || b.lastRead+Time(m.cfg.LeaseMs) <= m.now {
		b.reads++
	}
	b.read, b.lastRead = true, m.now
}

func (m *model) copies(key string, o *PutOptions) uint64 {
	if b := m.bundles[bundle.Prefix(key)]; b != nil && len(m.parts(b)) > 0 {
		return max(o.Replicas, b.copies)
	}
	return o.Replicas
}

func (m *model) late(now Time, id UUID, key string) bool {
	b := m.bundles[bundle.Prefix(key)]
	return b != nil && b.collected && b.published == 0 && len(m.parts(b)) == 0 && b.client == id && b.touched+600_000 >= now
}

// adopted tells whether a bundle has no manifest any more, and some group of its members has one.
func (m *model) adopted(b *modelBundle) bool {
	return b.unlisted && !m.manifest(b) && slices.ContainsFunc(m.parts(b), func(x *modelObject) bool {
		return x.group != "" && slices.ContainsFunc(m.all(), func(o *modelObject) bool {
			return o.group == x.group && !o.open && strings.HasSuffix(o.key, "/manifest")
		})
	})
}

// orphan tells whether a bundle has no manifest any more, and everything that could be known of others is.
func (m *model) orphan(b *modelBundle) bool {
	return b.unlisted && !m.manifest(b) && !m.adopted(b) &&
		!slices.ContainsFunc(m.parts(b), func(x *modelObject) bool { return x.group == "" })
}

// collect takes away what is of no use any more. What goes may have been what other payload was kept for.
func (m *model) collect(now Time) {
	for again := true; again; {
		again = false
		for _, b := range m.bundles {
			dead := b.deadAt != 0 && b.deadAt+Time(m.cfg.WriterQuarantineMs) <= now
			idle := (b.published == 0 || b.cut || m.orphan(b)) && !m.adopted(b) && max(b.touched, m.since)+Time(m.cfg.BundleStagingIdleMs) <= now
			if len(m.parts(b)) > 0 && (dead || idle) {
				m.reclaim(now, b)
				again = true
			}
		}
	}
}

func (m *model) reclaim(now Time, b *modelBundle) {
	for _, o := range m.parts(b) {
		until, handed := m.hold(now, o)
		if o.open {
			until, handed = now+Time(m.cfg.PutReleaseMs), Never
			if b.deadAt != 0 {
				until = now + Time(m.cfg.WriterQuarantineMs)
			}
		}
		m.drop(o, CauseReclaim, until, handed)
	}
}

// describe writes down what the Catalog must say of a bundle.
func (m *model) describe(b *modelBundle) string {
	info := BundleInfo{
		ID: b.id, Writer: b.client, Created: b.created, LastWrite: b.lastWrite, Published: b.published, LastRead: b.lastRead,
		LostKeys: uint64(b.lost), Reads: b.reads, Evicted: b.evicted,
	}
	parts := m.parts(b)
	for _, o := range parts {
		_, part := bundle.Parse(o.key)
		sum := map[bundle.Part]*PartCount{bundle.Meta: &info.Meta, bundle.Buffer: &info.Payload, bundle.Manifest: &info.Manifest}[part]
		sum.Keys++
		sum.Bytes += o.size
		if !o.open {
			sum.CompleteKeys++
			sum.CompleteBytes += o.size
		}
		info.AllocatedBytes += o.size * uint64(len(o.replicas))
		info.Keys++
	}
	orphan := b.unlisted && !m.manifest(b)
	switch ours := b.cut || b.unlisted || b.evicted || b.collected; {
	case len(parts) == 0 && b.published == 0 && !b.collected:
		info.State = BundleAborted
	case len(parts) == 0 && b.lost > 0 && !ours:
		info.State = BundleDamaged
	case len(parts) == 0:
		info.State = BundleReclaimed
	case b.cut || b.collected:
		info.State = BundleReclaiming
	case b.published == 0 && b.deadAt == 0:
		info.State = BundleStaging
	case b.published == 0:
		info.State = BundleOrphan
	case m.adopted(b):
		info.State = BundleAdopted
	case orphan:
		info.State = BundleOrphan
	case b.lost > 0:
		info.State = BundleDamaged
	case b.lastRead != 0 && b.lastRead+Time(m.cfg.LeaseMs) > m.now:
		info.State = BundleReading
	default:
		info.State = BundlePublished
	}
	if len(parts) == 0 {
		info.Reclaimed = b.touched
	}
	return fmt.Sprintf("%+v", info)
}

// sameBundles compares all that is known of bundles.
func (r *modelRun) sameBundles() {
	r.c.Catalog.mu.Lock()
	r.c.heedReads()
	r.c.Catalog.mu.Unlock()
	var got, want []string
	list, next := r.c.Bundles(r.now, BundleFilter{}, "", 100)
	for i := range list {
		list[i].Group, list[i].Workload = "", ""
		got = append(got, fmt.Sprintf("%+v", list[i]))
	}
	for _, b := range r.m.bundles {
		if len(r.m.parts(b)) > 0 || b.touched+600_000 >= r.now {
			want = append(want, r.m.describe(b))
		}
	}
	slices.SortFunc(want, cmp.Compare[string])
	if next != "" || !slices.Equal(got, want) {
		r.t.Fatalf("bundles\n%s\nthe model has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
