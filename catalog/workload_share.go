package catalog

import "mooncake/internal/limits"

// A share is what belongs to one workload. Share 0 is what no rule fits. A workload keeps its share as long as it keeps
// its name; the share of one whose rule went is used again when nothing is in it any more.
type share struct {
	rule  Workload
	ruled bool // there is a rule
	kept  bool // there was one: objects may be in it

	keys, lostKeys   uint64 // in the index; of them, lost
	bytes, lostBytes uint64 // of replicas on mounted segments; of them, on lost ones

	deadlines deadlines
	counts    shareCounts // a leader's
}

// used gives the bytes that count against the limits of a share: what is lost does not.
func (sh *share) used() uint64 { return sh.bytes - sh.lostBytes }

// closed gives the bytes that a share has reserved and does not use.
func (sh *share) closed() uint64 {
	if used := sh.used(); used < sh.rule.ReservedBytes {
		return sh.rule.ReservedBytes - used
	}
	return 0
}

// shareTable holds the shares by number, and which object is whose.
type shareTable struct {
	matcher
	list   []share
	byName map[string]uint8
	tenantTable

	bounded bool // some share has a hard limit or a reservation
	shaped  bool // some share has any rule about what may go, or in which order
	expires bool // some share has a TTL

	moving bool // objects are being accounted for anew
	at     cursor
}

func (t *shareTable) init() {
	t.list = make([]share, 1)
	t.byName = map[string]uint8{}
	t.tenantTable.init()
}

// charge accounts a replica to a share; discharge takes it off again. Replicas on segments that are gone count nowhere.
func (s *state) charge(seg *segment, number uint8, size uint64) {
	for int(number) >= len(seg.shares) {
		seg.shares = append(seg.shares, 0)
	}
	seg.shares[number] += size
	sh := &s.shares.list[number]
	sh.bytes += size
	if seg.lost {
		sh.lostBytes += size
	}
}

func (s *state) discharge(seg *segment, number uint8, size uint64) {
	seg.shares[number] -= size
	sh := &s.shares.list[number]
	sh.bytes -= size
	if seg.lost {
		sh.lostBytes -= size
	}
}

// dischargeAll takes off everything on a segment that goes.
func (s *state) dischargeAll(seg *segment) {
	s.setLost(seg, false)
	for number, size := range seg.shares {
		s.shares.list[number].bytes -= size
	}
	seg.shares = nil
	s.shares.dischargeTenants(seg)
}

// setLost takes the bytes on a segment out of what counts, or back in.
func (s *state) setLost(seg *segment, lost bool) {
	if seg.lost == lost {
		return
	}
	seg.lost = lost
	for number, size := range seg.shares {
		if lost {
			s.shares.list[number].lostBytes += size
		} else {
			s.shares.list[number].lostBytes -= size
		}
	}
	s.shares.setTenantsLost(seg, lost)
}

// applyWorkloads replaces the rules. What that means for objects that are there is found out by reaccount, in slices.
func (s *state) applyWorkloads(c *Change) {
	if len(c.Workloads) > limits.Workloads {
		return
	}
	t := &s.shares
	for len(t.list)+len(c.Workloads) > limits.SharesMax && s.reaccount(limits.CatalogSliceItems) {
		// Rules that change faster than objects move: what former rules left has to go first.
	}
	for i := range t.list {
		t.list[i].ruled = false
	}
	var m matcher
	again := false
	for i := range c.Workloads {
		w := &c.Workloads[i]
		number, ok := t.byName[w.Name]
		if !ok {
			number = t.fresh()
		}
		sh := &t.list[number]
		if w.TTLMs > 0 && sh.rule.TTLMs != w.TTLMs {
			sh.deadlines.begin()
			again = true
		}
		again = again || w.Evict != sh.rule.Evict // what stays is in none of the ages
		sh.rule, sh.ruled, sh.kept = w.clone(), true, true
		t.byName[sh.rule.Name] = number
		m.add(&sh.rule, number)
	}
	for i := range t.list {
		if sh := &t.list[i]; !sh.ruled {
			sh.rule = Workload{Name: sh.rule.Name}
		}
		if t.list[i].rule.TTLMs == 0 {
			t.list[i].deadlines.drop()
		}
	}
	m.finish()
	if again = again || !m.same(&t.matcher); again {
		t.moving, t.at = true, cursor{}
	}
	t.matcher = m
	t.survey()
}

