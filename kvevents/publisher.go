package kvevents

import (
	"context"
	"net"
	"sync"
	"time"

	"mooncake/internal/limits"
)

// A Publisher gathers events into messages. Its methods may be called from any goroutine.
type Publisher struct {
	options Options
	socket  *Socket
	queue   int // events, at most; 0 is limits.EventsQueueMax

	mu      sync.Mutex
	epoch   uint64
	pending []Event
	number  uint64 // of the last message
	id      uint64 // of the last event
	stats   Stats
}

// Stats are the figures of a Publisher. They only grow.
type Stats struct {
	Batches, Published uint64 // messages and events sent
	Dropped            uint64 // events that found the queue full, and messages that a subscriber was too slow for
	Keyless            uint64 // events left out because nothing names their object
}

// New returns a Publisher for a socket.
func New(o Options, s *Socket, queue int) *Publisher {
	p := &Publisher{options: o, socket: s, queue: min(queue, limits.EventsQueueMax)}
	if queue <= 0 {
		p.queue = limits.EventsQueueMax
	}
	return p
}

// Run serves subscribers until ctx ends.
func (p *Publisher) Run(ctx context.Context) error { return p.socket.run(ctx) }

// Begin starts an epoch: everything that subscribers know is void, and numbers begin anew.
func (p *Publisher) Begin(epoch uint64) {
	p.mu.Lock()
	p.epoch, p.number, p.pending = epoch, 0, nil
	reset := p.reset()
	p.socket.send(reset, reset)
	p.mu.Unlock()
}

// End ends an epoch: this master does not lead any more. Nothing is told until the next one begins, to new subscribers
// neither.
func (p *Publisher) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = nil
	p.socket.hush()
}

// reset is the message that a subscription begins with: it has the number of the last one.
func (p *Publisher) reset() []byte {
	now := uint64(time.Now().UnixMilli())
	return frames(p.number, appendPayload(nil, &p.options, []Event{{Kind: Cleared, Tenant: "default"}}, 0, now, p.epoch))
}

// Add queues events. When the queue is full the oldest go, and the numbers show a gap.
func (p *Publisher) Add(events ...Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range events {
		if events[i].Kind != Cleared && !p.options.ObjectKey {
			p.stats.Keyless++
			continue
		}
		p.pending = append(p.pending, events[i])
	}
	if over := len(p.pending) - p.queue; over > 0 {
		p.stats.Dropped += uint64(over)
		p.number++
		p.id += uint64(over)
		p.pending = append(p.pending[:0], p.pending[over:]...)
	}
}

// Lose notes events that never came here; the numbers show a gap.
func (p *Publisher) Lose(n int) {
	if n <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.Dropped += uint64(n)
	p.number++
	p.id += uint64(n)
}

// Close closes a Publisher that never ran.
func (p *Publisher) Close() error { return p.socket.Close() }

// Addr is where subscribers connect.
func (p *Publisher) Addr() net.Addr { return p.socket.Addr() }

// Flush sends what is queued.
func (p *Publisher) Flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.pending) > 0 {
		n := min(len(p.pending), limits.EventsPerMessage)
		p.number++
		now := uint64(time.Now().UnixMilli())
		message := frames(p.number, appendPayload(nil, &p.options, p.pending[:n], p.id+1, now, p.epoch))
		p.id += uint64(n)
		p.stats.Batches++
		p.stats.Published += uint64(n)
		p.socket.send(message, p.reset())
		clear(p.pending[:n])
		p.pending = p.pending[n:]
	}
	p.pending = nil
}

// Stats returns the figures.
func (p *Publisher) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Dropped += p.socket.dropped.Load()
	return s
}
