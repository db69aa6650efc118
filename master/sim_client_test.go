package master

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"mooncake/internal/linear"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// simClient is a client of the cluster. It follows the leader's key, as published clients do, but not always at once.
type simClient struct {
	w      *world
	number int
	id     wire.UUID
	dice   *rand.Rand
	target *node
	conns  map[*Service]*rpc.Conn
}

func (w *world) newClient(number int) *simClient {
	return &simClient{
		w: w, number: number, id: wire.UUID{Hi: 5, Lo: uint64(number)}, dice: w.dice("client", uint64(number)),
		target: w.nodes[number%len(w.nodes)], conns: map[*Service]*rpc.Conn{},
	}
}

// What comes of a call that is not answered.
var (
	errUnsent     = errors.New("it was not begun")
	errUnanswered = errors.New("nobody knows whether it was done")
)

// wait passes time; false when the client is to end.
func (c *simClient) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.w.end.Done():
		return false
	}
}

// way is how long something is on its way between a client and a master.
func (c *simClient) way() { pass(time.Duration(c.dice.Int64N(int64(time.Millisecond)))) }

// look finds out who leads. Now and then the client believes somebody else.
func (c *simClient) look() {
	c.wait(time.Duration(c.dice.Int64N(int64(30 * time.Millisecond))))
	if n := c.w.leader(); n != nil && c.dice.IntN(5) > 0 {
		c.target = n
		return
	}
	c.target = c.w.nodes[c.dice.IntN(len(c.w.nodes))]
}

// ask makes one call. place names the term in which it was handled, if it was.
func (c *simClient) ask(functionID uint32, body []byte) (reply []byte, place string, err error) {
	c.way()
	p := c.target.running()
	s := c.reach(p, 1)
	if s == nil {
		return nil, "", errUnsent
	}
	defer s.calls.Done()
	p = c.w.node(s.cfg.RPCAddress).running()
	term := s.term.Created()
	place = fmt.Sprintf("%s/%d", s.cfg.RPCAddress, term)
	conn := c.conns[s.Service]
	if conn == nil {
		conn = new(rpc.Conn)
		s.Opened(conn)
		c.conns[s.Service] = conn
	}
	reply, code, parked := s.Serve(conn, rpc.Request{FunctionID: functionID, Body: body}, nil)
	p.link.Pause()
	if parked || code != rpc.CodeOK {
		delete(c.conns, s.Service)
		return nil, place, errUnanswered
	}
	if c.w.plan.early {
		err = s.history.waitLeading()
	} else {
		err = s.Settle(conn)
	}
	if err != nil || p.link.Dead() {
		delete(c.conns, s.Service)
		return nil, place, errUnanswered
	}
	c.w.answered(place, term)
	c.way()
	if c.dice.IntN(200) == 0 { // the connection breaks
		return nil, place, errUnanswered
	}
	return reply, place, nil
}

// reach finds the term that handles a call to a process. A standby passes it on to whom it takes for the leader.
func (c *simClient) reach(p *process, hops int) *serving {
	if p == nil {
		return nil
	}
	p.link.Pause()
	if p.link.Dead() {
		return nil
	}
	if s := p.enter(); s != nil {
		return s
	}
	view, _ := p.member.View()
	if n := c.w.node(view.Address); n != nil && n != p.n && hops > 0 {
		c.way()
		return c.reach(n.running(), hops-1)
	}
	return nil
}

// simInvoke makes a call that is repeated as long as it is certain that nobody began it.
func simInvoke[Req, Rep any](c *simClient, call *wire.Call[Req, Rep], req *Req) (rep Rep, place string, err error) {
	body := call.AppendRequest(nil, wire.V13, req)
	for {
		reply, place, err := c.ask(call.ID.FunctionID(), body)
		switch {
		case err == nil:
			if err := call.DecodeReply(reply, wire.V13, &rep); err != nil {
				c.w.breach("%s: %v", call.ID.Name(), err)
			}
			return rep, place, nil
		case err == errUnanswered:
			c.look()
			return rep, place, err
		}
		c.look()
		if c.w.end.Err() != nil {
			return rep, "", errUnsent
		}
	}
}

// run makes random calls until the end.
func (c *simClient) run() {
	for c.wait(time.Duration(c.dice.Int64N(int64(80 * time.Millisecond)))) {
		key := fmt.Sprintf("key-%d", c.dice.IntN(simKeys))
		switch n := c.dice.IntN(20); {
		case n < 5:
			c.put(key)
		case n < 7 && !c.w.plan.small: // without room an upsert may go over what others read
			c.upsert(key)
		case n < 7:
			c.put(key)
		case n < 13:
			c.get(key)
		case n < 15:
			c.exist(key)
		default:
			c.remove(key, n == 19)
		}
	}
}

