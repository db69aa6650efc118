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

// ErrNotBuilt is what OpenFabric says in a build without libibverbs.
var ErrNotBuilt = errors.New("built without RDMA (needs cgo, libibverbs, and no build tag nordma)")

// ErrClosed is what a closed fabric answers.
var ErrClosed = errors.New("the RDMA fabric is closed")

// Config says on which ports a process is reached, and how much it puts up with. Zero means the default everywhere.
type Config struct {
	// Rails are the chosen ports, in the order in which the descriptor lists their devices.
	Rails []Verdict
	// MTU bounds the path MTU in bytes; the port's own bounds it too. Default and largest is 4096.
	MTU int
	// TrafficClass and ServiceLevel are how our packets are treated on their way: answers to peers as well, so the data that
	// they read. Default is 0.
	TrafficClass, ServiceLevel int
	// QPsPerPeerMax bounds the queue pairs of one peer process, over all its devices and ours; QPsMax those of all peers.
	// Defaults are limits.RDMAQPsPerPeer and limits.RDMAQPs.
	QPsPerPeerMax, QPsMax int
	// Retry is how often a packet without an answer is sent again, at most limits.RDMARetries; Timeout how long an answer
	// is awaited, 4.096 us * 2^Timeout. Defaults are limits.RDMARetries and limits.RDMATimeout.
	Retry, Timeout int
	// ProbeEvery is how often every connected peer is asked whether it is there. 0 means limits.RDMAProbeMs.
	ProbeEvery time.Duration
	// PartBytes is how much memory is registered at a time. 0 means limits.RDMAPartBytes.
	PartBytes uint64
	// PeerGID finds the address of a peer that did not send it: by its server name and device, from its descriptor. It
	// bounds its own time. Nil refuses such peers.
	PeerGID func(server, device string) (descriptor.Device, error)
	// Rechoose is asked for the port to use when the address of a rail has changed: its place in the GID table may be
	// another then. Nil keeps the place.
	Rechoose func(device string) (Verdict, error)
	// Log hears of peers that come and go and of ports that change. Nil is silence.
	Log *zap.Logger

	verbs layer            // nil: libibverbs
	now   func() time.Time // nil: time.Now
}

// fill puts defaults where nothing is set and refuses what makes no sense.
func (c *Config) fill() error {
	c.MTU = cmp.Or(c.MTU, limits.RDMAMTUBytes)
	c.QPsPerPeerMax = cmp.Or(c.QPsPerPeerMax, limits.RDMAQPsPerPeer)
	c.QPsMax = cmp.Or(c.QPsMax, limits.RDMAQPs)
	c.Retry = cmp.Or(c.Retry, limits.RDMARetries)
	c.Timeout = cmp.Or(c.Timeout, limits.RDMATimeout)
	c.ProbeEvery = cmp.Or(c.ProbeEvery, limits.RDMAProbeMs*time.Millisecond)
	c.PartBytes = cmp.Or(c.PartBytes, limits.RDMAPartBytes)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.now == nil {
		c.now = time.Now
	}
	switch {
	case len(c.Rails) == 0:
		return errors.New("no RDMA device is chosen")
	case len(c.Rails) > limits.RDMARails:
		return fmt.Errorf("%d RDMA devices are chosen, at most %d can be used", len(c.Rails), limits.RDMARails)
	case c.MTU < 256 || c.MTU > limits.RDMAMTUBytes || c.MTU&(c.MTU-1) != 0:
		return fmt.Errorf("path MTU %d is not one of 256, 512, 1024, 2048, 4096", c.MTU)
	case c.TrafficClass < 0 || c.TrafficClass > limits.RDMATrafficClassMax:
		return fmt.Errorf("traffic class %d is not from 0 to %d", c.TrafficClass, limits.RDMATrafficClassMax)
	case c.ServiceLevel < 0 || c.ServiceLevel > limits.RDMAServiceLevelMax:
		return fmt.Errorf("service level %d is not from 0 to %d", c.ServiceLevel, limits.RDMAServiceLevelMax)
	case c.QPsPerPeerMax < 1 || c.QPsMax < c.QPsPerPeerMax:
		return fmt.Errorf("limits of %d queue pairs for each peer and %d in all make no sense", c.QPsPerPeerMax, c.QPsMax)
	case c.Retry < 1 || c.Retry > limits.RDMARetries:
		return fmt.Errorf("retry count %d is not from 1 to %d", c.Retry, limits.RDMARetries)
	case c.Timeout < 1 || c.Timeout > limits.RDMATimeoutMax:
		return fmt.Errorf("timeout exponent %d is not from 1 to %d", c.Timeout, limits.RDMATimeoutMax)
	case c.ProbeEvery < 0:
		return fmt.Errorf("probe interval %v is negative", c.ProbeEvery)
	case c.PartBytes < limits.RDMAPartBytesMin || c.PartBytes%limits.RDMAPartBytesMin != 0:
		return fmt.Errorf("parts of %d bytes are not a multiple of %d", c.PartBytes, limits.RDMAPartBytesMin)
	}
	seen := map[string]bool{}
	for _, v := range c.Rails {
		if v.GIDIndex < 0 || v.GIDIndex > limits.RDMAGIDIndexMax {
			return fmt.Errorf("GID index %d of device %s is not from 0 to %d", v.GIDIndex, v.Device, limits.RDMAGIDIndexMax)
		}
		if seen[v.Device] {
			return fmt.Errorf("device %s is chosen twice: peers name devices, not ports", v.Device)
		}
		seen[v.Device] = true
	}
	return nil
}

