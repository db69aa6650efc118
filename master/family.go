package master

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// family says which layout a published client reads replies in. Releases 0.3.13.post1 and 0.3.14 share every layout
// that differs from 0.3.12.post1, so only one question is ever open; family14 refines family13 and is never needed.
type family uint32

const (
	familyUnknown family = iota
	family12
	family13
	family14
)

func (f family) String() string {
	return [...]string{"unknown", "0.3.12", "0.3.13", "0.3.14"}[f]
}

// group folds family14 into family13: the two are one answer to the only question that matters.
func (f family) group() family {
	if f == family14 {
		return family13
	}
	return f
}

// dialect is the layout in which replies to this family are written.
func (f family) dialect() wire.Dialect {
	switch f {
	case family12:
		return wire.V12
	case family14:
		return wire.V14
	default:
		return wire.V13
	}
}

// probeState follows the question put to a client that has mounted a segment and shown nothing of its release yet.
type probeState uint8

const (
	probeNone   probeState = iota // not asked: proved already, or no segment
	probeWanted                   // mounted and unproved: its next FetchTasks gets the probe task
	probeSent                     // the task is out, the answer is not in
	probeFailed                   // the client finished the task without proving anything
)

// peerConn is what is remembered of one connection of a client. What every request looks at is atomic, so that the
// calls of different connections do not meet in the registry's lock.
type peerConn struct {
	peer  netip.Addr
	fixed bool          // the listening address decides, nothing can be learned
	grpc  bool          // a caller of gRPC: its replies have one layout
	fam   atomic.Uint32 // family, once proved

	first     atomic.Uint32               // what the first request was
	guess     atomic.Uint64               // version<<2 | family of the last default decision
	guessedAt atomic.Int64                // when that decision was last used, in ns; 0 = not since the last request
	lastCall  atomic.Int64                // catalog.Time of the last request
	ids       atomic.Pointer[[]wire.UUID] // client ids seen, oldest first; the list is never changed, only replaced
	readings  readings                    // bundles looked up

	// The connection's goroutine only:
	began   time.Duration // Clock.elapsed when the call under way came
	now     catalog.Time  // the same on the clock
	waits   uint64        // number in the log that the replies not sent yet wait for
	started started       // what the call under way has begun
	after   uint64        // with startedOnly: number that its reply waits for

	// Guarded by registry.mu.
	counted family // family under which the registry counts this connection
	open    bool
}

// What the first request of a connection was.
const (
	firstNone  uint32 = iota
	firstReady        // ServiceReady: the first connection of a new client
	firstOther        // anything else: an additional connection of some client's pool
)

func (c *peerConn) clients() []wire.UUID {
	if ids := c.ids.Load(); ids != nil {
		return *ids
	}
	return nil
}

func (c *peerConn) has(id wire.UUID) bool {
	for _, have := range c.clients() {
		if have == id {
			return true
		}
	}
	return false
}

// peerClient is what is remembered of one client id.
type peerClient struct {
	id      wire.UUID
	fam     family
	probe   probeState
	asked   time.Time // when the probe became wanted
	peer    netip.Addr
	conns   int
	pinged  time.Time
	counted family // family under which the registry counts this client as living
	back    bool   // it was there before this master: it came on a connection that did not begin with ServiceReady
	daemon  bool   // one of our own segment daemons: proves nothing about the wheels beside it
}

// living counts proved clients and connections of each family.
type living struct{ n [4]int }

func (l *living) only() family {
	switch {
	case l.n[family12] > 0 && l.n[family13] == 0:
		return family12
	case l.n[family13] > 0 && l.n[family12] == 0:
		return family13
	}
	return familyUnknown
}

// familyRegistry learns which family a connection, a client id and an address belong to, and decides in which layout
// an ambiguous reply is written. The decision table stands in docs/protocol.md.
type familyRegistry struct {
	fallback family
	ttl      time.Duration
	now      func() time.Time

	version atomic.Uint64 // grows when a default decision may come out differently
	writers *writerWatch

	mu      sync.Mutex
	clients map[wire.UUID]*peerClient
	pending map[wire.UUID]*peerClient // those whose probe is wanted or sent
	conns   map[*peerConn]struct{}
	all     living
	byAddr  map[netip.Addr]*living
	proved  map[netip.Addr]family // last family proved at an address
	turned  map[netip.Addr]family // what a hang-up says of the further connections of an address
	ever    living                // 1 for each family that was ever proved
	parked  []*parkedReply
	memory  familyMemory
}

