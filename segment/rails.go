package segment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
	"mooncake/internal/limits"
	"mooncake/rdma"
)

// What a daemon does while none of its devices carries traffic.
const (
	railsDownSilent = "silent"
	railsDownPing   = "ping"
)

// The states of a device that have no name of their own in the port's states.
const (
	railUp   = "up"
	railGone = "gone"
)

// rails are the RDMA devices of a daemon; the extents have their memory registered on them.
type rails struct {
	fabric fabric
	// location is where the arena lies, in the words of the priority matrix.
	location string

	mu sync.Mutex
	// seen is the state last seen and told of each device, downSince when the last of them went down, zero while one is up.
	seen      map[string]string
	downSince time.Time
}

// CheckDevices decides as a start would which RDMA devices are used and returns the table of verdicts, also with an
// error. With tcp there is nothing to decide. It opens no device, and knows nothing yet of where the arena will lie.
func (c *Config) CheckDevices() (table string, err error) {
	if c.Protocol != descriptor.ProtocolRDMA {
		return "", nil
	}
	choice, err := c.chooseRails(-1)
	if err == nil {
		_, err = c.paths()
	}
	return choice.Table(), err
}

// chooseRails decides which devices serve memory on a NUMA node; -1 is an unknown one.
func (c *Config) chooseRails(numa int) (rdma.Choice, error) {
	wish, err := rdma.ParseWish(c.DeviceNames, c.getenv)
	if err != nil {
		return rdma.Choice{}, fmt.Errorf("--protocol=rdma: %w", err)
	}
	devices, err := rdma.Scan(c.fsRoot)
	if err != nil {
		return rdma.Choice{}, fmt.Errorf("--protocol=rdma: %w", err)
	}
	wish.NUMA = numa
	choice, err := rdma.Choose(devices, wish)
	if err != nil {
		err = fmt.Errorf("--protocol=rdma: %w", err)
	}
	return choice, err
}

// paths is what the environment says of the paths to peers: the MTU, 0 when MC_MTU is not set, and the classes of our packets.
// Each side takes what its own port allows for an MTU and tells the other nothing, so clients and daemons of one network need
// the same.
func (c *Config) paths() (p rdma.Config, err error) {
	if text := c.getenv("MC_MTU"); text != "" {
		if p.MTU, err = strconv.Atoi(text); err != nil || !slices.Contains([]int{512, 1024, 2048, 4096}, p.MTU) {
			return rdma.Config{}, fmt.Errorf("MC_MTU=%q: want 512, 1024, 2048 or 4096", text)
		}
	}
	p.TrafficClass, p.ServiceLevel, err = rdma.ParseClasses(c.getenv)
	return p, err
}

// checkRails refuses a start that would find no device, before any memory is taken for it. Nothing falls back to tcp: a
// segment that is slower than ordered would be noticed by nobody.
func (d *Daemon) checkRails() error {
	if d.cfg.Protocol != descriptor.ProtocolRDMA {
		return nil
	}
	if _, err := d.cfg.paths(); err != nil {
		return err
	}
	choice, err := d.cfg.chooseRails(-1)
	if err != nil {
		d.logTable(choice)
	}
	return err
}

func (d *Daemon) logTable(choice rdma.Choice) {
	for line := range strings.Lines(choice.Table()) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			d.log.Info(line)
		}
	}
}

// openRails opens the devices nearest to the arena and registers it with them.
func (d *Daemon) openRails(ctx context.Context) error {
	if d.cfg.Protocol != descriptor.ProtocolRDMA {
		return nil
	}
	node := rdma.ArenaNUMA(d.arena.Bytes())
	choice, err := d.cfg.chooseRails(node)
	d.logTable(choice)
	if err != nil {
		return err
	}
	chosen := choice.Chosen()
	for _, x := range d.all() {
		if err := rdma.CheckPinning(d.cfg.fsRoot, x.arena.Bytes(), len(chosen)); err != nil {
			return fmt.Errorf("--protocol=rdma: %w", err)
		}
	}
	cfg, err := d.cfg.paths()
	if err != nil {
		return err
	}
	cfg.Rails, cfg.Log, cfg.PeerGID, cfg.Rechoose = chosen, d.log.Named("rdma"), d.peerGID, d.rechoose
	f, err := d.cfg.openFabric(cfg)
	if err != nil {
		return fmt.Errorf("--protocol=rdma: %w", err)
	}
	began := time.Now()
	d.rails = &rails{fabric: f, location: fmt.Sprintf("cpu:%d", max(node, 0)), seen: map[string]string{}}
	for _, x := range d.all() {
		if err := d.registerExtent(ctx, x); err != nil {
			return err
		}
	}
	d.log.Info("memory is registered", zap.Uint64("bytes", d.total()), zap.Int("devices", len(chosen)), zap.Duration("took", time.Since(began)))
	d.lookAtRails(time.Now())
	return nil
}

// registering tells how far registration is, a bounded number of times: terabytes take minutes.
func (d *Daemon) registering() func(done, total uint64) {
	var mu sync.Mutex
	told := uint64(0)
	return func(done, total uint64) {
		if total == 0 || done >= total {
			return // the end is told by the caller
		}
		mu.Lock()
		defer mu.Unlock()
		const steps = limits.SegmentRegisterLines
		if step := done / max(1, total/steps); step > told {
			told = step
			d.log.Info("registering memory", zap.Uint64("done_bytes", done), zap.Uint64("of_bytes", total))
		}
	}
}

