package catalog

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp/cmpopts"

	gocmp "github.com/google/go-cmp/cmp"
)

// replayed watches a Catalog and applies all its Changes to an empty one. Every catalog of the tests is made by
// newTest, so each of them ends with the comparison of the two.
type replayed struct {
	*Catalog
	t      testing.TB
	copies []Change
	told   toldObjects
	twin   *Catalog
	now    Time
}

func testConfig() Config {
	return Config{
		LeaseMs: 10_000, SoftPinMs: 1_800_000, MaxSoftPinMs: 86_400_000,
		SuspectMissedPingsMs: 3000, ClientActiveTTLMs: 10_000, ClientSuspicionTTLMs: 20_000, ClientLostTTLMs: 300_000,
		WriterQuarantineMs: 5000, BundleStagingIdleMs: 120_000,
		PutDiscardMs: 30_000, PutReleaseMs: 600_000,
		EvictionRatio: 0.05, HighWatermark: 0.9, AllowEvictSoftPinned: true, Seed: 1,
	}
}

func newTest(t testing.TB, cfg Config) *replayed {
	r := &replayed{Catalog: New(cfg), t: t, twin: New(cfg)}
	r.OnChange(func(changes []Change) {
		for i := range changes {
			r.copies = append(r.copies, changes[i].Clone())
		}
	})
	r.OnObject(r.told.hear)
	t.Cleanup(func() {
		r.compare()
		r.compareSnapshot()
		r.Close()
		r.twin.Close()
	})
	return r
}

// compare brings the twin up to date and fails the test where the two differ or break an invariant.
func (r *replayed) compare() {
	r.t.Helper()
	r.Catalog.mu.Lock()
	changes := r.copies
	r.copies = nil
	r.Catalog.mu.Unlock()
	for i := range changes {
		r.now = max(r.now, changes[i].Time)
	}
	r.twin.Apply(changes)
	for r.twin.s.tidy(1000) || r.twin.s.reaccount(1000) {
	}
	r.Catalog.mu.Lock()
	defer r.Catalog.mu.Unlock()
	for r.s.tidy(1000) || r.s.reaccount(1000) {
	}
	if diff := gocmp.Diff(dump(r.s, r.now), dump(r.twin.s, r.now), cmpopts.EquateEmpty()); diff != "" {
		r.t.Fatalf("replaying the Changes gives another state (- leader + replay):\n%s", diff)
	}
	check(r.t, r.s)
	check(r.t, r.twin.s)
	r.told.check(r.t, r.s)
}