func newFamilyRegistry(fallback family, ttl time.Duration) *familyRegistry {
	return &familyRegistry{
		fallback: fallback,
		ttl:      ttl,
		now:      time.Now,
		writers:  newWriterWatch(),
		clients:  map[wire.UUID]*peerClient{},
		pending:  map[wire.UUID]*peerClient{},
		conns:    map[*peerConn]struct{}{},
		byAddr:   map[netip.Addr]*living{},
		proved:   map[netip.Addr]family{},
		turned:   map[netip.Addr]family{},
		memory:   familyMemory{met: map[netip.Addr]met{}, expected: map[netip.Addr]uint8{}},
	}
}

func (r *familyRegistry) opened(peer netip.Addr, fixed family) *peerConn {
	c := &peerConn{peer: peer.Unmap(), open: true}
	if fixed != familyUnknown {
		c.fixed = true
		c.fam.Store(uint32(fixed))
	}
	r.mu.Lock()
	r.conns[c] = struct{}{}
	r.mu.Unlock()
	return c
}

// closed forgets the connection. A peer that hangs up right after a reply in a guessed layout may not have been able to
// read it, or it had all it wanted. One that could not read it comes back with another connection, which does not begin
// with ServiceReady; for such connections the guess is turned round, as long as nothing living at the address speaks
// against it. A new process begins with ServiceReady and is not taken for the one that left.
func (r *familyRegistry) closed(c *peerConn, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.open = false
	delete(r.conns, c)
	r.count(c.peer, &c.counted, familyUnknown)
	for _, id := range c.clients() {
		if cl := r.clients[id]; cl != nil {
			cl.conns--
		}
	}
	at := c.guessedAt.Load()
	if family(c.fam.Load()) == familyUnknown && at != 0 &&
		now.UnixNano()-at < limits.FamilyHangUpMs*int64(time.Millisecond) && r.mayTurn(c) {
		other := family12
		if family(c.guess.Load()&3) == family12 {
			other = family13
		}
		r.turn(c.peer, other)
		if c.first.Load() == firstOther {
			r.expect(c.peer, 0)
		}
	}
	kept := r.parked[:0]
	for _, p := range r.parked {
		if p.conn != c {
			kept = append(kept, p)
		}
	}
	r.parked = clearTail(r.parked, kept)
}

// mayTurn reports whether the hang-up of a connection can mean that it could not read. Where clients of both families are,
// that one of them lives says nothing, but there many come and go.
func (r *familyRegistry) mayTurn(c *peerConn) bool {
	return !r.provedAt(c.peer) || c.first.Load() == firstOther && r.isMixed(c.peer)
}

// provedAt reports whether the address has a proved living family: then a hang-up proves nothing.
func (r *familyRegistry) provedAt(a netip.Addr) bool {
	l := r.byAddr[a]
	return l != nil && (l.n[family12] > 0 || l.n[family13] > 0)
}

// remember notes what was proved at an address.
func (r *familyRegistry) remember(a netip.Addr, f family) {
	f = f.group()
	r.turnBack(a)
	r.note(a, f)
	if keepHint(r.proved, a, f) || r.ever.n[f] == 0 {
		r.ever.n[f] = 1
		r.version.Add(1)
	}
}

// turn notes what a hang-up says, turnBack that it says nothing any more.
func (r *familyRegistry) turn(a netip.Addr, f family) {
	if keepHint(r.turned, a, f) {
		r.version.Add(1)
	}
}

func (r *familyRegistry) turnBack(a netip.Addr) {
	if _, ok := r.turned[a]; ok {
		delete(r.turned, a)
		r.version.Add(1)
	}
}

// keepHint changes what is remembered of an address and reports whether that is new. There is room for so many addresses;
// beyond, any other one is forgotten: what is remembered is a hint of last resort.
func keepHint(m map[netip.Addr]family, a netip.Addr, f family) bool {
	have, ok := m[a]
	if ok && have == f {
		return false
	}
	if !ok && len(m) >= limits.FamilyAddresses {
		for victim := range m {
			delete(m, victim)
			break
		}
	}
	m[a] = f
	return true
}

// count moves one living thing at address a from the family in *was to the family is.
func (r *familyRegistry) count(a netip.Addr, was *family, is family) {
	is = is.group()
	if *was == is {
		return
	}
	l := r.byAddr[a]
	if l == nil {
		l = &living{}
		r.byAddr[a] = l
	}
	if *was != familyUnknown {
		l.n[*was]--
		r.all.n[*was]--
	}
	if is != familyUnknown {
		l.n[is]++
		r.all.n[is]++
	}
	*was = is
	if l.n == [4]int{} {
		delete(r.byAddr, a)
	}
	r.version.Add(1)
}