// add writes a call down, as far as it says anything in this world.
func (c *simClient) add(kind linear.Kind, key string, value uint64, began int64, outcome linear.Outcome, place string) {
	if c.w.plan.async && (kind == linear.Put || kind == linear.Upsert || kind == linear.Remove) {
		if outcome == linear.Absent {
			return
		}
		outcome = linear.Unknown
	}
	if c.w.plan.small { // any object may be gone at any time
		switch {
		case outcome == linear.Absent:
			return
		case kind == linear.Put:
			kind = linear.Upsert
		case kind == linear.Remove && outcome == linear.Done:
			outcome = linear.Cleared
		}
	}
	c.w.history.Add(linear.Op{
		Client: c.number, Key: key, Kind: kind, Value: value, Outcome: outcome, Call: began, Return: c.w.now(), Place: place,
	})
}

func (c *simClient) put(key string) {
	started, _, err := simInvoke(c, &wire.PutStart, &wire.PutStartRequest{
		ClientID: c.id, Key: key, Size: c.size(), Config: wire.ReplicateConfig{ReplicaNum: 1 + c.dice.Uint64N(2)},
	})
	if err != nil || started.Err != 0 {
		return
	}
	version, goesOn := c.fill(started.Value)
	if !goesOn {
		return
	}
	switch c.dice.IntN(25) {
	case 0: // it forgets about it
		return
	case 1: // it thinks better of it
		_, _, _ = simInvoke(c, &wire.PutRevoke, &wire.PutRevokeRequest{ClientID: c.id, Key: key, ReplicaType: wire.ReplicaTypeAll})
		return
	}
	began := c.w.now()
	ended, place, err := simInvoke(c, &wire.PutEnd, &wire.PutEndRequest{ClientID: c.id, ReplicaType: wire.ReplicaTypeAll, Object: simMeta(key, version)})
	c.addWrite(linear.Put, key, version, began, place, ended.Err, err)
}

func (c *simClient) upsert(key string) {
	started, _, err := simInvoke(c, &wire.UpsertStart, &wire.UpsertStartRequest{
		ClientID: c.id, Key: key, Size: c.size(), Config: wire.ReplicateConfig{ReplicaNum: 1},
	})
	if err != nil || started.Err != 0 {
		return
	}
	version, goesOn := c.fill(started.Value)
	if !goesOn || c.dice.IntN(25) == 0 {
		return
	}
	began := c.w.now()
	ended, place, err := simInvoke(c, &wire.UpsertEnd, &wire.UpsertEndRequest{ClientID: c.id, ReplicaType: wire.ReplicaTypeAll, Object: simMeta(key, version)})
	c.addWrite(linear.Upsert, key, version, began, place, ended.Err, err)
}

func (c *simClient) size() uint64 { return uint64(1 + c.dice.IntN(3000)) }

func simMeta(key string, version uint64) wire.ObjectMeta {
	return wire.ObjectMeta{Key: key, ObjectChecksum: wire.Opt[uint64]{Set: true, Value: version}}
}

// addWrite writes down how a write ended. One that is refused has no effect.
func (c *simClient) addWrite(kind linear.Kind, key string, version uint64, began int64, place string, code wire.ErrorCode, err error) {
	switch {
	case errors.Is(err, errUnanswered):
		c.add(kind, key, version, began, linear.Unknown, place)
	case err == nil && code == 0:
		c.add(kind, key, version, began, linear.Done, place)
	}
}

// fill writes the bytes of an object, in two halves; false when the client is to end.
func (c *simClient) fill(replicas []wire.ReplicaDescriptor) (version uint64, goesOn bool) {
	version = c.w.version.Add(1)
	for half := range uint64(2) {
		for i := range replicas {
			b := &replicas[i].DescriptorVariant.Memory.BufferDescriptor
			middle := b.BufferAddress + b.Size/2
			from, to := b.BufferAddress, middle
			if half == 1 {
				from, to = middle, b.BufferAddress+b.Size
			}
			c.w.ram[b.TransportEndpoint].write(from, to, version)
		}
		if !c.wait(time.Duration(c.dice.Int64N(int64(5 * time.Millisecond)))) {
			return version, false
		}
	}
	return version, true
}

