package rdma

import (
	"context"
	"time"

	"mooncake/internal/limits"
)

// probeUntil asks all peers again and again whether they are there, until the context ends. A peer that ends tells nobody,
// and queue pairs that only answer never fail by themselves: without this they would stay for ever.
func (f *Fabric) probeUntil(ctx context.Context) {
	tick := time.NewTicker(f.cfg.ProbeEvery)
	defer tick.Stop()
	credits := make(chan struct{}, limits.RDMAProbesAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.probeAll(ctx, credits)
		}
	}
}

// probeAll writes nothing, in zero bytes, to every peer. It reaches no memory and is answered by the peer's device alone.
func (f *Fabric) probeAll(ctx context.Context, credits chan struct{}) {
	for _, p := range f.snapshot() {
		// A port that is down reaches nobody, and that is not the peers' fault.
		if usable, _ := p.rail.condition(); !usable || p.unsettled.Load() > 0 {
			continue
		}
		p.mu.Lock()
		pairs := append([]queuePair(nil), p.pairs...)
		young := f.cfg.now().Sub(p.since) < f.cfg.ProbeEvery // it may not have its own queue pairs ready
		p.mu.Unlock()
		if young {
			continue
		}
		for _, qp := range pairs {
			select {
			case <-ctx.Done():
				return
			case credits <- struct{}{}:
			}
			f.probe(p, qp, func() { <-credits })
		}
	}
}

// probe asks over one queue pair.
func (f *Fabric) probe(p *peer, qp queuePair, done func()) {
	p.unsettled.Add(1)
	p.probes.Add(1)
	err := p.rail.post(qp, work{op: opWrite}, func(c completion) {
		f.probed(p, qp, c.status)
		done()
	})
	if err != nil {
		f.probed(p, qp, StatusFlushed) // it is in no state to take work
		done()
	}
}

// probed takes the outcome. It runs where completions are polled and must not wait.
func (f *Fabric) probed(p *peer, qp queuePair, status Status) {
	p.unsettled.Add(-1)
	switch status {
	case StatusSuccess:
		f.count.probesAnswered.Add(1)
		p.answered.Store(f.cfg.now().UnixMilli())
	case statusNeverCompleted: // destroyed meanwhile
	default:
		f.count.probesFailed.Add(1)
		if usable, _ := p.rail.condition(); usable || status == StatusFlushed {
			p.rail.doomPair(qp.number(), qp, unanswered)
		}
	}
}