// arrived notes a request before it is served. A client that cannot read a reply hangs up, so one that asks on after a
// reply in a guessed layout has read it: the guess is proved.
func (r *familyRegistry) arrived(c *peerConn, call wire.CallID) {
	if c.first.Load() == firstNone {
		r.arrivedFirst(c, call)
	}
	if c.guessedAt.Load() != 0 {
		c.guessedAt.Store(0)
		r.learn(c, family(c.guess.Load()&3))
	}
}

func (r *familyRegistry) arrivedFirst(c *peerConn, call wire.CallID) {
	if call != wire.CallServiceReady {
		c.first.Store(firstOther)
		return
	}
	c.first.Store(firstReady)
	r.mu.Lock()
	r.turnBack(c.peer)
	r.mu.Unlock()
}

// bind notes that a request on c carried the client id.
func (r *familyRegistry) bind(c *peerConn, id wire.UUID) {
	if c.has(id) {
		return
	}
	r.mu.Lock()
	r.bindLocked(c, id)
	ready := r.takeReady(r.now())
	r.mu.Unlock()
	send(ready)
}

func (r *familyRegistry) bindLocked(c *peerConn, id wire.UUID) *peerClient {
	_, known := r.clients[id]
	cl := r.client(id, c.peer)
	if !known {
		cl.back = c.first.Load() == firstOther
	}
	if c.open && !c.has(id) {
		have := c.clients()
		if len(have) >= limits.ClientsPerConnection {
			if old := r.clients[have[0]]; old != nil {
				old.conns--
			}
			r.writers.outOfSight(have[0])
			have = have[1:]
		}
		ids := append(append(make([]wire.UUID, 0, len(have)+1), have...), id)
		c.ids.Store(&ids)
		cl.conns++
		r.writers.carried(id)
	}
	if f := family(c.fam.Load()); f != familyUnknown {
		r.setClient(cl, f)
	} else if cl.fam != familyUnknown {
		r.setConn(c, cl.fam)
	}
	return cl
}

func (r *familyRegistry) client(id wire.UUID, peer netip.Addr) *peerClient {
	cl := r.clients[id]
	if cl == nil {
		cl = &peerClient{id: id, peer: peer, daemon: wire.IsDaemonClient(id)}
		r.clients[id] = cl
	}
	return cl
}

func (r *familyRegistry) setConn(c *peerConn, f family) {
	if c.fixed {
		return
	}
	c.fam.Store(uint32(f))
	if c.open && !r.hasDaemon(c) {
		r.count(c.peer, &c.counted, f)
	}
}

// hasDaemon reports whether the connection belongs to one of our own daemons.
func (r *familyRegistry) hasDaemon(c *peerConn) bool {
	for _, id := range c.clients() {
		if wire.IsDaemonClient(id) {
			return true
		}
	}
	return false
}

func (r *familyRegistry) setClient(cl *peerClient, f family) {
	if cl.fam == family14 && f == family13 {
		return
	}
	cl.fam = f
	r.setProbe(cl, probeNone)
	if !cl.pinged.IsZero() && !cl.daemon {
		r.count(cl.peer, &cl.counted, f)
	}
}

// learn takes a proof that the process behind c is of family f.
func (r *familyRegistry) learn(c *peerConn, f family) {
	have := family(c.fam.Load())
	if c.fixed || have == f || have == family14 && f == family13 {
		return
	}
	r.mu.Lock()
	r.setConn(c, f)
	for _, id := range c.clients() {
		r.setClient(r.client(id, c.peer), f)
	}
	if !r.hasDaemon(c) {
		r.remember(c.peer, f)
	}
	ready := r.takeReady(r.now())
	r.mu.Unlock()
	send(ready)
}

// mounted notes that the client brought a segment: it will fetch tasks, so it can be asked.
func (r *familyRegistry) mounted(c *peerConn, id wire.UUID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.bindLocked(c, id)
	if cl.fam == familyUnknown && cl.probe == probeNone && !cl.daemon {
		r.setProbe(cl, probeWanted)
		cl.asked = now
	}
	r.touch(cl, now)
}

// pinged notes a sign of life.
func (r *familyRegistry) pinged(c *peerConn, id wire.UUID, now time.Time) {
	r.mu.Lock()
	r.touch(r.bindLocked(c, id), now)
	r.mu.Unlock()
}

func (r *familyRegistry) touch(cl *peerClient, now time.Time) {
	cl.pinged = now
	if !cl.daemon {
		r.count(cl.peer, &cl.counted, cl.fam)
	}
}

