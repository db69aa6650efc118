package master

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// healWorld is a service without ports in virtual time, with machines that give memory, ping and do what they are asked for.
type healWorld struct {
	t      *testing.T
	s      *Service
	now    catalog.Time
	hosts  []*healHost
	serial uint64
	copied int // tasks that were done

	had    map[string]int // the live copies of every object before a step; used again
	copies []catalog.Copy // the same
}

type healHost struct {
	id   catalog.UUID
	seg  catalog.Segment
	up   bool
	lazy bool // fetches no tasks
}

func newHealWorld(t *testing.T, hosts int, size uint64, edits ...func(*Config)) *healWorld {
	t.Helper()
	w := &healWorld{t: t, s: plainService(t, edits...), now: 1_900_000_000_000}
	for range hosts {
		h := &healHost{}
		w.hosts = append(w.hosts, h)
		w.mount(h, size)
	}
	return w
}

// mount lets a machine come as a new one, with nothing on it.
func (w *healWorld) mount(h *healHost, size uint64) {
	w.t.Helper()
	w.serial++
	name := fmt.Sprintf("10.0.0.%d:1", slices.Index(w.hosts, h)+1)
	h.id, h.up = catalog.UUID{Hi: 1, Lo: w.serial}, true
	h.seg = catalog.Segment{ID: catalog.UUID{Hi: 2, Lo: w.serial}, Name: name, Base: w.serial << 40, Size: size, Endpoint: name, Protocol: "tcp"}
	if err := w.s.cat.MountSegment(w.now, h.id, h.seg); err != nil {
		w.t.Fatal(err)
	}
}

// unmount lets a machine take its memory back.
func (w *healWorld) unmount(h *healHost) {
	w.t.Helper()
	if _, err := w.s.cat.UnmountSegment(w.now, h.seg.ID, h.id); err != nil {
		w.t.Fatal(err)
	}
	h.up = false
}

