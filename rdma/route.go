package rdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// activeSuffix sets the devices of connections that we open apart from those that we answer on. A peer keeps one connection
// for each nic path of ours, whoever opened it: under the same path, each side's connections would end the other's. Peers
// take the part after the @ as it is, as long as they are sent our address.
const activeSuffix = "#copy"

// routeKey names a connection that we opened: our rail, our server name, the peer's nic path.
type routeKey struct{ device, self, peer string }

// route is a connection that we opened to a device of a peer.
type route struct {
	key  routeKey
	rail *rail

	connecting chan struct{} // holds one: whoever connects
	lanes      []*lane       // set once; read by those who have been given the route
	turn       atomic.Uint32
	bytes      atomic.Uint64
	fails      atomic.Uint64

	closing sync.Mutex // while lanes are set or their queue pairs destroyed
	closed  bool

	// under routeTable.mu
	users int
	idle  time.Time // since when nobody uses it
	dead  bool      // out of the table
}

// lane is one queue pair of a route with room for so much work.
type lane struct {
	qp    queuePair
	slots chan struct{}
}

// routeTable holds the routes that are open. A connection that failed is paused: the next copy takes another path at once,
// instead of waiting out the retries of this one again.
type routeTable struct {
	mu     sync.Mutex
	open   map[routeKey]*route
	paused map[routeKey]time.Time // until when
}

// errPaused is why a path is not tried, errDropped why one is not opened after all.
var (
	errPaused  = errors.New("failed a moment ago")
	errDropped = errors.New("given up while it was opened")
)

// use returns an open route to a device of the target, connected now if there is none, and whether it was. The caller gives
// it back by release.
func (f *Fabric) use(ctx context.Context, r *rail, t *Target, device string) (via *route, fresh bool, err error) {
	key := routeKey{device: r.name, self: t.Self, peer: descriptor.NICPath(t.Segment.ServerName(), device)}
	for {
		via, err = f.routes.enter(f, key, r)
		if err != nil {
			return nil, false, err
		}
		select {
		case via.connecting <- struct{}{}:
		case <-ctx.Done():
			f.routes.release(via, f.cfg.now())
			return nil, false, ctx.Err()
		}
		if f.routes.dropped(via) { // by the one before us
			<-via.connecting
			f.routes.release(via, f.cfg.now())
			continue
		}
		if len(via.lanes) == 0 {
			fresh = true
			err = via.connect(ctx, f, t)
		}
		<-via.connecting
		if err != nil {
			f.drop(via, ctx.Err() == nil)
			f.routes.release(via, f.cfg.now())
			return nil, false, err
		}
		return via, fresh, nil
	}
}

// enter finds or makes the entry of a key, and counts the caller as its user.
func (t *routeTable) enter(f *Fabric, key routeKey, r *rail) (*route, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := f.cfg.now()
	if until, found := t.paused[key]; found {
		if now.Before(until) {
			return nil, fmt.Errorf("%s from %s: %w", key.peer, key.device, errPaused)
		}
		delete(t.paused, key)
	}
	via := t.open[key]
	if via == nil {
		if len(t.open) >= limits.RDMARoutes {
			return nil, fmt.Errorf("%d RDMA connections are open to other peers, which is the limit", len(t.open))
		}
		via = &route{key: key, rail: r, connecting: make(chan struct{}, 1)}
		t.open[key] = via
	}
	via.users++
	return via, nil
}

func (t *routeTable) release(via *route, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	via.users--
	via.idle = now
}

func (t *routeTable) dropped(via *route) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return via.dead
}

// drop ends a route, for everybody who uses it; what they have under way is told that it never completes. With pause, it is
// not opened again for a while.
func (f *Fabric) drop(via *route, pause bool) {
	t := &f.routes
	t.mu.Lock()
	if t.open[via.key] == via {
		delete(t.open, via.key)
	}
	via.dead = true
	if pause && len(t.paused) < limits.RDMARoutes {
		t.paused[via.key] = f.cfg.now().Add(limits.RDMARoutePauseMs * time.Millisecond)
	}
	t.mu.Unlock()
	via.closing.Lock()
	defer via.closing.Unlock()
	if via.closed {
		return
	}
	via.closed = true
	for _, l := range via.lanes {
		via.rail.retire(l.qp)
	}
}

// expire ends the routes that nobody has used for a while.
func (f *Fabric) expire() {
	now := f.cfg.now()
	for _, via := range f.routes.list(func(via *route) bool {
		return via.users == 0 && now.Sub(via.idle) >= limits.RDMARouteIdleMs*time.Millisecond
	}) {
		f.drop(via, false)
	}
}

// list picks routes.
func (t *routeTable) list(which func(via *route) bool) []*route {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*route
	for _, via := range t.open {
		if which(via) {
			out = append(out, via)
		}
	}
	return out
}

// dropRoutes ends all routes, or those of one rail.
func (f *Fabric) dropRoutes(of *rail) {
	for _, via := range f.routes.list(func(via *route) bool { return of == nil || via.rail == of }) {
		f.drop(via, false)
	}
}