// wantsProbe reports, once, that the client's FetchTasks must be answered with the probe task.
func (r *familyRegistry) wantsProbe(c *peerConn, id wire.UUID) bool {
	if c.fixed {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cl := r.bindLocked(c, id)
	if cl.probe != probeWanted || cl.fam != familyUnknown {
		return false
	}
	r.setProbe(cl, probeSent)
	return true
}

func (r *familyRegistry) setProbe(cl *peerClient, s probeState) {
	cl.probe = s
	if s == probeWanted || s == probeSent {
		r.pending[cl.id] = cl
	} else {
		delete(r.pending, cl.id)
	}
}

// probeDone notes that the client reported the end of the probe task. Whoever still waits for its proof waits in vain.
func (r *familyRegistry) probeDone(id wire.UUID) {
	r.mu.Lock()
	if cl := r.clients[id]; cl != nil && cl.probe == probeSent {
		r.setProbe(cl, probeFailed)
	}
	ready := r.takeReady(r.now())
	r.mu.Unlock()
	send(ready)
}

// familyFor decides the layout of an ambiguous reply on c; wait asks the caller to park the reply.
func (r *familyRegistry) familyFor(c *peerConn, now time.Time) (f family, wait bool) {
	if f = family(c.fam.Load()); f != familyUnknown {
		return f, false
	}
	if g := c.guess.Load(); g != 0 && g>>2 == r.version.Load() {
		c.guessedAt.Store(now.UnixNano())
		return family(g & 3), false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decide(c, now)
}

// guessed notes that a reply goes out in the default layout of this moment.
func (r *familyRegistry) guessed(c *peerConn, now time.Time) family {
	version := r.version.Load()
	f := r.byDefault(c).group()
	c.guess.Store(version<<2 | uint64(f))
	c.guessedAt.Store(now.UnixNano())
	return f
}

func (r *familyRegistry) decide(c *peerConn, now time.Time) (family, bool) {
	for _, id := range c.clients() {
		if cl := r.clients[id]; cl != nil && cl.fam != familyUnknown {
			r.setConn(c, cl.fam)
			return cl.fam, false
		}
	}
	if f := family(c.fam.Load()); f != familyUnknown {
		return f, false
	}
	if len(c.clients()) > 0 {
		for _, id := range c.clients() {
			if cl := r.clients[id]; cl != nil && r.unproved(cl, now) {
				return familyUnknown, true
			}
		}
	} else if c.first.Load() != firstReady {
		for _, cl := range r.pending {
			if cl.peer == c.peer && r.unproved(cl, now) {
				return familyUnknown, true
			}
		}
	}
	return r.guessed(c, now), false
}

// unproved reports whether the client has mounted, lives, and its proof can be waited for. A client that fetches no tasks
// is waited for once, not with every reply; one that is back at an address of one family need not be waited for.
func (r *familyRegistry) unproved(cl *peerClient, now time.Time) bool {
	return !r.isBack(cl) && cl.fam == familyUnknown && (cl.probe == probeWanted || cl.probe == probeSent) &&
		now.Sub(cl.asked) < limits.FamilyHoldMs*time.Millisecond && now.Sub(cl.pinged) < r.ttl
}

// byDefault is the best guess for a connection of which nothing is known.
func (r *familyRegistry) byDefault(c *peerConn) family {
	l := r.byAddr[c.peer]
	if c.first.Load() == firstOther {
		if f := r.turned[c.peer]; f != familyUnknown && (l == nil || r.isMixed(c.peer)) {
			return f
		}
		if f := r.returned(c); f != familyUnknown {
			return f
		}
	}
	if l != nil {
		if f := l.only(); f != familyUnknown {
			return f
		}
	}
	if f := r.all.only(); f != familyUnknown {
		return f
	}
	if f := r.proved[c.peer]; f != familyUnknown {
		return f
	}
	if f := r.ever.only(); f != familyUnknown {
		return f
	}
	return r.fallback
}

// sweep forgets clients that are neither connected nor pinging, and takes those that stopped pinging out of the count
// of the living.
func (r *familyRegistry) sweep(now time.Time) {
	r.mu.Lock()
	for id, cl := range r.clients {
		if now.Sub(cl.pinged) < r.ttl {
			continue
		}
		r.count(cl.peer, &cl.counted, familyUnknown)
		if cl.conns <= 0 {
			delete(r.clients, id)
			delete(r.pending, id)
		}
	}
	r.noteLiving()
	ready := r.takeReady(now)
	r.mu.Unlock()
	send(ready)
}