// compareSnapshot builds the state again from a snapshot of the twin.
func (r *replayed) compareSnapshot() {
	r.t.Helper()
	built := New(r.twin.cfg)
	defer built.Close()
	err := r.twin.Snapshot(func(changes []Change) error {
		built.Apply(changes)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	for built.s.reaccount(1000) {
	}
	if diff := gocmp.Diff(dump(r.twin.s, r.now), dump(built.s, r.now), cmpopts.EquateEmpty()); diff != "" {
		r.t.Fatalf("a snapshot gives another state (- state + snapshot):\n%s", diff)
	}
	check(r.t, built.s)
}

type dumpedSegment struct {
	Info              SegmentInfo
	Used, Quarantined uint64
	Objects           uint64
	Free              [][2]uint64
	Held              [][4]uint64
	Closed            uint64
	Windows           [windowsOfSegment][2]uint64
	State             uint8
	Until             Time
	Note              string
}

type dumpedObject struct {
	Wanted           uint8
	Key, Group       string
	Workload, Tenant string
	Client           UUID
	Size             uint64
	Time             int64
	Checksum         uint64
	Sum              uint32
	Flags            uint8
	Open, Staged     bool
	DataType         uint8
	PinnedUntil      Time
	Pending          string
	Copy             string
	Replicas         []string
	Members, Parts   uint32
	Manifests, Opens uint32
}

type dumped struct {
	Segments              []dumpedSegment
	Objects               []dumpedObject
	Bundles               []string
	Keys, Units           uint64
	Allocated, Capacity   uint64
	NextReplica, HeldBack uint64
	ByName, ByOwner       []string
	Shares                []dumpedShare
	Disks                 []string
	DisksAlone, DiskBytes uint64
	Corrupt               []string
}

// dump writes down everything that is logged.
func dump(s *state, now Time) dumped {
	d := dumped{
		Keys: s.keys, Units: s.units, Allocated: s.allocated, Capacity: s.capacity, NextReplica: s.nextReplica,
		HeldBack: uint64(s.heldBack.count), Shares: dumpShares(s), Corrupt: dumpCorrupt(s),
	}
	for _, seg := range s.segments.mounted {
		ds := dumpedSegment{
			Info: seg.info, Used: seg.used, Quarantined: seg.quarantined, Objects: seg.objects, Closed: seg.closed,
			State: seg.state, Until: seg.until, Note: seg.note,
		}
		for slot, w := range seg.windows {
			ds.Windows[slot] = [2]uint64{w.offset, w.size}
		}
		for off, n := range seg.space.Extents() {
			ds.Free = append(ds.Free, [2]uint64{off, n})
		}
		for offset, held := range seg.held {
			ds.Held = append(ds.Held, [4]uint64{offset, held.size, uint64(held.until), uint64(held.handed)})
		}
		slices.SortFunc(ds.Held, func(a, b [4]uint64) int { return cmp.Compare(a[0], b[0]) })
		d.Segments = append(d.Segments, ds)
	}
	for text, list := range s.segments.byName {
		for _, seg := range list {
			d.ByName = append(d.ByName, text+" "+seg.info.ID.String())
		}
	}
	for id, list := range s.segments.byOwner {
		for _, seg := range list {
			d.ByOwner = append(d.ByOwner, id.String()+" "+seg.info.ID.String())
		}
	}
	d.Bundles = dumpBundles(s, now)
	d.Disks, d.DisksAlone, d.DiskBytes = dumpDisks(s), s.disks.alone, s.disks.bytes
	slices.Sort(d.ByName)
	slices.Sort(d.ByOwner)
	eachRecord(s, func(n name, r *record) {
		o := dumpedObject{
			Key: string([]byte(r.key())), Group: string([]byte(s.groupOf(r))), Client: s.owners.list[r.client].id,
			Size: r.size, Time: r.time, Checksum: r.checksum, Sum: dumpSum(r), Flags: r.flags, Open: r.isOpen(), Staged: r.marks&markStaged != 0, DataType: r.dataType,
			Pending: fmt.Sprint(s.pending[n]), Copy: fmt.Sprint(s.copies[n].kind, s.copies[n].source), Workload: s.workloadOf(n), Tenant: s.shares.name(r.tenant), Wanted: r.wanted,
		}
		if until := s.pins[n]; until > now {
			o.PinnedUntil = until
		}
		for rn := n; rn != 0; {
			rep := s.replica(rn)
			o.Replicas = append(o.Replicas, fmt.Sprintf("%d %v %d %d", rep.id, s.segments.list[rep.segment].info.ID, rep.offset, rep.status))
			rn = rep.more
		}
		if r.unit != 0 {
			u := s.unit(r.unit)
			o.Members, o.Parts, o.Manifests, o.Opens = u.members, u.parts, u.manifests, u.open
		}
		d.Objects = append(d.Objects, o)
	})
	slices.SortFunc(d.Objects, func(a, b dumpedObject) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Replicas[0], b.Replicas[0]))
	})
	return d
}

func dumpCorrupt(s *state) (list []string) {
	for at, r := range s.heldBack.corrupt {
		list = append(list, fmt.Sprint(at, r))
	}
	slices.Sort(list)
	return list
}

func dumpSum(r *record) uint32 {
	sum, _ := r.sum()
	return sum
}

func eachRecord(s *state, visit func(n name, r *record)) {
	var at cursor
	for n := s.scan(&at); n != 0; n = s.scan(&at) {
		visit(n, s.record(n))
	}
}

