package catalog

import (
	"cmp"
	"slices"
)

// dumpedShare is what is logged of a workload.
type dumpedShare struct {
	Rule        Workload
	Keys, Bytes uint64
}

func dumpShares(s *state) (list []dumpedShare) {
	for i := range s.shares.list {
		if sh := &s.shares.list[i]; i == 0 || sh.ruled {
			list = append(list, dumpedShare{sh.rule, sh.keys, sh.bytes})
		}
	}
	slices.SortFunc(list, func(a, b dumpedShare) int { return cmp.Compare(a.Rule.Name, b.Rule.Name) })
	return list
}

// checkShares counts anew what belongs to every workload.
func checkShares(t fataler, s *state) {
	t.Helper()
	type sums struct{ keys, lostKeys, bytes, lostBytes uint64 }
	want := make([]sums, len(s.shares.list))
	strangers := map[name]uint32{}
	tenants := map[uint16]tenantEntry{}
	eachRecord(s, func(n name, r *record) {
		if s.shares.match(r.key(), s.shares.name(r.tenant)) != r.share && !s.shares.moving {
			t.Fatalf("%q is accounted to %q", r.key(), s.workloadOf(n))
		}
		w := &want[r.share]
		if r.marks&markStaged == 0 {
			w.keys++
		}
		if r.marks&markLost != 0 {
			w.lostKeys++
		}
		for rn := n; rn != 0; {
			rep := s.replica(rn)
			rn = rep.more
			if seg := s.segments.list[rep.segment]; !seg.dead.Load() {
				w.bytes += r.size
				if seg.lost {
					w.lostBytes += r.size
				}
				if seg.lost != (seg.at() == StageLost) {
					t.Fatalf("segment %v is %v, its bytes count as lost: %v", seg.info.ID, seg.at(), seg.lost)
				}
			}
		}
		tenant := tenants[r.tenant]
		tenant.objects++
		for rn := n; rn != 0; rn = s.replica(rn).more {
			if seg := s.segments.list[s.replica(rn).segment]; !seg.dead.Load() {
				tenant.bytes += r.size
				if seg.lost {
					tenant.lostBytes += r.size
				}
			}
		}
		tenants[r.tenant] = tenant
		if r.unit != 0 && s.unit(r.unit).share != r.share {
			strangers[r.unit]++
		}
		if r.unit != 0 && s.unit(r.unit).strangers >= s.unit(r.unit).members {
			t.Fatalf("%q: no member of its unit is of the unit's workload", r.key())
		}
	})
	total := uint64(0)
	for i := range want {
		sh := &s.shares.list[i]
		got := sums{sh.keys, sh.lostKeys, sh.bytes, sh.lostBytes}
		if got != want[i] {
			t.Fatalf("workload %q has %+v, counted %+v", sh.rule.Name, got, want[i])
		}
		total += sh.bytes
		for _, seg := range s.segments.mounted {
			if i < len(seg.shares) {
				got.bytes -= seg.shares[i]
			}
		}
		if got.bytes != 0 {
			t.Fatalf("workload %q: the sum of all segments differs by %d", sh.rule.Name, got.bytes)
		}
	}
	if total != s.allocated {
		t.Fatalf("%d bytes are allocated, the workloads have %d", s.allocated, total)
	}
	eachUnit(s, func(un name, u *unit) {
		if u.strangers != strangers[un] {
			t.Fatalf("unit %q has %d members of other workloads, %d are counted", u.name(), strangers[un], u.strangers)
		}
	})
	for n, got := range s.shares.tenantTable.list {
		want := tenants[uint16(n)]
		want.name = got.name
		for _, seg := range s.segments.mounted {
			got.bytes -= tenantBytes(seg, uint16(n))
			want.bytes -= tenantBytes(seg, uint16(n))
		}
		if got != want || got.bytes != 0 {
			t.Fatalf("tenant %q has %+v beyond what lies on segments, counted %+v", s.shares.name(uint16(n)), got, want)
		}
	}
	checkDeadlines(t, s)
}

// checkDeadlines makes sure that everything with a TTL has exactly one entry that stands for it.
func checkDeadlines(t fataler, s *state) {
	t.Helper()
	entries := map[name]map[Time]bool{}
	for i := range s.shares.list {
		d := &s.shares.list[i].deadlines
		for _, e := range slices.Concat(d.heap, d.former) {
			if s.stands(uint8(i), e) {
				if entries[e.item] == nil {
					entries[e.item] = map[Time]bool{}
				}
				entries[e.item][e.at] = true
			}
		}
	}
	if s.shares.moving {
		return
	}
	eachRecord(s, func(n name, r *record) {
		what, number := n, r.share
		if r.unit != 0 {
			what, number = r.unit, s.unit(r.unit).share
		}
		timed := s.shares.list[number].rule.TTLMs > 0
		if r.unit == 0 && r.isOpen() || r.unit != 0 && s.unit(r.unit).open == s.unit(r.unit).members {
			return // its time begins when it is complete
		}
		if timed != (len(entries[what]) == 1) {
			t.Fatalf("%q of workload %q has %d deadlines", r.key(), s.workloadOf(n), len(entries[what]))
		}
	})
}

func eachUnit(s *state, visit func(n name, u *unit)) {
	seen := map[name]bool{}
	eachRecord(s, func(_ name, r *record) {
		if r.unit != 0 && !seen[r.unit] {
			seen[r.unit] = true
			visit(r.unit, s.unit(r.unit))
		}
	})
}

func tenantBytes(seg *segment, tenant uint16) (bytes uint64) {
	for n, size := range seg.tenants.all {
		if n == tenant {
			bytes += size
		}
	}
	return bytes
}