// Fabric is one process's part in RDMA: the devices it is reached by, the memory it has registered, the peers that are
// connected to it and the peers that it is connected to.
type Fabric struct {
	cfg     Config
	rails   []*rail
	changed chan struct{} // holds one
	kicked  chan struct{} // holds one: Run has something to clear away
	count   counters

	mu        sync.Mutex
	closed    bool
	peers     map[peerKey]*peer
	perServer map[string]int // queue pairs by the server name of the peer
	qps       int            // queue pairs of all peers
	regions   []*Region
	bounce    *bounceBuffers

	bounceOnce sync.Mutex // while the bounce buffers are made
	routes     routeTable
}

type counters struct {
	accepted, repeated, restarted, readied atomic.Uint64
	refused                                [refusalClasses]atomic.Uint64
	probesAnswered, probesFailed           atomic.Uint64
	reaped                                 [reasons]atomic.Uint64
	copyRetries, copyFailures              atomic.Uint64
}

// OpenFabric opens the chosen devices. What it returns is ready for Register and Accept; Run has to be running from then on.
func OpenFabric(cfg Config) (*Fabric, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	verbs := cfg.verbs
	if verbs == nil {
		var err error
		if verbs, err = library(); err != nil {
			return nil, err
		}
	}
	f := &Fabric{
		cfg: cfg, changed: make(chan struct{}, 1), kicked: make(chan struct{}, 1),
		peers: map[peerKey]*peer{}, perServer: map[string]int{},
	}
	f.routes.open, f.routes.paused = map[routeKey]*route{}, map[routeKey]time.Time{}
	for _, v := range cfg.Rails {
		r, err := openRail(f, verbs, v)
		if err != nil {
			_ = f.Close() // the first error is the one to tell
			return nil, err
		}
		f.rails = append(f.rails, r)
	}
	return f, nil
}

// Changed yields a value when the devices are not what they were: the descriptor has to be published anew.
func (f *Fabric) Changed() <-chan struct{} { return f.changed }

func (f *Fabric) tellChanged() { nudge(f.changed) }

// nudge leaves a sign in a channel that holds one.
func nudge(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// listed are the rails that the descriptor names: those that carry traffic. While none does, all that still exist stay
// listed: peers cannot hold a descriptor without devices, and one that fails them until a port is back is the lesser evil.
func (f *Fabric) listed() []*rail {
	var working, there []*rail
	for _, r := range f.rails {
		switch usable, gone := r.condition(); {
		case gone:
		case usable:
			working = append(working, r)
			fallthrough
		default:
			there = append(there, r)
		}
	}
	if len(working) > 0 {
		return working
	}
	return there
}

// Devices are the devices as the descriptor lists them, in the order of the keys that Describe gives.
func (f *Fabric) Devices() []descriptor.Device {
	var out []descriptor.Device
	for _, r := range f.listed() {
		out = append(out, r.describe())
	}
	return out
}

func (f *Fabric) rail(device string) *rail {
	for _, r := range f.rails {
		if r.name == device {
			return r
		}
	}
	return nil
}

// Run keeps watch until the context ends: over peers that vanish and over devices that do. Peers connect meanwhile by
// Accept, with or without it.
func (f *Fabric) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	watch.Go(func() { f.probeUntil(ctx) })
	watch.Go(func() { f.clearUntil(ctx) })
	watch.Wait()
	return nil
}

// clearUntil removes what was found to be dead.
func (f *Fabric) clearUntil(ctx context.Context) {
	tick := time.NewTicker(f.cfg.ProbeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.kicked:
		case <-tick.C: // a device that vanishes does not always say so
			for _, r := range f.rails {
				r.refresh()
			}
			f.expire()
		}
		f.clear()
	}
}

// clear reaps the peers that are known to be dead and closes the devices that are gone.
func (f *Fabric) clear() {
	for _, p := range f.snapshot() {
		if why := p.doomed.Load(); why != alive {
			f.reap(p, why)
		}
	}
	for _, r := range f.rails {
		if _, gone := r.condition(); gone {
			f.abandonRail(r)
		}
	}
}

// abandonRail gives back all that is held of a device that is gone.
func (f *Fabric) abandonRail(r *rail) {
	r.settle()
	for _, p := range f.snapshot() {
		if p.key.device == r.name {
			f.reap(p, deviceGone)
		}
	}
	f.dropRoutes(r)
	for _, region := range f.allRegions() {
		_ = region.leave(r) // the device is gone, and so is what it had
	}
	if err := r.close(); err != nil {
		f.cfg.Log.Warn("RDMA device was gone and could not be closed cleanly", zap.String("device", r.name), zap.Error(err))
	}
}

func (f *Fabric) allRegions() []*Region {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.regions)
}

// Close disconnects everybody, deregisters everything and closes the devices. Run must have returned, and no Read or Write
// be under way.
func (f *Fabric) Close() error {
	f.mu.Lock()
	already := f.closed
	f.closed = true
	f.mu.Unlock()
	if already {
		return nil
	}
	for _, p := range f.snapshot() {
		f.reap(p, closing)
	}
	f.dropRoutes(nil)
	var errs []error
	for _, region := range f.allRegions() {
		errs = append(errs, region.Close())
	}
	if f.bounce != nil {
		errs = append(errs, f.bounce.unmap())
	}
	for _, r := range f.rails {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