// connect shakes hands with the peer, once more if it wants another number of queue pairs than we thought.
func (via *route) connect(ctx context.Context, f *Fabric, t *Target) error {
	answered, err := via.connectWith(ctx, t, limits.RDMALanes)
	if err != nil && answered > 0 && answered != limits.RDMALanes && answered <= limits.HandshakeQPs {
		_, err = via.connectWith(ctx, t, answered)
	}
	if err != nil {
		return fmt.Errorf("connection to %s: %w", via.key.peer, err)
	}
	f.cfg.Log.Info("RDMA connection opened", zap.String("peer", via.key.peer), zap.String("device", via.key.device), zap.Int("qps", len(via.lanes)))
	return nil
}

// connectWith tries with a number of queue pairs, and returns how many the peer's answer had.
func (via *route) connectWith(ctx context.Context, t *Target, count int) (answered int, err error) {
	var lanes []*lane
	defer func() {
		if err != nil {
			for _, l := range lanes {
				via.rail.retire(l.qp)
			}
		}
	}()
	own := via.rail.describe()
	req := &descriptor.Connection{
		LocalGID: own.GID, LocalLID: own.LID, LocalNICPath: descriptor.NICPath(t.Self, own.Name+activeSuffix),
		PeerNICPath: via.key.peer, ReadyAck: new(bool),
	}
	for range count {
		qp, err := via.rail.newPair(limits.RDMAWorkPerLane, nil)
		if err != nil {
			return 0, err
		}
		lanes = append(lanes, &lane{qp: qp, slots: make(chan struct{}, limits.RDMAWorkPerLane)})
		req.QPNum = append(req.QPNum, qp.number())
	}
	answer, err := t.Handshake(ctx, req)
	if err != nil {
		return 0, err
	}
	if err := via.checkAnswer(req, answer); err != nil {
		return len(answer.QPNum), err
	}
	gid, err := gidFromText(answer.LocalGID)
	if err != nil {
		return 0, fmt.Errorf("local_gid of the answer: %w", err)
	}
	for i, l := range lanes {
		if err := l.qp.connect(via.rail.to(gid, answer.LocalLID, answer.QPNum[i])); err != nil {
			return 0, err
		}
	}
	if answer.ReadyAck != nil {
		req.ReadyAck = new(true)
		second, err := t.Handshake(ctx, req)
		if err != nil {
			return 0, err
		}
		if second.ReplyMsg != "" {
			return 0, fmt.Errorf("refused: %s", second.ReplyMsg)
		}
	}
	via.closing.Lock()
	defer via.closing.Unlock()
	if via.closed {
		return 0, errDropped
	}
	via.lanes = lanes
	return count, nil
}

// checkAnswer looks whether the answer is one to our request.
func (via *route) checkAnswer(req, answer *descriptor.Connection) error {
	switch {
	case answer.ReplyMsg != "":
		return fmt.Errorf("refused: %s", answer.ReplyMsg)
	case answer.LocalNICPath != req.PeerNICPath || answer.PeerNICPath != req.LocalNICPath:
		return fmt.Errorf("answer is for %q and %q, not for %q and %q", answer.PeerNICPath, answer.LocalNICPath, req.LocalNICPath, req.PeerNICPath)
	case len(answer.QPNum) != len(req.QPNum):
		return fmt.Errorf("answer has %d queue pairs, want %d", len(answer.QPNum), len(req.QPNum))
	}
	return checkQPs(answer.QPNum)
}

// post hands work to the next lane of the route. It waits for room in the queue.
func (via *route) post(ctx context.Context, w work, done func(Status)) error {
	l := via.lanes[int(via.turn.Add(1))%len(via.lanes)]
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case via.rail.credits <- struct{}{}:
	case <-ctx.Done():
		<-l.slots
		return ctx.Err()
	}
	err := via.rail.post(l.qp, w, func(c completion) {
		<-via.rail.credits
		<-l.slots
		via.rail.counted(w, c.status)
		if c.status == StatusSuccess {
			via.bytes.Add(uint64(w.length))
		} else {
			via.fails.Add(1)
		}
		done(c.status)
	})
	if err != nil {
		<-via.rail.credits
		<-l.slots
	}
	return err
}

// counted adds a finished request of ours to the figures of the device.
func (r *rail) counted(w work, status Status) {
	switch {
	case status != StatusSuccess:
		r.count.errors.Add(1)
	case w.op == opRead:
		r.count.readOps.Add(1)
		r.count.readBytes.Add(uint64(w.length))
	default:
		r.count.writeOps.Add(1)
		r.count.writeBytes.Add(uint64(w.length))
	}
}

func (t *routeTable) stats() []PathStats {
	var out []PathStats
	for _, via := range t.list(func(*route) bool { return true }) {
		s := PathStats{Path: via.key.peer, Device: via.key.device, Bytes: via.bytes.Load(), Errors: via.fails.Load()}
		select {
		case via.connecting <- struct{}{}: // nobody else touches the lanes
			for _, l := range via.lanes {
				s.Outstanding += len(l.slots)
			}
			<-via.connecting
		default:
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b PathStats) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Device, b.Device))
	})
	return out
}
