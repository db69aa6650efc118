package tcp

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"mooncake/internal/limits"
)

// peer is one holder's data port and the connections kept to it.
type peer struct {
	address dataAddress
	slots   chan struct{} // one for each request in progress
	keep    time.Duration

	mu     sync.Mutex
	kept   []*lane // the most recently used last
	closed bool
}

// dialerCounters are kept by requests while they run.
type dialerCounters struct {
	dialed, retried, failed atomic.Uint64
}

// DialerStats are the counts of an initiator since it was made.
type DialerStats struct {
	// Dialed counts connections made, Retried requests repeated because a kept connection was dead, Failed requests that
	// ended with an error.
	Dialed, Retried, Failed uint64
}

// Stats returns the counts so far.
func (d *Dialer) Stats() DialerStats {
	return DialerStats{Dialed: d.stats.dialed.Load(), Retried: d.stats.retried.Load(), Failed: d.stats.failed.Load()}
}

var errDialerClosed = errors.New("initiator is closed")

// peer returns the pool of an address. Now and then it also looks over the others and lets go of connections that nobody
// used for long, so that holders that have left do not cost descriptors for ever.
func (d *Dialer) peer(address dataAddress) (*peer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, errDialerClosed
	}
	if now := time.Now(); now.Sub(d.swept) > d.cfg.Idle || len(d.peers) >= limits.DialerPeers {
		d.swept = now
		d.sweep(now)
	}
	p := d.peers[address]
	if p == nil {
		p = &peer{address: address, slots: make(chan struct{}, d.cfg.Lanes), keep: d.cfg.Idle}
		d.peers[address] = p
	}
	return p, nil
}

// sweep closes what is old and forgets peers without connections. If there are still too many, any of them goes: its
// requests in progress go on, and close their connections when they end.
func (d *Dialer) sweep(now time.Time) {
	for address, p := range d.peers {
		if p.expire(now) {
			delete(d.peers, address)
		}
	}
	for address, p := range d.peers {
		if len(d.peers) < limits.DialerPeers {
			return
		}
		p.close()
		delete(d.peers, address)
	}
}

// enter waits for the right to run one request.
func (p *peer) enter(ctx context.Context) error {
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *peer) leave() { <-p.slots }

// take returns the connection used last, or nil. Older ones than keep are closed instead.
func (p *peer) take(now time.Time) *lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropOld(now)
	if len(p.kept) == 0 {
		return nil
	}
	last := len(p.kept) - 1
	l := p.kept[last]
	p.kept[last] = nil
	p.kept = p.kept[:last]
	return l
}

// give keeps a connection that served a request well.
func (p *peer) give(l *lane, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.close()
		return
	}
	l.usedAt = now
	p.kept = append(p.kept, l)
}

// purge closes all kept connections: one of them was found dead.
func (p *peer) purge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(len(p.kept))
}

func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.drop(len(p.kept))
}

// expire closes old connections and reports whether nothing is kept and nothing is running; then the peer is closed.
func (p *peer) expire(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropOld(now)
	p.closed = len(p.kept) == 0 && len(p.slots) == 0
	return p.closed
}

func (p *peer) dropOld(now time.Time) {
	old := 0
	for old < len(p.kept) && now.Sub(p.kept[old].usedAt) > p.keep {
		old++
	}
	p.drop(old)
}

// drop closes the first n kept connections.
func (p *peer) drop(n int) {
	for _, l := range p.kept[:n] {
		l.close()
	}
	left := copy(p.kept, p.kept[n:])
	clear(p.kept[left:])
	p.kept = p.kept[:left]
}
