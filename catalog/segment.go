package catalog

import (
	"slices"
	"strings"
	"sync/atomic"

	"mooncake/catalog/alloc"
)

// A segment is a mounted range and what lies on it. Readers look at info, dead and stage. What a put looks at stands
// together at the start: with a thousand segments every put meets one whose memory is in no cache.
type segment struct {
	number   uint32
	asked    uint32        // the last put that took a range of it or cannot use it
	stage    atomic.Uint32 // Stage of the client; only a leader knows it
	dead     atomic.Bool   // unmounted; its replicas are out of sight and wait to be tidied
	lost     bool          // they count as lost
	state    uint8         // SegmentOK and so on
	head     name          // list of replicas
	objects  uint64
	used     uint64         // bytes of replicas
	space    *alloc.Alloc   // nil once unmounted
	ground   alloc.Alloc    // what space points to
	shares   []uint64       // bytes of replicas by share
	fewShare [2]uint64      // what shares starts with
	tenants  segmentTenants // bytes of replicas by tenant

	info        SegmentInfo
	host        string               // what replicas keep apart
	quarantined uint64               // bytes held back
	held        map[uint64]heldRange // by offset
	reading     uint64               // those of them that wait for readers only
	counted     name                 // where the count of lost objects goes on
	counting    bool                 // that count is not finished
	walked      name                 // where the next look for what can be moved away goes on
	until       Time                 // with SegmentLeaving: when it goes
	note        string               // of whoever set the state
	closed      uint64               // bytes held back that a former leader may have given away
	windows     [windowsOfSegment]window
	grants      [windowsOfSegment]grant // only a leader has any
	below       uint64                  // where the last large range was taken while there was much room; only a leader has it
}

func newSegment(info *SegmentInfo) *segment {
	seg := &segment{info: *info, ground: *alloc.New(info.Size), host: hostOf(&info.Segment), state: SegmentOK}
	seg.space, seg.shares = &seg.ground, seg.fewShare[:0]
	return seg
}

// free gives a range back to the free space.
func (seg *segment) free(offset, size uint64) {
	if err := seg.space.Free(offset, size); err != nil {
		// Every range comes from the same allocator and belongs to one owner; a second free would hand bytes out twice.
		panic("catalog: range freed twice: " + err.Error())
	}
}

// isFree tells whether nothing of a range is taken.
func (seg *segment) isFree(offset, size uint64) bool {
	if !seg.space.Reserve(offset, size) {
		return false
	}
	seg.free(offset, size)
	return true
}

// segmentTable finds segments by number, id and name.
type segmentTable struct {
	list    []*segment                 // by number; nil where none is
	shared  atomic.Pointer[[]*segment] // list as readers see it, see share
	byID    map[UUID]*segment
	last    *segment              // of byID, the one found last; nil when there is none
	byName  map[string][]*segment // names need not be unique
	byOwner map[UUID][]*segment
	byPlace map[string][]*segment // by endpoint
	mounted []*segment            // in the order of mounts
	upTo    []uint64              // sizes of mounted, each added to those before it; nil: to be added up
	dying   []*segment            // unmounted, with replicas still to be tidied
	stale   staleLists
	numbers []uint32 // free places of list
}

func (t *segmentTable) init() {
	t.byID = map[UUID]*segment{}
	t.byName = map[string][]*segment{}
	t.byOwner = map[UUID][]*segment{}
	t.byPlace = map[string][]*segment{}
	t.share()
}

// staleLists names the lists that still hold segments which were unmounted. They are put in order once for a whole
// decision: one by one, the end of a client with thousands of segments would take minutes.
type staleLists struct {
	any    bool
	names  map[string]struct{}
	places map[string]struct{}
	owners map[UUID]struct{}
}

// share shows readers the list after it grew. A place of it is written in place: before a reader can hold a replica that
// names it, and again after the last such replica went.
func (t *segmentTable) share() {
	list := t.list
	t.shared.Store(&list)
}

func (t *segmentTable) mount(info *SegmentInfo) {
	seg := newSegment(info)
	if n := len(t.numbers); n > 0 {
		seg.number, t.numbers = t.numbers[n-1], t.numbers[:n-1]
		t.list[seg.number] = seg
	} else {
		seg.number = uint32(len(t.list))
		t.list = append(t.list, seg)
		t.share()
	}
	t.byID[info.ID] = seg
	t.byName[info.Name] = append(t.byName[info.Name], seg)
	t.byOwner[info.Client] = append(t.byOwner[info.Client], seg)
	if info.Endpoint != "" {
		t.byPlace[info.Endpoint] = append(t.byPlace[info.Endpoint], seg)
	}
	t.mounted, t.upTo = append(t.mounted, seg), nil
}

// find is byID for a look that is mostly for the same segment as the one before.
func (t *segmentTable) find(id UUID) *segment {
	if t.last == nil || t.last.info.ID != id {
		t.last = t.byID[id]
	}
	return t.last
}

// weigh adds up the sizes of all mounted segments, unless it is done.
func (t *segmentTable) weigh() []uint64 {
	if t.upTo == nil {
		total := uint64(0)
		t.upTo = make([]uint64, len(t.mounted))
		for i, seg := range t.mounted {
			total += seg.info.Size
			t.upTo[i] = total
		}
	}
	return t.upTo
}

