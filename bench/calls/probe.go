package calls

import (
	"context"
	"sync"
	"time"

	"mooncake/bench/figures"
	"mooncake/wire"
)

// probeEvery is how often a probe asks.
const probeEvery = time.Millisecond

// Probed is what a connection saw that asked for a key all the time.
type Probed struct {
	Times figures.Histogram
	Gap   time.Duration // the longest time between two answers
}

// prober asks until it is ended.
type prober struct {
	over  chan struct{}
	ended chan struct{}
	close sync.Once
	seen  Probed
	err   error
}

// probe begins to ask.
func (s *Session) probe(ctx context.Context) (*prober, error) {
	c, err := dial(ctx, s.cfg.Address)
	if err != nil {
		return nil, err
	}
	p := &prober{over: make(chan struct{}), ended: make(chan struct{})}
	go func() { // end waits for it
		defer close(p.ended)
		defer c.close()
		p.err = p.run(c)
	}()
	return p, nil
}

func (p *prober) run(c *conn) error {
	req := wire.ExistKeyRequest{Key: "probe/none", TenantID: tenant}
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := time.Now()
	for {
		select {
		case <-p.over:
			return nil
		case <-timer.C:
		}
		began := time.Now()
		if _, err := exchange(c, &wire.ExistKey, &req); err != nil {
			return err
		}
		now := time.Now()
		p.seen.Times.Add(now.Sub(began))
		p.seen.Gap = max(p.seen.Gap, now.Sub(last))
		last = now
		timer.Reset(max(0, probeEvery-now.Sub(began)))
	}
}

// end stops asking and tells what was seen.
func (p *prober) end() (*Probed, error) {
	p.close.Do(func() { close(p.over) })
	<-p.ended
	return &p.seen, p.err
}