// fresh gives the number of a share that is empty. There are more numbers than rules and what a former set left.
func (t *shareTable) fresh() uint8 {
	for i := 1; i < len(t.list); i++ {
		if !t.list[i].kept {
			return uint8(i)
		}
	}
	t.list = append(t.list, share{})
	return uint8(len(t.list) - 1)
}

// survey notes what there is among the rules, so that a pool without any pays nothing for them.
func (t *shareTable) survey() {
	t.bounded, t.shaped, t.expires = false, false, false
	for i := range t.list {
		w := &t.list[i].rule
		t.bounded = t.bounded || w.HardBytes > 0 || w.ReservedBytes > 0
		t.shaped = t.shaped || w.SoftBytes > 0 || w.HardBytes > 0 || w.ReservedBytes > 0 || w.Evict != EvictLRU
		t.expires = t.expires || w.TTLMs > 0
	}
}

// reaccount moves up to limit objects to the share that the rules say. It reports whether there are more.
func (s *state) reaccount(limit int) (more bool) {
	t := &s.shares
	if !t.moving {
		return false
	}
	for range limit {
		n := s.scan(&t.at)
		if n == 0 {
			t.moving = false
			t.clear()
			return false
		}
		r := s.record(n)
		to := t.match(r.key(), t.name(r.tenant))
		moved := to != r.share
		if moved {
			s.moveRecord(n, to)
		}
		s.settle(n)
		if r.unit != 0 {
			to = s.unit(r.unit).share
		}
		if t.expires && !r.isOpen() && (moved || t.list[to].deadlines.catching) {
			s.schedule(n)
		}
	}
	return true
}

// clear ends a pass: it gives up the shares of rules that went, for their objects are elsewhere now.
func (t *shareTable) clear() {
	for i := range t.list {
		sh := &t.list[i]
		sh.deadlines.catching = false
		if i == 0 || !sh.kept || sh.ruled {
			continue
		}
		delete(t.byName, sh.rule.Name)
		*sh = share{}
		for k := range t.list {
			t.list[k].counts.forget(uint8(i))
		}
	}
}

// moveRecord accounts an object to another share.
func (s *state) moveRecord(n name, to uint8) {
	r := s.record(n)
	from := r.share
	for rn := n; rn != 0; {
		rep := s.replica(rn)
		rn = rep.more
		if seg := s.segments.list[rep.segment]; !seg.dead.Load() {
			s.discharge(seg, from, r.size)
			s.charge(seg, to, r.size)
		}
	}
	a, b := &s.shares.list[from], &s.shares.list[to]
	if r.marks&markStaged == 0 {
		a.keys--
		b.keys++
		if r.marks&markLost != 0 {
			a.lostKeys--
			b.lostKeys++
		}
	}
	s.moveNode(n, to)
	if r.unit != 0 {
		u := s.unit(r.unit)
		if from == u.share {
			u.strangers++
		} else if to == u.share {
			u.strangers--
		}
		s.rehome(r.unit)
	}
}

// moveNode gives a record or a unit another share, and its place among that one's ages.
func (s *state) moveNode(n name, to uint8) {
	x := s.node(n)
	list := s.agesOf(x.list)
	if list == nil {
		x.share = to
		return
	}
	bucket := x.bucket
	list.cut(s, n)
	x.share = to
	list.add(s, n, bucket)
}

// admit makes a unit the share's of its first member, and counts the others that belong to another.
func (s *state) admit(un, n name) {
	u, r := s.unit(un), s.record(n)
	if u.members == 0 {
		u.share = r.share
	} else if u.share != r.share {
		u.strangers++
	}
}

// rehome gives a unit, none of whose members is of its share any more, the share of its first.
func (s *state) rehome(un name) {
	u := s.unit(un)
	if u.members == 0 || u.strangers < u.members {
		return
	}
	s.moveNode(un, s.record(u.head).share)
	u.strangers = 0
	for m := u.head; m != 0; m = s.record(m).unitNext {
		if s.record(m).share != u.share {
			u.strangers++
		}
	}
	u.stamp = 0 // of another share
	if sh := &s.shares.list[u.share]; sh.rule.TTLMs > 0 {
		s.stampUnit(sh, un, u.lastTouch)
	}
}

// workloadOf names the workload of a record or a unit; "" is none.
func (s *state) workloadOf(n name) string { return s.shares.list[s.node(n).share].rule.Name }