// at gives the stage of the segment's client.
func (seg *segment) at() Stage { return Stage(seg.stage.Load()) }

// hostOf names the machine of a segment: what its client says, or else where its endpoint is.
func hostOf(s *Segment) string {
	if s.HostID != "" {
		return s.HostID
	}
	host := s.Endpoint
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.IndexByte(host, ':') == i || strings.HasPrefix(host, "[")) {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// unmount takes a segment out of every look-up, once settle is called. Its replicas are invisible from here on.
func (t *segmentTable) unmount(seg *segment) {
	seg.dead.Store(true)
	delete(t.byID, seg.info.ID)
	t.last = nil
	seg.used, seg.quarantined, seg.reading, seg.closed, seg.space, seg.counting = 0, 0, 0, 0, nil, false
	seg.ground = alloc.Alloc{}
	t.dying = append(t.dying, seg)
	if !t.stale.any {
		t.stale = staleLists{any: true, names: map[string]struct{}{}, places: map[string]struct{}{}, owners: map[UUID]struct{}{}}
	}
	t.stale.names[seg.info.Name] = struct{}{}
	if seg.info.Endpoint != "" {
		t.stale.places[seg.info.Endpoint] = struct{}{}
	}
	t.stale.owners[seg.info.Client] = struct{}{}
}

// settle ends a decision: it takes the unmounted segments out of the lists.
func (t *segmentTable) settle() {
	if !t.stale.any {
		return
	}
	t.mounted, t.upTo = living(t.mounted), nil
	for name := range t.stale.names {
		keepLiving(t.byName, name)
	}
	for place := range t.stale.places {
		keepLiving(t.byPlace, place)
	}
	for id := range t.stale.owners {
		keepLiving(t.byOwner, id)
	}
	t.stale = staleLists{}
	t.retire()
}

func keepLiving[K comparable](m map[K][]*segment, key K) {
	if m[key] = living(m[key]); len(m[key]) == 0 {
		delete(m, key)
	}
}

func living(list []*segment) []*segment {
	return slices.DeleteFunc(list, func(seg *segment) bool { return seg.dead.Load() })
}

// retire forgets the segments that went and have no replica left.
func (t *segmentTable) retire() {
	t.dying = slices.DeleteFunc(t.dying, func(seg *segment) bool {
		if seg.head != 0 {
			return false
		}
		t.list[seg.number] = nil
		t.numbers = append(t.numbers, seg.number)
		return true
	})
	if len(t.dying) == 0 {
		t.dying = nil
	}
}

// link puts a replica into the list of its segment.
func (t *segmentTable) link(s *state, rn name) {
	rep := s.replica(rn)
	seg := t.list[rep.segment]
	rep.segPrev, rep.segNext = 0, seg.head
	if seg.head != 0 {
		s.replica(seg.head).segPrev = rn
	}
	seg.head = rn
	seg.objects++
}

// unlink takes a replica out of the list of its segment.
func (t *segmentTable) unlink(s *state, rn name) {
	rep := s.replica(rn)
	seg := t.list[rep.segment]
	if seg.counted == rn {
		seg.counted = rep.segNext
	}
	if seg.walked == rn {
		seg.walked = rep.segNext
	}
	if rep.segPrev != 0 {
		s.replica(rep.segPrev).segNext = rep.segNext
	} else {
		seg.head = rep.segNext
	}
	if rep.segNext != 0 {
		s.replica(rep.segNext).segPrev = rep.segPrev
	}
	rep.segPrev, rep.segNext = 0, 0
	seg.objects--
}

// tidy removes up to limit replicas that lay on segments which are gone, and the objects that had no other. It reports
// whether there are more.
func (s *state) tidy(limit int) (more bool) {
	for _, seg := range s.segments.dying {
		for ; seg.head != 0; limit-- {
			if limit <= 0 {
				return true
			}
			s.prune(s.replica(seg.head).owner)
		}
	}
	s.segments.retire()
	return false
}

// ownerTable gives small numbers to the clients that wrote objects, for as long as they own one.
type ownerTable struct {
	byID    map[UUID]uint32
	list    []owner
	numbers []uint32
	last    uint32 // in list, the one referred to last
}

type owner struct {
	id      UUID
	objects uint64
	open    uint64 // of them, those being written
}

func (t *ownerTable) ref(id UUID) uint32 {
	if n := t.last; int(n) < len(t.list) && t.list[n].id == id && t.list[n].objects > 0 {
		t.list[n].objects++
		return n
	}
	n, ok := t.byID[id]
	if !ok {
		if free := len(t.numbers); free > 0 {
			n, t.numbers = t.numbers[free-1], t.numbers[:free-1]
		} else {
			n = uint32(len(t.list))
			t.list = append(t.list, owner{})
		}
		t.list[n] = owner{id: id}
		t.byID[id] = n
	}
	t.list[n].objects++
	t.last = n
	return n
}

func (t *ownerTable) unref(n uint32) {
	if t.list[n].objects--; t.list[n].objects == 0 {
		delete(t.byID, t.list[n].id)
		t.numbers = append(t.numbers, n)
	}
}