// back lets a silent machine go on, with all that is on it.
func (w *healWorld) back(h *healHost) {
	w.t.Helper()
	h.up = true
	if !w.s.cat.Ping(w.now, h.id) {
		if err := w.s.cat.ReMountSegments(w.now, h.id, []catalog.Segment{h.seg}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// pass lets time pass, a second at a time.
func (w *healWorld) pass(d time.Duration) {
	w.t.Helper()
	for range int(d / time.Second) {
		w.now += 1000
		w.s.clock.StartAt(w.now)
		w.s.tasks.expire(w.now)
		for _, h := range w.hosts {
			if h.up {
				w.s.cat.Ping(w.now, h.id)
			}
		}
		w.s.cat.Sweep(w.now)
		w.count()
		w.s.noticeSegments(w.now)
		w.s.serveHot(w.now)
		w.s.loseCold(w.now)
		w.s.stepHeal(w.now)
		w.s.stepBalance(w.now)
		for key, had := range w.had {
			if n, wanted := w.liveCopies(key); n < min(had, wanted) {
				w.t.Fatalf("%s had %d copies and has %d: %d are wanted", key, had, n, wanted)
			}
		}
		for _, h := range w.hosts {
			if h.up && !h.lazy {
				w.work(h)
			}
		}
	}
}

// work does what a machine is asked for.
func (w *healWorld) work(h *healHost) {
	for _, t := range w.s.tasks.fetch(w.now, wireID(h.id), 1000) {
		var p struct {
			copyPayload
			Target string `json:"target"`
		}
		if err := json.Unmarshal([]byte(t.Payload), &p); err != nil {
			w.t.Fatal(err)
		}
		start, end := w.s.cat.CopyStart, w.s.cat.CopyEnd
		if t.Type == wire.TaskTypeReplicaMove {
			p.Targets, end = []string{p.Target}, w.s.cat.MoveEnd
			start = func(now catalog.Time, id catalog.UUID, key, source string, targets []string, dst []catalog.Replica) (catalog.Replica, []catalog.Replica, error) {
				return w.s.cat.MoveStart(now, id, key, source, targets[0], dst)
			}
		}
		status := wire.TaskStatusFailed
		if _, _, err := start(w.now, h.id, p.Key, p.Source, p.Targets, nil); err == nil && end(w.now, h.id, p.Key) == nil {
			status = wire.TaskStatusSuccess
			w.copied++
			if why, own := w.s.tasks.purposeOf(p.Key); own && why.hot {
				w.s.grew("", p.Key)
			}
		}
		if code := w.s.tasks.finish(w.now, wireID(h.id), &wire.TaskCompleteRequest{ID: t.ID, Status: status}); code != 0 {
			w.t.Fatal(code)
		}
	}
}

// put stores an object on the machines named, or where there is room.
func (w *healWorld) put(key string, size, copies uint64, hard bool, at ...int) error {
	o := &catalog.PutOptions{Replicas: copies, HardPin: hard}
	for _, i := range at {
		o.Preferred = append(o.Preferred, w.hosts[i].seg.Name)
	}
	writer := catalog.UUID{Hi: 3, Lo: 1}
	if _, err := w.s.cat.PutStart(w.now, writer, key, size, o, nil); err != nil {
		return err
	}
	return w.s.cat.PutEnd(w.now, writer, key, 0, false, catalog.ReplicaTypeAll)
}

func (w *healWorld) mustPut(key string, size, copies uint64, hard bool, at ...int) {
	w.t.Helper()
	if err := w.put(key, size, copies, hard, at...); err != nil {
		w.t.Fatal(err)
	}
}

// live counts the copies of every object that readers are served from.
func (w *healWorld) live() map[string]int {
	w.count()
	return maps.Clone(w.had)
}

// count notes how many live copies every object has.
func (w *healWorld) count() {
	if w.had == nil {
		w.had = map[string]int{}
	}
	clear(w.had)
	for key := range w.s.cat.Keys {
		w.had[key], _ = w.liveCopies(key)
	}
}

// liveCopies is how many live copies an object has, and how many it is to have; both are 0 when it is gone.
func (w *healWorld) liveCopies(key string) (n, wanted int) {
	var object catalog.Thin
	object, w.copies, _ = w.s.cat.ThinCopies(key, w.copies[:0])
	for i := range w.copies {
		if w.copies[i].Stage == catalog.StageActive {
			n++
		}
	}
	return n, object.Wanted
}

// hostsOf lists the machines that have a copy, in order, each as often as it has one.
func (w *healWorld) hostsOf(key string) string {
	var list []string
	_, copies, _ := w.s.cat.ThinCopies(key, nil)
	for i := range copies {
		list = append(list, copies[i].Host[len("10.0.0."):])
	}
	slices.Sort(list)
	return fmt.Sprint(list)
}

// TestFlappingSegment has the only other machine go and come every second for ten minutes: it draws the copies once or twice and
// not every time, nobody looks for thin objects all the time, and when it stays everything has its copies.
func TestFlappingSegment(t *testing.T) {
	w := newHealWorld(t, 2, mib)
	for i := range 100 {
		w.mustPut(fmt.Sprint("k", i), 1000, 2, false)
	}
	for range 300 {
		w.unmount(w.hosts[1])
		w.pass(time.Second)
		w.mount(w.hosts[1], mib)
		w.pass(time.Second)
	}
	if w.copied > 300 {
		t.Errorf("%d copies were made for a segment that did not stay", w.copied)
	}
	if looks := w.s.Healing().Looks; looks > 600_000/limits.HealLookMs+2 {
		t.Errorf("%d looks through all objects in ten minutes", looks)
	}
	w.pass(6 * time.Minute)
	for key, n := range w.live() {
		if n != 2 {
			t.Errorf("%s has %d copies", key, n)
		}
	}
	before := w.copied
	w.pass(5 * time.Minute)
	expect(t, "copies in a quiet time", w.copied, before)
}

// TestLookIsNotStarved has machines come so often that the sign of the catalog is another one in every step, while there is
// more to look through than one step does: the look comes to its end all the same.
func TestLookIsNotStarved(t *testing.T) {
	w := newHealWorld(t, 3, 64*mib)
	for i := range 1000 {
		w.mustPut(fmt.Sprint("k", i), 1000, 2, false, 0, 1)
	}
	w.unmount(w.hosts[0])
	var first *catalog.HealWalk
	for n := range 20 {
		h := &healHost{lazy: true}
		w.hosts = append(w.hosts, h)
		w.mount(h, mib)
		w.s.noticeSegments(w.now)
		w.s.healer.mu.Lock()
		w.s.beginLook(w.now + catalog.Time(n))
		if first == nil {
			first = w.s.healer.walk
		}
		if w.s.healer.walk != first || first == nil {
			t.Error("a look under way began anew")
		}
		w.s.healer.mu.Unlock()
	}
	w.pass(time.Minute)
	for key, n := range w.live() {
		if n != 2 {
			t.Fatalf("%s has %d copies", key, n)
		}
	}
}

// TestSurplusIsTrimmed has a machine be silent until its objects have been copied again, and come back with all of them: every
// object has two copies again, on two machines, a leased one later than the others. Hard pinned ones and such of which
// somebody wanted a third copy keep three.
func TestSurplusIsTrimmed(t *testing.T) {
	w := newHealWorld(t, 4, mib)
	for i := range 50 {
		w.mustPut(fmt.Sprint("k", i), 1000, 2, false, 0, 1+i%3)
	}
	w.mustPut("pinned", 1000, 2, true, 0, 1)
	w.mustPut("single", 1000, 1, false, 0)
	w.hosts[0].up = false
	w.pass(2 * time.Minute)
	for i := range 50 {
		expect(t, "healed", w.live()[fmt.Sprint("k", i)], 2)
	}
	w.back(w.hosts[0])
	w.pass(10 * time.Second)
	expect(t, "copies at first", w.live()["k7"], 3)
	if n := w.s.Healing().Surplus; n != 51 {
		t.Errorf("%d objects have a copy to spare", n)
	}
	w.pass(45 * time.Second)
	expect(t, "copies before a minute is over", w.live()["k7"], 3)
	for range 3 { // read all the time
		if _, _, err := w.s.cat.Get(w.now, "k7", nil); err != nil {
			t.Fatal(err)
		}
		w.pass(4 * time.Second)
	}
	for range 20 {
		if _, _, err := w.s.cat.Get(w.now, "k7", nil); err != nil {
			t.Fatal(err)
		}
		w.pass(4 * time.Second)
	}
	expect(t, "copies of what is read all the time", w.live()["k7"], 3)
	for i := range 50 {
		if key := fmt.Sprint("k", i); i != 7 {
			expect(t, "copies of "+key, w.live()[key], 2)
			if at := w.hostsOf(key); at == "[1 1]" || at == "[2 2]" || at[1] == '1' {
				t.Errorf("%s lies on %s: the machine that came last has what is to spare", key, at)
			}
		}
	}
	w.pass(time.Minute)
	expect(t, "copies when nobody reads", w.live()["k7"], 2)
	expect(t, "copies of the pinned one", w.live()["pinned"], 3)
	expect(t, "copies of the single one", w.live()["single"], 1)
	info := w.s.Healing()
	expect(t, "trimmed", info.Trimmed, uint64(50))
	expect(t, "left", info.Surplus, 0)
}

// TestCopyForSomebodyIsKept has a client copy an object that has two copies: it is no surplus. What the healing copies is.
func TestCopyForSomebodyIsKept(t *testing.T) {
	b := newBed(t)
	p, q, r := b.client(wire.V13), b.client(wire.V13), b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, mib)
	p.putTwice("k", 1000)
	r.mount("c", 1<<46, mib)
	list := p.get("k").Value.Replicas
	expect(t, "create", p.createCopy("k", "c").Err, 0)
	waitFor(t, "a third copy", func() bool { p.work(); q.work(); return len(p.get("k").Value.Replicas) == len(list)+1 })
	object, _, _ := b.service.cat.ThinCopies("k", nil)
	expect(t, "wanted", object.Wanted, 3)
	if _, own := b.service.tasks.purposeOf("k"); own {
		t.Error("the task is taken for one of the master's own")
	}
}

// TestSurplusOrder looks at which copies go first.
func TestSurplusOrder(t *testing.T) {
	h := &healer{steady: steadiness{seen: map[catalog.UUID]sighting{}}}
	at := func(id uint64, host string, since catalog.Time) catalog.Copy {
		seg := catalog.UUID{Lo: id}
		if since >= 0 {
			h.steady.seen[seg] = sighting{host, since}
		}
		return catalog.Copy{Replica: catalog.Replica{ID: id, Segment: &catalog.SegmentInfo{Segment: catalog.Segment{ID: seg}}}, State: catalog.SegmentOK, Host: host}
	}
	late := catalog.Time(limits.HealTrimAfterMs)
	copies := []catalog.Copy{at(1, "x", 0), at(2, "y", 5), at(3, "x", 3), at(4, "z", 5), at(5, "u", 7)}
	for keep, want := range map[int]string{5: "[]", 4: "[3]", 3: "[3 5]", 2: "[3 5 4]", 1: "[3 5 4 2]", 0: "[3 5 4 2]"} {
		expect(t, fmt.Sprint("to keep ", keep), fmt.Sprint(h.surplusOf(late+10, copies, keep)), want)
	}
	expect(t, "while two have not stayed long enough", fmt.Sprint(h.surplusOf(late+4, copies, 1)), "[3]")
	copies[0].Stage, copies[2].State = catalog.StageSuspect, catalog.SegmentDraining
	expect(t, "without those that do not serve", fmt.Sprint(h.surplusOf(late+10, copies, 1)), "[5 4]")
	expect(t, "of a segment that nobody noticed", fmt.Sprint(h.surplusOf(late+10, []catalog.Copy{at(8, "v", -1), at(9, "w", -1)}, 1)), "[]")
}

// TestSteadiness looks at how long a host waits that goes again and again.
func TestSteadiness(t *testing.T) {
	var st steadiness
	seg := func(id uint64, stage catalog.Stage) catalog.SegmentStatus {
		return catalog.SegmentStatus{SegmentInfo: catalog.SegmentInfo{Segment: catalog.Segment{ID: catalog.UUID{Lo: id}, Endpoint: "h:1"}}, Stage: stage}
	}
	list := func(s ...catalog.SegmentStatus) []catalog.SegmentStatus { return s }
	now := catalog.Time(1000)
	takes := func(id uint64, after int64) bool { return st.takes(now+catalog.Time(after), catalog.UUID{Lo: id}, "h") }
	st.notice(now, list(seg(1, catalog.StageActive), seg(2, catalog.StageSuspected)))
	expect(t, "at first", takes(1, 0) && takes(99, 0), true)
	st.notice(now, list(seg(1, catalog.StageActive), seg(2, catalog.StageLost)))
	expect(t, "when one went, another that stayed", takes(1, limits.HealHoldMs), true)
	for n, wait := range []int64{10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000} { // the first one has gone as well by now
		id := uint64(10 + n)
		st.notice(now, list(seg(id, catalog.StageActive)))
		if takes(id, wait-1) || !takes(id, wait) {
			t.Errorf("return %d: a wait of %d ms is not right", n, wait)
		}
		st.notice(now, nil)
	}
	now += limits.HealForgiveMs
	st.notice(now, list(seg(77, catalog.StageActive)))
	expect(t, "when it is forgiven", takes(77, 0), true)
	expect(t, "hosts remembered", len(st.lost), 0)
}

// TestHealingOfAFullPool has no room for the copies that are missing: nothing is evicted for them, nobody is asked over and
// over, and when there is room they are made.
func TestHealingOfAFullPool(t *testing.T) {
	for _, c := range []struct {
		watermark         float64
		second, thirdOnly int // objects on these machines only
	}{{0.9, 40, 90}, {0.6, 30, 48}, {0, 40, 90}} {
		watermark := c.watermark
		w := newHealWorld(t, 3, 100_000, func(c *Config) { c.HighWatermark = watermark })
		for i := range 40 {
			w.mustPut(fmt.Sprint("two", i), 1000, 2, false, 0, 1)
		}
		for i := range c.second {
			w.mustPut(fmt.Sprint("second", i), 1000, 1, false, 1)
		}
		for i := range c.thirdOnly {
			w.mustPut(fmt.Sprint("third", i), 1000, 1, false, 2)
		}
		keys := len(w.live())
		w.unmount(w.hosts[0])
		w.pass(10 * time.Minute)
		expect(t, "objects that are left", len(w.live()), keys)
		info := w.s.Healing()
		if info.Looks > 600/30+3 || info.Failures > 0 {
			t.Errorf("watermark %v: %+v", watermark, info)
		}
		usable, allocated := w.s.cat.Filled()
		if share := float64(allocated) / float64(usable); share > healFull(watermark) {
			t.Errorf("watermark %v: the pool is %.2f full", watermark, share)
		}
		w.mount(w.hosts[0], 100_000)
		w.pass(2 * time.Minute)
		for i := range 40 {
			expect(t, "copies once there is room", w.live()[fmt.Sprint("two", i)], 2)
		}
	}
}

// TestBundlesHealAsWholes has a bundle with one member left in one copy, among others: all its members come first and follow
// each other.
func TestBundlesHealAsWholes(t *testing.T) {
	bundled := func(id int, part string) string { return fmt.Sprintf("run/%032x/buffer/%s", id, part) }
	h := &healer{found: []catalog.Thin{
		{Key: "loose2", Copies: 2, Wanted: 3},
		{Key: bundled(2, "b"), Copies: 2, Wanted: 3},
		{Key: bundled(1, "b"), Copies: 2, Wanted: 3},
		{Key: bundled(2, "a"), Copies: 2, Wanted: 3},
		{Key: bundled(1, "c"), Copies: 1, Wanted: 3},
		{Key: "loose1", Copies: 1, Wanted: 3},
		{Key: bundled(1, "a"), Copies: 2, Wanted: 3},
	}}
	h.cut()
	var keys []string
	for i := range h.found {
		keys = append(keys, h.found[i].Key)
	}
	want := []string{"loose1", bundled(1, "c"), bundled(1, "a"), bundled(1, "b"), "loose2", bundled(2, "a"), bundled(2, "b")}
	if !slices.Equal(keys, want) {
		t.Errorf("%v, want %v", keys, want)
	}
}

// TestHealingAtRandom lets machines die, be silent, come back and flap while objects are put, read, removed and copied. Nothing
// ever has fewer copies than it is to have because copies are taken away (see pass); and when it has been quiet for a while
// every object that is left has exactly as many copies as it is to have, each on a machine of its own.
func TestHealingAtRandom(t *testing.T) {
	trimmed, copied := uint64(0), 0
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newHealWorld(t, 6, mib)
			dice := rand.New(rand.NewPCG(seed, 6))
			for n := range 150 {
				w.deed(dice, n)
			}
			for _, h := range w.hosts {
				switch h.lazy = false; {
				case !h.up && w.known(h):
					w.back(h)
				case !h.up:
					w.mount(h, mib)
				}
			}
			w.pass(20 * time.Minute)
			for key, n := range w.live() {
				object, copies, _ := w.s.cat.ThinCopies(key, nil)
				hosts := map[string]bool{}
				for i := range copies {
					hosts[copies[i].Host] = true
				}
				if n != len(copies) || len(hosts) != len(copies) || object.Wanted > 1 && n != min(object.Wanted, len(w.hosts)) {
					t.Errorf("%s has %d copies on %d machines, %d are wanted", key, len(copies), len(hosts), object.Wanted)
				}
			}
			info := w.s.Healing()
			if info.Surplus+info.Waiting+info.Copying+info.Unhelped > 0 {
				t.Errorf("%+v", info)
			}
			trimmed, copied = trimmed+info.Trimmed, copied+w.copied
		})
	}
	if trimmed < 3 || copied < 50 {
		t.Errorf("%d copies were taken away and %d made: the deeds do not meet each other", trimmed, copied)
	}
}

