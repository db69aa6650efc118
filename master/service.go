package master

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/replication"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// Service answers the calls of published clients. It holds no truth of its own: what a call means is decided by the
// catalog, in which layout it is spoken by the family registry.
type Service struct {
	cfg       Config
	log       *zap.Logger
	clock     *Clock
	cat       *catalog.Catalog
	history   history
	families  *familyRegistry
	suspicion *suspicion
	calls     *metrics.Calls
	strangers strangeLog
	callLog   *callLog
	workloads workloads
	tasks     *taskBook
	heat      *heat
	healer    *healer
	integrity *integrity
	drains    drains
	tenants   tenants
	events    events
	watchers  watchers
	attached  attached
	verifier  verifier

	bundleTimes bundleTimes
	table       [wire.NumCalls]boundCall
	counted     [wire.NumCalls]*metrics.CallCounter // nil where there is none

	suspected, lost atomic.Uint64 // clients that entered these stages

	quit chan struct{} // closed when the master stops: long searches end then
}

// boundCall is one call with its handler bound to the service.
type boundCall func(c *rpc.Conn, p *peerConn, r rpc.Request, set wire.DialectSet, dst []byte) (body []byte, code uint8, parked bool)

// port is the rpc.Handler of one listening address. All ports share the service; a port may fix the family.
type port struct {
	*Service
	fixed family
}

// Opened starts the record of a connection.
func (p *port) Opened(c *rpc.Conn) {
	c.Tag = p.families.opened(peerAddr(c.RemoteAddr()), p.fixed)
}

// Closed forgets the connection. Clients that it leaves without any are looked after.
func (p *port) Closed(c *rpc.Conn) {
	if pc, ok := c.Tag.(*peerConn); ok {
		p.left(pc, leftByPeer(c.Cause()))
	}
}

// left forgets a connection. byPeer tells that the peer, or the net between, ended it.
func (s *Service) left(pc *peerConn, byPeer bool) {
	s.families.closed(pc, time.Now())
	now := s.clock.Now()
	for _, id := range s.families.writers.left(pc.clients(), catalog.Time(pc.lastCall.Load()), now, byPeer) {
		s.suspicion.doubt(clientID(id), now)
	}
}

// leftByPeer tells whether the peer, or the net between, ended a connection. What this side ended says nothing of the
// peer.
func leftByPeer(cause error) bool {
	for _, own := range []error{
		rpc.ErrProtocol, rpc.ErrFrameTooLarge, rpc.ErrHalfFrame, rpc.ErrIdle, rpc.ErrSlowReader, rpc.ErrBusy, rpc.ErrClosed,
	} {
		if errors.Is(cause, own) {
			return false
		}
	}
	return true
}

func peerAddr(a netip.AddrPort) netip.Addr { return a.Addr().Unmap() }

// Serve answers one request.
func (p *port) Serve(c *rpc.Conn, r rpc.Request, dst []byte) (body []byte, code uint8, parked bool) {
	id, known := wire.Lookup(r.FunctionID)
	if !known {
		if r.FunctionID == introduction && p.introduced(c.Tag.(*peerConn), r.Body) {
			return dst, rpc.CodeOK, false
		}
		return rpc.AppendErrorText(dst, rpc.TextUnknownFunction), rpc.CodeUnknownFunction, false
	}
	set, err := id.Accepts(r.Body)
	if err != nil {
		p.strange(peerAddr(c.RemoteAddr()), id, r.Body, err)
		return rpc.AppendErrorText(dst, rpc.TextInvalidArgs), rpc.CodeInvalidArgs, false
	}
	pc := c.Tag.(*peerConn)
	p.families.arrived(pc, id)
	pc.arrive(p.clock)
	pc.lastCall.Store(int64(pc.now))
	if proof := provedBy(set); proof != familyUnknown {
		p.families.learn(pc, proof)
	}
	handler := p.table[id]
	if handler == nil {
		p.count(id, false)
		return p.unavailable(c, pc, id, r, dst)
	}
	switch waited, err := p.history.admit(id); {
	case waited:
		pc.arrive(p.clock)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, replication.ErrFull): // too much waits to be written
		p.count(id, true)
		return p.unavailable(c, pc, id, r, dst)
	case err != nil:
		c.Close() // there is no truth to tell any more
		return dst, rpc.CodeOK, true
	}
	pc.started, pc.after = startedNothing, 0
	body, code, parked = handler(c, pc, r, set, dst)
	if p.history.decided(pc, id) != nil {
		c.Close()
		return dst, rpc.CodeOK, true
	}
	return body, code, parked
}

// arrive notes when the call under way came, or came through where it had to wait.
func (p *peerConn) arrive(c *Clock) {
	p.began = c.elapsed()
	p.now = c.at(p.began)
}

// count counts a call about one thing.
func (s *Service) count(id wire.CallID, failed bool) {
	if n := s.counted[id]; n != nil {
		n.Count(failed)
		return
	}
	s.calls.Count(id.Name(), failed)
}

// countBatch counts a call about many.
func (s *Service) countBatch(id wire.CallID, items, failed int) {
	if n := s.counted[id]; n != nil {
		n.CountBatch(items, failed)
		return
	}
	s.calls.CountBatch(id.Name(), items, failed)
}

