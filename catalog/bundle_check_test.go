package catalog

import (
	"fmt"
	"slices"

	"mooncake/bundle"
	"mooncake/internal/limits"
)

// dumpBundles writes down everything that is logged of bundles.
func dumpBundles(s *state, now Time) (list []string) {
	eachBundleOf(s, func(_ name, b *bundleRecord) {
		if b.members == 0 && b.touched+limits.BundleTombstoneMs < int64(now) {
			return // it may be forgotten sooner or later
		}
		list = append(list, fmt.Sprintf("%s of %v: created %d written %d touched %d published %d sums %v allocated %d lost %d members %d facts %b",
			b.prefix(), s.owners.list[b.client].id, b.created, b.lastWrite, b.touched, b.published, b.sums, b.allocated, b.lost,
			b.members, b.facts&^(factRead|factTorn)))
	})
	slices.Sort(list)
	return list
}

func eachBundleOf(s *state, visit func(n name, b *bundleRecord)) {
	var at cursor
	for bn := s.scanKind(&at, kindBundle); bn != 0; bn = s.scanKind(&at, kindBundle) {
		visit(bn, s.bundle(bn))
	}
}

// checkBundles counts anew what every bundle has, and what its unit knows of it.
func checkBundles(t fataler, s *state) {
	t.Helper()
	members := map[name]*bundleRecord{}
	knots := map[name]uint32{}
	eachRecord(s, func(n name, r *record) {
		prefix, part := bundle.Parse(r.key())
		if s.isCopy(n) {
			part = bundle.NoPart
		}
		if (part == bundle.NoPart) != (r.bundle == 0) || r.bundle != 0 && (s.bundle(r.bundle).prefix() != prefix || r.part != part) {
			t.Fatalf("%q is a %v of bundle %d", r.key(), r.part, r.bundle)
		}
		if r.bundle == 0 {
			return
		}
		want := members[r.bundle]
		if want == nil {
			want = &bundleRecord{}
			members[r.bundle] = want
		}
		want.members++
		want.allocated += r.size * uint64(r.replicas)
		sum := &want.sums[partOf(part)]
		sum.keys, sum.bytes = sum.keys+1, sum.bytes+r.size
		if !r.isOpen() {
			sum.done, sum.doneBytes = sum.done+1, sum.doneBytes+r.size
		}
		b := s.bundle(r.bundle)
		if b.facts&factKnotted != 0 {
			knots[r.unit]++
		} else if b.unit != r.unit {
			t.Fatalf("%q is in another unit than its bundle", r.key())
		}
		if torn := part == bundle.Manifest && b.lost > 0; (r.flags&flagTorn != 0) != torn && r.done {
			t.Fatalf("%q: flags %x, %d members are lost", r.key(), r.flags, b.lost)
		}
	})
	owned := map[uint32]uint64{}
	eachRecord(s, func(_ name, r *record) { owned[r.client]++ })
	units := map[name]*unit{}
	live, idle, ended := uint64(0), 0, 0
	eachBundleOf(s, func(bn name, b *bundleRecord) {
		owned[b.client]++
		want := members[bn]
		if want == nil {
			want = &bundleRecord{}
			ended++
		} else {
			live++
		}
		if b.members != want.members || b.allocated != want.allocated || b.sums != want.sums || s.findBundle(b.prefix()) != bn {
			t.Fatalf("bundle %q: %+v, counted %+v", b.prefix(), b, want)
		}
		if b.shows != s.showsOf(b) || (b.members == 0) != (b.list == bundleListEnded) || b.list != bundleListIdle && b.members > 0 && s.abandoned(b) {
			t.Fatalf("bundle %q shows %b, is in list %d, and is %+v", b.prefix(), b.shows, b.list, b)
		}
		if b.list == bundleListIdle {
			idle++
		}
		if b.members == 0 {
			return
		}
		if units[b.unit] == nil {
			units[b.unit] = &unit{}
		}
		u := units[b.unit]
		for bit, n := range map[uint8]*uint32{showMember: &u.bundles, showStaging: &u.staging, showUnread: &u.unread, showSpent: &u.spent} {
			if b.shows&bit != 0 {
				*n++
			}
		}
	})
	if live != s.bundleCount || idle != s.idle.count || ended != s.ended.count {
		t.Fatalf("%d bundles of %d, %d idle of %d, %d ended of %d", live, s.bundleCount, idle, s.idle.count, ended, s.ended.count)
	}
	for number, o := range s.owners.list {
		if o.objects != owned[uint32(number)] {
			t.Fatalf("%v owns %d objects and bundles, %d are counted", o.id, owned[uint32(number)], o.objects)
		}
	}
	eachUnit(s, func(un name, u *unit) {
		want := units[un]
		if want == nil {
			want = &unit{}
		}
		if u.bundles != want.bundles || u.staging != want.staging || u.unread != want.unread || u.spent != want.spent || u.knots != knots[un] {
			t.Fatalf("unit %q: %+v, counted %+v with %d knots", u.name(), u, want, knots[un])
		}
	})
	for bn, last := s.idle.head, int64(0); bn != 0; bn = s.bundle(bn).next {
		if s.bundle(bn).touched < last {
			t.Fatalf("bundle %q is idle for longer than those before it", s.bundle(bn).prefix())
		}
		last = s.bundle(bn).touched
	}
}