// known tells whether the master still has the segment of a machine.
func (w *healWorld) known(h *healHost) bool {
	return slices.ContainsFunc(w.s.cat.AllSegments(), func(st catalog.SegmentStatus) bool { return st.ID == h.seg.ID })
}

// deed does something at random.
func (w *healWorld) deed(dice *rand.Rand, n int) {
	h, key := w.hosts[dice.IntN(len(w.hosts))], fmt.Sprint("k", dice.IntN(60))
	switch dice.IntN(12) {
	case 0, 1, 2, 3:
		_ = w.put(fmt.Sprint("k", n%60), uint64(1000+dice.IntN(5000)), uint64(1+dice.IntN(3)), false) // it may be there
	case 4:
		_, _, _ = w.s.cat.Get(w.now, key, nil)
	case 5:
		_ = w.s.cat.Remove(w.now, key, true)
	case 6:
		if h.up {
			h.up = false // silent; it may come back with all it has
			w.pass(time.Duration(20+dice.IntN(60)) * time.Second)
		}
	case 7:
		switch {
		case h.up:
			w.unmount(h)
		case w.known(h):
			w.back(h)
		default:
			w.mount(h, mib)
		}
	case 8:
		h.lazy = !h.lazy
	case 9:
		if h.up {
			w.unmount(h)
			w.pass(time.Second)
			w.mount(h, mib)
		}
	case 10:
		if !h.up && w.known(h) {
			w.back(h)
		}
	case 11:
		if h.up {
			_, copies, _ := w.s.cat.ThinCopies(key, nil)
			for i := range copies {
				if copies[i].Segment.Client == h.id && copies[i].Stage == catalog.StageActive {
					to := w.hosts[dice.IntN(len(w.hosts))]
					if _, _, err := w.s.cat.CopyStart(w.now, h.id, key, h.seg.Name, []string{to.seg.Name}, nil); err == nil {
						_ = w.s.cat.CopyEndMore(w.now, h.id, key)
					}
				}
			}
		}
	}
	w.pass(time.Duration(1+dice.IntN(5)) * time.Second)
}