// busy reports whether any peer is connected.
func (r *rails) busy() bool { return r != nil && len(r.fabric.stats().peers) > 0 }

// close gives the devices back, after the fabric's run has ended and no memory is registered any more.
func (r *rails) close() error {
	if r == nil {
		return nil
	}
	return r.fabric.close()
}

// describeRDMA is the descriptor for peers that speak RDMA. The matrix has one location, so that the order in which
// peers number the devices cannot be another one than ours.
func (d *Daemon) describeRDMA() *descriptor.Segment {
	devices, buffers := d.registered()
	names := make([]string, len(devices))
	for i := range devices {
		names[i] = devices[i].Name
	}
	return &descriptor.Segment{
		Buffers: buffers, Devices: devices,
		Name:            d.published,
		PriorityMatrix:  map[string]descriptor.NICPreference{d.rails.location: {names, {}}},
		Protocol:        descriptor.ProtocolRDMA,
		TCPProtoVersion: descriptor.TCPUnacknowledged,
		Timestamp:       descriptor.Stamp(time.Now()),
	}
}

// registered are the devices and the ranges registered with them. A range that was read of other devices, because a port came
// or went meanwhile, is left out: its keys would be taken for those of other devices. What changed is published again.
func (d *Daemon) registered() (devices []descriptor.Device, buffers []descriptor.Buffer) {
	for i, x := range d.all() {
		on, ranges := x.memory.publish()
		if i == 0 {
			devices = on
		} else if !slices.Equal(devices, on) {
			continue
		}
		for _, b := range ranges {
			b.Name = d.rails.location
			buffers = append(buffers, b)
		}
	}
	return devices, buffers
}

// peerGID finds the address of a peer that did not send it, in the peer's own descriptor.
func (d *Daemon) peerGID(server, device string) (descriptor.Device, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.SegmentPeerGIDMs*time.Millisecond)
	defer cancel()
	target, err := d.peers.asRDMA.Refresh(ctx, server)
	if err != nil {
		return descriptor.Device{}, err
	}
	for _, there := range target.Segment.Devices {
		if there.Name == device {
			return there, nil
		}
	}
	return descriptor.Device{}, fmt.Errorf("%s has no device %s", server, device)
}

// rechoose looks at one device again after its addresses have changed.
func (d *Daemon) rechoose(device string) (rdma.Verdict, error) {
	c := d.cfg
	c.DeviceNames = device
	choice, err := c.chooseRails(-1)
	if err != nil {
		return rdma.Verdict{}, err
	}
	return choice.Chosen()[0], nil
}

// followRails keeps what others know of the devices true: the log, /health, and with a metadata server the published
// descriptor. Peers that ask the daemon itself get the present state anyway.
func (d *Daemon) followRails(ctx context.Context) {
	var again <-chan time.Time
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.rails.fabric.changed():
			d.lookAtRails(time.Now())
		case <-again:
		}
		again = nil
		err := d.publish(ctx)
		switch {
		case err == nil:
			said = ""
		case ctx.Err() == nil:
			again = time.After(limits.SegmentBackoffMaxMs * time.Millisecond)
			if text := err.Error(); text != said {
				said = text
				d.log.Warn("the changed descriptor is not published yet, trying on", zap.Error(err))
			}
		}
	}
}

// lookAtRails notes which devices carry traffic and tells what is new.
func (d *Daemon) lookAtRails(now time.Time) {
	r := d.rails
	r.mu.Lock()
	defer r.mu.Unlock()
	states, up := map[string]string{}, 0
	for _, rail := range r.fabric.stats().rails {
		if states[rail.device] = rail.state; rail.up {
			states[rail.device] = railUp
			up++
		}
	}
	for device := range r.seen {
		if _, there := states[device]; !there {
			states[device] = railGone // it still counts: the daemon was told to serve on it
		}
	}
	for _, device := range slices.Sorted(maps.Keys(states)) {
		if states[device] == r.seen[device] {
			continue
		}
		told := d.log.Warn
		if states[device] == railUp {
			told = d.log.Info
		}
		told("RDMA device", zap.String("device", device), zap.String("state", states[device]))
	}
	r.seen = states
	switch {
	case up > 0:
		r.downSince = time.Time{}
	case r.downSince.IsZero():
		r.downSince = now
		d.log.Warn("no RDMA device carries traffic: peers that speak RDMA cannot reach the segment", zap.String("rails_down", d.cfg.RailsDown))
	}
	d.health.rails(up, len(states))
}

// silenced reports whether pings are withheld, because nothing that the master would send here over RDMA can arrive. A
// moment's loss of the link is waited out.
func (d *Daemon) silenced(now time.Time) bool {
	if d.rails == nil || d.cfg.RailsDown != railsDownSilent {
		return false
	}
	d.rails.mu.Lock()
	defer d.rails.mu.Unlock()
	return !d.rails.downSince.IsZero() && now.Sub(d.rails.downSince) >= limits.SegmentRailsDownMs*time.Millisecond
}