// provedBy names the family that alone can have sent a request accepted in set, if there is one.
func provedBy(set wire.DialectSet) family {
	switch {
	case set == wire.SetOf(wire.V14):
		return family14
	case !set.Has(wire.V12):
		return family13
	case set == wire.SetOf(wire.V12):
		return family12
	}
	return familyUnknown
}

// turn is the memory of one call: it is used again once the reply is written.
type turn[Req, Rep any] struct {
	req Req
	rep Rep
	bag bag
}

// bag is memory that a call works with and that its reply may lie in.
type bag struct {
	replicas []wire.ReplicaDescriptor
	keys     []string
	options  catalog.PutOptions
	found    [4]catalog.Replica
}

// open gives an empty list with room for one replica of each object; close takes it back for the next reply.
func (b *bag) open(objects int) []wire.ReplicaDescriptor {
	if cap(b.replicas) < objects {
		b.replicas = make([]wire.ReplicaDescriptor, 0, objects)
	}
	return b.replicas[:0]
}

func (b *bag) close(list []wire.ReplicaDescriptor) {
	if b.replicas = list; cap(list) > limits.ReplyKeptItems {
		b.replicas = nil
	}
}

// keysOf lists the keys of the next objects of a call.
func (b *bag) keysOf(objects []wire.ObjectMeta) []string {
	b.keys = b.keys[:0]
	for i := range min(len(objects), limits.CatalogWarmKeys) {
		b.keys = append(b.keys, objects[i].Key)
	}
	return b.keys
}

// again gives a list of zeros, in the memory of an old one if that has the right size.
func again[T any](old []T, items int) []T {
	if cap(old) < items || cap(old) > limits.ReplyKeptItems {
		return make([]T, items)
	}
	old = old[:items]
	clear(old)
	return old
}

// register binds fn to a call. fn fills rep, which comes to it empty, from req; whatever the layout, there is one
// request and one reply type. Neither may be kept.
func register[Req, Rep any](s *Service, call *wire.Call[Req, Rep], fn func(p *peerConn, req *Req, rep *Rep)) {
	registerLean(s, call, func(p *peerConn, req *Req, rep *Rep, _ *bag) {
		*rep = *new(Rep)
		fn(p, req, rep)
	})
}

// registerLean is register for a call that is made often, or about many things. Its reply may lie in the bag that fn gets,
// and comes to it as the last call left it, so that its memory can be used again.
func registerLean[Req, Rep any](s *Service, call *wire.Call[Req, Rep], fn func(p *peerConn, req *Req, rep *Rep, b *bag)) {
	ambiguous := call.ID.AmbiguousReply()
	pool := sync.Pool{New: func() any { return new(turn[Req, Rep]) }}
	outcomes := outcomesOf[Rep]()
	s.table[call.ID] = func(c *rpc.Conn, p *peerConn, r rpc.Request, set wire.DialectSet, dst []byte) ([]byte, uint8, bool) {
		x := pool.Get().(*turn[Req, Rep])
		if err := call.DecodeRequest(r.Body, set.Newest(), &x.req); err != nil {
			pool.Put(x)
			return rpc.AppendErrorText(dst, rpc.TextInvalidArgs), rpc.CodeInvalidArgs, false
		}
		fn(p, &x.req, &x.rep, &x.bag)
		s.callLog.took(p, call.ID, s.clock.elapsed()-p.began, &x.req)
		if outcomes != nil && outcomes(&x.rep, nil) {
			outcomes(&x.rep, func(item int, code string) { s.callLog.refused(p, call.ID, code, &x.req, item) })
		}
		f := family(p.fam.Load())
		if ambiguous && f == familyUnknown {
			var wait bool
			if f, wait = s.families.familyFor(p, time.Now()); wait {
				f, wait = s.families.park(p, time.Now(), func(f family) {
					s.history.afterwards(func() {
						if !s.history.leads() {
							c.Close()
							return
						}
						// The connection may be gone by now: then nobody waits for the reply.
						_ = c.Reply(r.Seq, rpc.CodeOK, call.AppendReply(nil, f.dialect(), &x.rep))
					})
				})
			}
			if wait {
				return dst, rpc.CodeOK, true
			}
		}
		dst = call.AppendReply(dst, f.dialect(), &x.rep)
		pool.Put(x)
		return dst, rpc.CodeOK, false
	}
}

// unavailable answers a call whose behaviour is not built yet with the "unavailable" code of its own reply type.
func (s *Service) unavailable(c *rpc.Conn, p *peerConn, id wire.CallID, r rpc.Request, dst []byte) ([]byte, uint8, bool) {
	f := family(p.fam.Load())
	if id.AmbiguousReply() {
		var wait bool
		if f, wait = s.families.familyFor(p, time.Now()); wait {
			body := bytes.Clone(r.Body) // the reader's buffer is used again once this request is parked
			f, wait = s.families.park(p, time.Now(), func(f family) {
				// The connection may be gone by now: then nobody waits for the reply.
				_ = c.Reply(r.Seq, rpc.CodeOK, wire.UnavailableReply(nil, id, f.dialect(), body))
			})
		}
		if wait {
			return dst, rpc.CodeOK, true
		}
	}
	return wire.UnavailableReply(dst, id, f.dialect(), r.Body), rpc.CodeOK, false
}