func (c *simClient) get(key string) {
	began := c.w.now()
	got, place, err := simInvoke(c, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: key})
	switch {
	case err != nil:
	case got.Err == wire.ErrObjectNotFound || got.Err == wire.ErrReplicaIsNotReady:
		c.add(linear.Get, key, 0, began, linear.Absent, place)
	case got.Err != 0:
		c.w.breach("get of %s: %v", key, got.Err)
	default:
		version := got.Value.ObjectChecksum.Value
		c.add(linear.Get, key, version, began, linear.Done, place)
		// The address may be used for the time of the lease, as the client counts it.
		left := began + int64(got.Value.LeaseTTLMs)*int64(time.Millisecond) - c.w.now()
		if left > 0 && c.wait(time.Duration(c.dice.Int64N(left))) {
			c.compare(key, version, began, got.Value.Replicas)
		}
	}
}

// compare reads the bytes of an object.
func (c *simClient) compare(key string, version uint64, began int64, replicas []wire.ReplicaDescriptor) {
	w := c.w
	w.mu.Lock()
	forced := w.removed[key] >= began
	w.mu.Unlock()
	if forced { // whoever forces a removal takes the bytes from readers
		return
	}
	w.checked.Add(1)
	for i := range replicas {
		b := &replicas[i].DescriptorVariant.Memory.BufferDescriptor
		if ok, others := w.ram[b.TransportEndpoint].holds(b.BufferAddress, b.BufferAddress+b.Size, version); !ok {
			w.breach("%s was read as %d at %s+%d, where the bytes of %v are", key, version, b.TransportEndpoint, b.BufferAddress, others)
		}
	}
}

func (c *simClient) exist(key string) {
	began := c.w.now()
	got, place, err := simInvoke(c, &wire.ExistKey, &wire.ExistKeyRequest{Key: key})
	switch {
	case err != nil:
	case got.Value:
		c.add(linear.Exist, key, 0, began, linear.Done, place)
	default:
		c.add(linear.Exist, key, 0, began, linear.Absent, place)
	}
}

func (c *simClient) remove(key string, force bool) {
	w := c.w
	if force {
		w.mu.Lock()
		w.removed[key] = math.MaxInt64
		w.mu.Unlock()
	}
	began := w.now()
	got, place, err := simInvoke(c, &wire.Remove, &wire.RemoveRequest{Key: key, Force: force})
	switch {
	case errors.Is(err, errUnanswered):
		c.add(linear.Remove, key, 0, began, linear.Unknown, place)
		return // it may come to pass at any time
	case err != nil:
	case got.Err == 0 && force: // it ends a write as well
		c.add(linear.Remove, key, 0, began, linear.Cleared, place)
	case got.Err == 0:
		c.add(linear.Remove, key, 0, began, linear.Done, place)
	case got.Err == wire.ErrObjectNotFound:
		c.add(linear.Remove, key, 0, began, linear.Absent, place)
	}
	if force {
		w.mu.Lock()
		if w.removed[key] == math.MaxInt64 {
			w.removed[key] = w.now()
		}
		w.mu.Unlock()
	}
}

// own mounts a segment and pings for it until the end, as a segment daemon does.
func (c *simClient) own(owner int) {
	seg := wire.Segment{
		ID: wire.UUID{Hi: 9, Lo: uint64(owner)}, Name: fmt.Sprintf("segment-%d", owner), Base: 1 << 44, Size: simSegment,
		TeEndpoint: simEndpoint(owner), Protocol: "tcp",
	}
	if c.w.plan.small {
		seg.Size = simSmall
	}
	mounted := false
	for {
		if !mounted {
			rep, _, err := simInvoke(c, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: c.id})
			mounted = err == nil && rep.Err == 0
		}
		if !c.wait(500 * time.Millisecond) {
			return
		}
		rep, _, err := simInvoke(c, &wire.Ping, &wire.PingRequest{ClientID: c.id})
		if err == nil && rep.Value.ClientStatus == wire.ClientStatusNeedRemount {
			mounted = false
		}
	}
}

// sweepUp reads every key once more, when all is well again.
func (c *simClient) sweepUp() {
	for i := range simKeys {
		c.get(fmt.Sprintf("key-%d", i))
	}
	if i := slices.IndexFunc(c.w.nodes, func(n *node) bool { return n.running() == nil }); i >= 0 {
		c.w.breach("%s does not run", c.w.nodes[i].name)
	}
}