// check verifies the invariants of doc.go, and that every index and list agrees with the records.
func check(t fataler, s *state) {
	t.Helper()
	type span struct{ off, size uint64 }
	taken := map[*segment][]span{}
	var records, allocated, staged, lost uint64
	opens := map[uint32]uint64{}
	lists := map[uint8]int{}
	eachRecord(s, func(n name, r *record) {
		records++
		hash := s.hash(r.key())
		indexed := s.find(s.shard(hash), hash, r.key())
		if st := r.marks&markStaged != 0; st == (indexed == n) || st && s.staged[indexed] != n || indexed == 0 {
			t.Fatalf("%q: marks %x, and the index has another: %v", r.key(), r.marks, indexed != n)
		}
		if r.marks&markStaged != 0 {
			staged++
		}
		if (r.marks&markReplaced != 0) != (s.staged[n] != 0) {
			t.Fatalf("%q: marks %x, staged %d", r.key(), r.marks, s.staged[n])
		}
		if r.marks&markLost != 0 {
			lost++
		}
		if r.isOpen() {
			opens[r.client]++
		}
		lists[r.list]++
		count := 0
		for rn := n; rn != 0; {
			rep := s.replica(rn)
			seg := s.segments.list[rep.segment]
			if rep.owner != n || seg.dead.Load() {
				t.Fatalf("%q: replica %d is stray", r.key(), rep.id)
			}
			taken[seg] = append(taken[seg], span{rep.offset, r.size})
			allocated += r.size
			count++
			rn = rep.more
		}
		if count != int(r.replicas) || count == 0 {
			t.Fatalf("%q says %d replicas and has %d", r.key(), r.replicas, count)
		}
		if r.isOpen() != s.unfinished(n) || r.marks&markVictim != 0 || r.flags&(flagHidden|flagClosing) != 0 {
			t.Fatalf("%q: list %d, flags %x, marks %x", r.key(), r.list, r.flags, r.marks)
		}
		if _, ok := s.pins[n]; ok != (r.marks&markSoftPin != 0) {
			t.Fatalf("%q: soft pin mark %x", r.key(), r.marks)
		}
	})
	for n := range s.copies {
		if r := s.record(n); r.keyBytes == 0 || !r.isOpen() || r.bundle != 0 {
			t.Fatalf("copy %d of %q is none", n, r.key())
		}
	}
	for number, o := range s.owners.list {
		if o.objects > 0 && o.open != opens[uint32(number)] {
			t.Fatalf("%v writes %d objects, %d are counted", o.id, opens[uint32(number)], o.open)
		}
	}
	if staged != uint64(len(s.staged)) || lost != s.lostKeys {
		t.Fatalf("%d staged of %d, %d lost of %d", staged, len(s.staged), lost, s.lostKeys)
	}
	if records-staged != s.keys || allocated != s.allocated {
		t.Fatalf("counted %d keys of %d, %d bytes of %d", records, s.keys, allocated, s.allocated)
	}
	checkBundles(t, s)
	checkDisks(t, s)
	checkUnits(t, s, lists)
	checkShares(t, s)
	if lists[listSpent] != s.spent.count || lists[listAge] != s.ages.count || lists[listSoft] != s.soft.count ||
		lists[listUnread] != s.unread.count || lists[listOpen] != s.open.count {
		t.Fatalf("lists %v, counts %d %d %d %d %d", lists, s.spent.count, s.ages.count, s.soft.count, s.unread.count, s.open.count)
	}
	var capacity, waiting uint64
	count, corrupt := 0, 0
	for _, seg := range s.segments.mounted {
		capacity += seg.info.Size
		all := taken[seg]
		used := uint64(0)
		for _, sp := range all {
			used += sp.size
		}
		if used != seg.used || uint64(len(all)) != seg.objects {
			t.Fatalf("segment %v: %d bytes of %d, %d objects of %d", seg.info.ID, used, seg.used, len(all), seg.objects)
		}
		quarantined, reading := uint64(0), uint64(0)
		for offset, h := range seg.held {
			count++
			if was, ok := s.heldBack.corrupt[rangeStart{seg.info.ID, offset}]; ok != h.corrupt || ok && was.Size != h.size {
				t.Fatalf("segment %v: the range at %d is corrupt: %v, and noted as %+v", seg.info.ID, offset, h.corrupt, was)
			}
			if h.corrupt {
				corrupt++
			}
			all = append(all, span{offset, h.size})
			quarantined += h.size
			if h.handed != Never {
				reading += h.size
			}
		}
		waiting += reading
		for off, n := range seg.space.Extents() {
			all = append(all, span{off, n})
		}
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.off, b.off) })
		end := uint64(0)
		for _, sp := range all {
			if sp.off != end {
				t.Fatalf("segment %v: gap or overlap between %d and %d", seg.info.ID, end, sp.off)
			}
			end += sp.size
		}
		if end != seg.info.Size || quarantined != seg.quarantined || reading != seg.reading {
			t.Fatalf("segment %v: %d bytes of %d, %d quarantined of %d", seg.info.ID, end, seg.info.Size, quarantined, seg.quarantined)
		}
	}
	if corrupt != len(s.heldBack.corrupt) {
		t.Fatalf("%d corrupt ranges, %d are noted", corrupt, len(s.heldBack.corrupt))
	}
	if capacity != s.capacity || waiting != s.heldBack.reading || count != s.heldBack.count {
		t.Fatalf("capacity %d of %d, %d ranges held of %d, %d bytes for readers of %d",
			capacity, s.capacity, count, s.heldBack.count, waiting, s.heldBack.reading)
	}
}

