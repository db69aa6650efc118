package rdma

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// peerKey names a connection that a peer opened: our device and its own nic path.
type peerKey struct{ device, path string }

// peer is a connection that a peer opened. It reads and writes our memory by itself; we never hear of it.
type peer struct {
	key    peerKey
	rail   *rail
	server string // the peer's server name
	since  time.Time

	doomed    atomic.Uint32 // a reason to end it, else alive
	unsettled atomic.Int32  // probes under way
	answered  atomic.Int64  // when a probe was last answered, unix milliseconds
	probes    atomic.Uint64

	mu     sync.Mutex
	ended  bool     // it is out of the table
	theirs []uint32 // the peer's queue pairs
	pairs  []queuePair
	acked  bool // the peer said that its own are ready
}

// Why a peer's queue pairs were destroyed.
const (
	alive          uint32 = iota
	unanswered            // a probe was not answered
	pairFailed            // a queue pair went into the error state: the peer asked for what it may not have
	restarted             // the peer came again with other queue pairs
	addressChanged        // our address is another
	deviceGone            // our device is gone
	closing               // we are closing
	reasons
)

var reasonNames = [reasons]string{
	alive: "alive", unanswered: "unanswered", pairFailed: "queue_pair_failed", restarted: "restarted",
	addressChanged: "address_changed", deviceGone: "device_gone", closing: "closing",
}

// doom marks the peer for Run to reap. The first reason stays.
func (p *peer) doom(why uint32) { p.doomed.CompareAndSwap(alive, why) }

func (f *Fabric) doomRail(r *rail, why uint32) {
	for _, p := range f.snapshot() {
		if p.rail == r {
			p.doom(why)
		}
	}
	nudge(f.kicked)
}

// snapshot lists the peers of this moment.
func (f *Fabric) snapshot() []*peer {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]*peer, 0, len(f.peers))
	for _, p := range f.peers {
		out = append(out, p)
	}
	return out
}

// enter returns the peer of a key, locked, and makes it if it is new.
func (f *Fabric) enter(key peerKey, server string, r *rail) (*peer, error) {
	for {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			return nil, refuse(refusedClosed, "%v", ErrClosed)
		}
		p := f.peers[key]
		if p == nil {
			p = &peer{key: key, rail: r, server: server, since: f.cfg.now()}
			f.peers[key] = p
		}
		f.mu.Unlock()
		p.mu.Lock()
		if !p.ended {
			return p, nil
		}
		p.mu.Unlock() // it was reaped since we found it
	}
}

// reserve takes count queue pairs out of what a peer and all peers may have.
func (f *Fabric) reserve(server string, count int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if has := f.perServer[server]; has+count > f.cfg.QPsPerPeerMax {
		return refuse(refusedPeerLimit, "%d queue pairs asked for by %s, which has %d: at most %d are allowed for each peer", count, server, has, f.cfg.QPsPerPeerMax)
	}
	if f.qps+count > f.cfg.QPsMax {
		return refuse(refusedLimit, "%d queue pairs asked for, %d are in use: at most %d are allowed in all", count, f.qps, f.cfg.QPsMax)
	}
	f.perServer[server] += count
	f.qps += count
	return nil
}

func (f *Fabric) unreserve(server string, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.qps -= count
	if f.perServer[server] -= count; f.perServer[server] <= 0 {
		delete(f.perServer, server)
	}
}

// disconnect destroys the queue pairs of a locked peer.
func (f *Fabric) disconnect(p *peer) {
	for _, qp := range p.pairs {
		p.rail.retire(qp)
	}
	f.unreserve(p.server, len(p.pairs))
	p.pairs, p.theirs, p.acked = nil, nil, false
	p.doomed.Store(alive)
}

// reap ends a peer and takes it out of the table. It may come again, as a new one.
func (f *Fabric) reap(p *peer, why uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || why != closing && why != deviceGone && p.doomed.Load() == alive { // it came again meanwhile
		return
	}
	f.end(p, why)
}

// end is reap for a locked peer.
func (f *Fabric) end(p *peer, why uint32) {
	qps := len(p.pairs)
	f.disconnect(p)
	p.ended = true
	f.mu.Lock()
	delete(f.peers, p.key)
	f.mu.Unlock()
	if qps == 0 {
		return
	}
	f.count.reaped[why].Add(1)
	f.cfg.Log.Info("RDMA peer disconnected", zap.String("peer", p.key.path), zap.String("device", p.key.device), zap.Int("qps", qps),
		zap.String("reason", reasonNames[why]))
}
