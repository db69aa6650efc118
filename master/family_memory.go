package master

import (
	"encoding/binary"
	"math"
	"net/netip"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/replication"
)

// familyMemory is what a master knows of the families at each address beyond its own life: the next one meets clients that
// go on reading and show nothing of their release. It is part of the registry, under its lock.
type familyMemory struct {
	clock func() catalog.Time
	write func(n replication.Note) // nil: nobody keeps it
	looks catalog.Time             // when the living are looked through again
	met   map[netip.Addr]met
	// expected are, as bits, the families that lived at an address when the master before ended: where that is one, for as long
	// as no other is met there; where both are, those that have not shown themselves since.
	expected map[netip.Addr]uint8
}

// met is when each family was last noted at an address; 0 = never. The first is 0.3.12, the second what came later.
type met [2]catalog.Time

func placeOf(f family) int {
	if f == family12 {
		return 0
	}
	return 1
}

var familyAt = [2]family{family12, family13}

func (m met) newest() catalog.Time { return max(m[0], m[1]) }

// recent drops what was not seen any more for too long before now.
func (m met) recent(now catalog.Time) met {
	for i := range m {
		if now-m[i] > limits.FamilyMemoryMs {
			m[i] = 0
		}
	}
	return m
}

func (m met) families() (bits uint8) {
	for i := range m {
		if m[i] != 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// familyOf names the one family of a set; familyUnknown if there is none or more.
func familyOf(bits uint8) family {
	switch bits {
	case 1:
		return family12
	case 2:
		return family13
	}
	return familyUnknown
}

const bothFamilies = 3

func noteOf(a netip.Addr, m met) replication.Note {
	return replication.Note{Name: a.String(), Value: binary.AppendUvarint(binary.AppendUvarint(nil, uint64(m[0])), uint64(m[1]))}
}

func parseFamilyNote(n replication.Note) (a netip.Addr, m met, ok bool) {
	a, err := netip.ParseAddr(n.Name)
	if err != nil {
		return a, m, false
	}
	rest := n.Value
	for i := range m {
		at, bytes := binary.Uvarint(rest)
		if bytes <= 0 || at > math.MaxInt64 {
			return a, m, false
		}
		m[i], rest = catalog.Time(at), rest[bytes:]
	}
	return a, m, len(rest) == 0
}

// remembering makes the registry note what it learns of addresses, and write it down.
func (r *familyRegistry) remembering(clock func() catalog.Time, write func(n replication.Note)) {
	r.memory.clock, r.memory.write = clock, write
}

// recall takes over what the master before has noted.
func (r *familyRegistry) recall(notes *replication.Notes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var newest catalog.Time
	for n := range notes.All() {
		if a, m, ok := parseFamilyNote(n); ok {
			r.memory.met[a] = m
			newest = max(newest, m.newest())
		}
	}
	for a, m := range r.memory.met {
		m = m.recent(newest)
		if m.families() == 0 {
			delete(r.memory.met, a)
			continue
		}
		r.memory.met[a] = m
		r.memory.expected[a] = m.families()
		last := family12
		if m[1] >= m[0] {
			last = family13
		}
		r.proved[a] = last
		for i, at := range m {
			if at != 0 {
				r.ever.n[familyAt[i]] = 1
			}
		}
	}
}

// note keeps that a family was proved or lives at an address.
func (r *familyRegistry) note(a netip.Addr, f family) {
	i := placeOf(f)
	if bits := r.memory.expected[a]; bits&(1<<i) != 0 && (bits == bothFamilies || r.isMixed(a)) {
		r.expect(a, bits&^(1<<i))
	}
	if r.memory.clock == nil {
		return
	}
	now := r.memory.clock()
	m, known := r.memory.met[a]
	if m[i] != 0 && now-m[i] < limits.FamilyNoteMs {
		return
	}
	if !known && len(r.memory.met) >= limits.LogNotes {
		r.forgetOldest()
	}
	m[i] = now
	m = m.recent(now)
	r.memory.met[a] = m
	if r.memory.write != nil {
		r.memory.write(noteOf(a, m))
	}
}

func (r *familyRegistry) forgetOldest() {
	var oldest netip.Addr
	at := catalog.Time(math.MaxInt64)
	for a, m := range r.memory.met {
		if t := m.newest(); t < at {
			oldest, at = a, t
		}
	}
	delete(r.memory.met, oldest)
}

// expect sets which families are still expected at an address.
func (r *familyRegistry) expect(a netip.Addr, bits uint8) {
	if bits == 0 {
		delete(r.memory.expected, a)
	} else {
		r.memory.expected[a] = bits
	}
	r.version.Add(1)
}

// isMixed reports whether clients of both families are at an address, or were lately: there a hang-up says more than that
// one of them lives.
func (r *familyRegistry) isMixed(a netip.Addr) bool {
	return r.memory.met[a].families() == bothFamilies
}

// returned is the guess for a connection of a process that was there before this master: it goes on reading where its
// predecessor has left off. It is the family that is expected back at its address, if that is one.
func (r *familyRegistry) returned(c *peerConn) family { return familyOf(r.memory.expected[c.peer]) }

// isBack reports whether a client was there before this master, at an address of one family.
func (r *familyRegistry) isBack(cl *peerClient) bool {
	return cl.back && familyOf(r.memory.expected[cl.peer]) != familyUnknown && !r.isMixed(cl.peer)
}

// noteLiving renews the notes about those who live. They are few: one for each address and hour.
func (r *familyRegistry) noteLiving() {
	if r.memory.clock == nil {
		return
	}
	now := r.memory.clock()
	if now < r.memory.looks {
		return
	}
	r.memory.looks = now + limits.FamilyLookMs
	for a, l := range r.byAddr {
		for _, f := range familyAt {
			if l.n[f] > 0 {
				r.note(a, f)
			}
		}
	}
}