// checkUnits counts the members of every unit anew.
func checkUnits(t fataler, s *state, lists map[uint8]int) {
	t.Helper()
	type counts struct{ members, open, pinned, soft, parts, manifests uint32 }
	want := map[name]counts{}
	eachRecord(s, func(n name, r *record) {
		if r.unit == 0 {
			return
		}
		c := want[r.unit]
		c.members++
		add := func(n *uint32, ok bool) {
			if ok {
				*n++
			}
		}
		add(&c.open, r.isOpen())
		add(&c.pinned, r.flags&flagHardPin != 0)
		add(&c.soft, r.marks&markSoftPin != 0)
		add(&c.parts, r.marks&markPart != 0)
		add(&c.manifests, r.marks&markManifest != 0 && !r.isOpen())
		want[r.unit] = c
	})
	if uint64(len(want)) != s.units {
		t.Fatalf("%d units of %d have members", len(want), s.units)
	}
	for un, c := range want {
		u := s.unit(un)
		lists[u.list]++
		got := counts{u.members, u.open, u.pinned, u.soft, u.parts, u.manifests}
		walked := uint32(0)
		for m := u.head; m != 0; m = s.record(m).unitNext {
			walked++
		}
		if got != c || walked != c.members || s.findUnit(u.name(), u.group) != un {
			t.Fatalf("unit %q: %+v, counted %+v, walked %d", u.name(), got, c, walked)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		what string
		got  uintptr
		most uintptr
	}{
		{"replica", unsafe.Sizeof(replica{}), 40},
		{"record", unsafe.Sizeof(record{}), 136},
		{"unit", unsafe.Sizeof(unit{}), 104},
		{"bundle", unsafe.Sizeof(bundleRecord{}), 208},
		{"shard", unsafe.Sizeof(shard{}), 64},
	} {
		if c.got > c.most {
			t.Errorf("%s has %d bytes, at most %d are allowed", c.what, c.got, c.most)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	key := []byte("key")
	c := Change{Key: unsafe.String(&key[0], 3), Group: unsafe.String(&key[0], 3), Replicas: []ReplicaChange{{ID: 1}}, Segment: &Segment{Name: "a"}}
	d := c.Clone()
	copy(key, "xxx")
	c.Replicas[0].ID, c.Segment.Name = 9, "z"
	if d.Key != "key" || d.Group != "key" || d.Replicas[0].ID != 1 || d.Segment.Name != "a" || !bytes.Equal(key, []byte("xxx")) {
		t.Errorf("the copy changed: %+v", d)
	}
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}
