package segment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"mooncake/descriptor"
	"mooncake/internal/access"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
	"mooncake/rdma"
	"mooncake/tcp"
	"mooncake/wire"
)

// ErrStay is the cause to cancel Run's context with when the daemon is to come back: nothing is withdrawn, arena and
// state stay, and the next start takes the segment up again.
var ErrStay = errors.New("the segment stays")

// Daemon is one segment with everything that serves it.
type Daemon struct {
	cfg       Config
	log       *zap.Logger
	arena     *Arena
	state     *State
	clientID  wire.UUID
	segmentID wire.UUID
	// extents are the arena above and those that were added while the daemon ran.
	extents   extents
	listeners listeners
	// peerNetworks are those that may connect to the handshake port and the data port.
	peerNetworks access.Networks
	// published is the name in the descriptor: the endpoint without a metadata server, the segment's name with one.
	published string

	store     descriptor.Store
	handshake *descriptor.Server
	data      *tcp.Server
	peers     *peers
	rails     *rails // nil with tcp

	publishing sync.Mutex
	leader     *leader
	control    *link // pings and mounts
	tasks      *link // tasks, so that a slow answer to one of them delays no ping

	remountWanted chan struct{}
	taskQueue     chan wire.TaskAssignment
	tasksWait     chan struct{}                   // has one when the master says so, or when a task has ended
	attachments   atomic.Uint64                   // streams that a master has welcomed
	keeper        atomic.Pointer[grpc.ClientConn] // to a master that keeps sums of objects; nil: there is none
	drained       drainStatus
	memory        memory
	population    population
	resizer       resizer
	health        health
	count         counters
	times         callTimes
}

// Open takes everything the daemon needs: ports, arena, memory. What an earlier run left is taken up again when it fits.
// On an error everything is given back, and a first start leaves nothing behind.
func Open(ctx context.Context, cfg Config, log *zap.Logger) (*Daemon, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := cfg.Resolve(ctx); err != nil {
		return nil, err
	}
	d := &Daemon{
		cfg: cfg, log: log,
		remountWanted: make(chan struct{}, 1),
		taskQueue:     make(chan wire.TaskAssignment, limits.SegmentTaskQueue),
		tasksWait:     make(chan struct{}, 1),
		population:    population{grown: make(chan struct{}, 1)},
		resizer:       resizer{orders: make(chan resizeOrder, 1)},
	}
	if err := d.AllowPeers(cfg.PeerAllowFrom); err != nil {
		return nil, err
	}
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Daemon) open(ctx context.Context) (err error) {
	var cl *claim
	defer func() {
		if err == nil {
			return
		}
		d.listeners.close()
		if d.store != nil {
			_ = d.store.Close() // the start's own error is the one to tell
		}
		if d.leader != nil {
			_ = d.leader.close()
		}
		for i, x := range d.all() {
			if x.memory != nil {
				_ = x.memory.close()
			}
			if i > 0 {
				x.arena.abandon()
			}
		}
		_ = d.rails.close()
		if d.arena != nil {
			d.arena.abandon()
		} else if cl != nil {
			cl.abandon()
		}
	}()
	if err := d.listeners.listenFixed(&d.cfg); err != nil {
		return err
	}
	if err := d.checkRails(); err != nil {
		return err
	}
	if cl, err = claimArena(&d.cfg); err != nil {
		return err
	}
	for _, note := range cl.notes {
		d.log.Warn(note)
	}
	if err := d.listeners.listenRest(&d.cfg, cl); err != nil {
		return err
	}
	if err := d.listenAdmin(cl); err != nil {
		return err
	}
	if err := d.openArena(cl); err != nil {
		return err
	}
	if err := d.openRails(ctx); err != nil {
		return err
	}
	if err := d.openServices(); err != nil {
		return err
	}
	if err := d.leader.prove(ctx); err != nil {
		return err
	}
	if d.cfg.PortsFile != "" {
		return d.Ports().write(d.cfg.PortsFile)
	}
	return nil
}

// openArena checks that there is memory for the segment, maps it and puts its identity on file.
func (d *Daemon) openArena(cl *claim) (err error) {
	further, err := claimFurther(&d.cfg, cl)
	if err != nil {
		return err
	}
	defer func() {
		for _, other := range further {
			other.abandon()
		}
	}()
	if cl.state != nil {
		d.cfg.SegmentBytes = cl.state.Size
	}
	if err := d.checkRoom(cl, further); err != nil {
		return err
	}
	if d.arena, err = mapArena(cl, d.cfg.SegmentBytes, d.cfg.HugePages == "madvise"); err != nil {
		return err
	}
	d.heed(d.arena)
	if d.state = cl.state; d.state == nil {
		if d.state, err = d.newState(); err != nil {
			return err
		}
	} else {
		d.log.Info("taking up the segment of an earlier run", zap.String("segment", d.state.SegmentID), zap.Time("created", d.state.Created))
	}
	if d.clientID, err = wire.ParseUUID(d.state.ClientID); err != nil {
		return err
	}
	if d.segmentID, err = wire.ParseUUID(d.state.SegmentID); err != nil {
		return err
	}
	d.extents.add(&extent{arena: d.arena, state: d.state, id: d.segmentID})
	mapped := further
	further = nil // openFurther gives them back
	if err := d.openFurther(mapped); err != nil {
		return err
	}
	for _, x := range d.all() {
		// Devices pin all memory anyway, and where it lies decides which of them are near.
		if d.cfg.Populate == populateStart || d.cfg.Protocol == descriptor.ProtocolRDMA {
			if err := d.prefault(x); err != nil {
				return err
			}
		}
	}
	if cl.state == nil {
		return d.arena.seal(d.state)
	}
	return nil
}

// checkRoom refuses a segment that the host has no memory for, before a page of it is touched. What an earlier run filled is
// there already.
func (d *Daemon) checkRoom(cl *claim, further []*claim) error {
	need, err := cl.missingBytes(d.cfg.SegmentBytes)
	if err != nil {
		return err
	}
	whole := d.cfg.SegmentBytes
	for _, other := range further {
		missing, err := other.missingBytes(other.state.Size)
		if err != nil {
			return err
		}
		need, whole = need+missing, whole+other.state.Size
	}
	host, err := d.look()
	if err != nil {
		return err
	}
	what := segmentSize(whole)
	if err := host.check(what, need, d.cfg.ShmDir); err != nil {
		return err
	}
	if err := d.cfg.MemoryHigh.allows(what, &host, need); err != nil {
		return err
	}
	if d.cfg.Protocol != descriptor.ProtocolRDMA {
		return nil
	}
	if err := rdma.CheckUnmapped(d.cfg.fsRoot, whole, whole-need); err != nil {
		return fmt.Errorf("--protocol=rdma: %w", err)
	}
	return nil
}

// newState draws the identity of a new segment.
func (d *Daemon) newState() (*State, error) {
	client, err := wire.NewDaemonClientID()
	if err != nil {
		return nil, err
	}
	segment, err := wire.NewDaemonClientID()
	if err != nil {
		return nil, err
	}
	ports := d.listeners.ports()
	endpoint := hostport.Join(d.cfg.host(), ports.TE)
	name := d.cfg.SegmentName
	if name == "" {
		name = endpoint
	}
	if d.cfg.MetadataServer != P2P {
		endpoint = name // readers look the endpoint up as a key
	}
	return &State{
		Version: stateVersion, ClientID: client.String(), SegmentID: segment.String(),
		Base: newBase(d.cfg.SegmentBytes), Size: d.cfg.SegmentBytes, Name: name, Endpoint: endpoint,
		TEPort: ports.TE, DataPort: ports.Data, Protocol: d.cfg.Protocol, Master: d.cfg.pool(),
		Created: time.Now().UTC().Truncate(time.Second),
	}, nil
}

func (d *Daemon) openServices() error {
	store, err := descriptor.Open(d.cfg.MetadataServer, d.cfg.Etcd)
	if err != nil {
		return fmt.Errorf("--metadata_server: %w", err)
	}
	d.store = store
	d.published = d.state.Endpoint
	handshake := descriptor.ServerConfig{
		Describe: func(asker *descriptor.Segment) (*descriptor.Segment, error) { return d.describeTo(asker), nil },
		Log:      d.log.Named("handshake"),
		Admit:    d.admit,
	}
	if d.rails != nil {
		handshake.Connect = d.connect
	}
	d.handshake = descriptor.NewServer(handshake)
	if d.data, err = d.newDataServer(); err != nil {
		return err
	}
	d.peers = d.newPeers()
	if d.leader, err = newLeader(&d.cfg, d.log); err != nil {
		return fmt.Errorf("--master_server_address: %w", err)
	}
	d.control = &link{leader: d.leader, hasty: true, times: &d.times}
	d.tasks = &link{leader: d.leader, times: &d.times}
	return nil
}

// Ports are the ports in use.
func (d *Daemon) Ports() Ports { return d.listeners.ports() }

// State is the segment's identity. It does not change.
func (d *Daemon) State() State { return *d.state }

// Run serves, mounts and keeps the segment mounted until the context ends; then it has the segment drained if there is
// time for that, leaves the pool and removes the arena, or, when the context's cause is ErrStay, leaves everything as it is.
// A *LeftError means that copies were left on the segment, any other that a port of the daemon failed; the arena stays then.
func (d *Daemon) Run(ctx context.Context) error {
	ports := d.Ports()
	d.log.Info("serving", zap.String("endpoint", d.state.Endpoint), zap.Int("te_port", ports.TE), zap.Int("data_port", ports.Data),
		zap.Int("http_port", ports.HTTP), zap.String("arena", d.arena.Path()), zap.String("base", fmt.Sprintf("%#x", d.state.Base)))
	active, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	servers := d.serve(serving, func(err error) { stop(errors.Join(ErrStay, err)) })
	actors := d.act(active)
	changing, stopChanging := context.WithCancel(active)
	defer stopChanging()
	var changes errgroup.Group
	changes.Go(func() error { d.resizeWhenAsked(changing); return nil })
	var left error
	select {
	case <-active.Done():
	case <-ctx.Done():
		d.resizer.close()
		stopChanging()
		_ = changes.Wait() // from here on nobody takes back that a region leaves
		if d.cfg.DrainTimeout > 0 && !errors.Is(context.Cause(ctx), ErrStay) {
			left = d.drain(active)
		}
		stop(context.Cause(ctx))
	}
	_ = changes.Wait()
	_ = actors.Wait() // none of them returns an error
	stays := errors.Is(context.Cause(active), ErrStay)
	if !stays {
		d.leave()
	}
	if !stays && d.rails.busy() {
		// A device serves reads without a word to the processor: those that have begun get a moment to end.
		sleep(context.WithoutCancel(ctx), limits.SegmentLingerMs*time.Millisecond)
	}
	stopServing()
	return errors.Join(servers.Wait(), d.close(stays), left)
}

// serve has every port answered until the context ends. failed is told of one that fails before.
func (d *Daemon) serve(ctx context.Context, failed func(error)) *errgroup.Group {
	var servers errgroup.Group
	serve := func(name string, run func(context.Context) error) {
		servers.Go(func() error {
			err := run(ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				failed(err)
			}
			return err
		})
	}
	serve("handshake port", func(ctx context.Context) error { return d.handshake.Serve(ctx, d.listeners.handshake) })
	serve("data port", func(ctx context.Context) error { return d.data.Serve(ctx, d.listeners.data) })
	if d.listeners.http != nil {
		serve("http port", func(ctx context.Context) error { return serveHTTP(ctx, d.listeners.http, d.httpHandler()) })
	}
	if d.listeners.admin != nil {
		serve("admin socket", func(ctx context.Context) error { return serveHTTP(ctx, d.listeners.admin, d.adminHandler()) })
	}
	if d.rails != nil {
		serve("rdma", d.rails.fabric.run)
	}
	return &servers
}

// act starts what the daemon does by itself until the context ends.
func (d *Daemon) act(ctx context.Context) *errgroup.Group {
	var actors errgroup.Group
	act := func(run func(context.Context)) {
		actors.Go(func() error { run(ctx); return nil })
	}
	act(d.leader.follow)
	act(d.checkReachable)
	act(d.keepMounted)
	act(d.remountWhenAsked)
	act(d.fetchTasks)
	act(d.stayAttached)
	act(d.watchMemory)
	if d.cfg.Populate == populateBackground {
		act(d.populate)
	}
	if d.rails != nil {
		act(d.followRails)
	}
	for range d.cfg.TaskWorkers {
		act(d.workTasks)
	}
	return &actors
}

// leave takes the segment out of the pool, in the order in which it came, each step within a bound.
func (d *Daemon) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.LeaveTimeout)
	for _, x := range d.all() {
		if err := d.unmount(ctx, x); err != nil {
			d.log.Warn("not unmounted: the master drops the segment when its pings stay away", zap.Error(err))
			break
		}
		d.log.Info("segment unmounted", zap.String("segment", x.state.Name))
	}
	cancel()
	if descriptor.IsP2P(d.store) {
		return
	}
	ctx, cancel = context.WithTimeout(context.Background(), d.cfg.LeaveTimeout)
	defer cancel()
	if err := descriptor.Withdraw(ctx, d.store, d.published); err != nil {
		d.log.Warn("metadata keys not removed", zap.Error(err))
	}
}

// close gives back what open took, after everything that uses it has ended.
func (d *Daemon) close(stays bool) error {
	d.control.close()
	d.tasks.close()
	d.peers.close()
	var err error
	if stays {
		d.log.Info("leaving the segment for the next start", zap.String("arena", d.arena.Path()))
	}
	// Further ones go first: without the first one they would be nobody's. Memory goes before the devices: peers that still
	// want it are refused at once, which a queue pair that is gone does not tell them.
	for _, x := range slices.Backward(d.all()) {
		err = errors.Join(err, x.close(!stays))
	}
	return errors.Join(err, d.store.Close(), d.rails.close(), d.leader.close())
}

// unmount takes one extent out of the pool. One that is not there is fine.
func (d *Daemon) unmount(ctx context.Context, x *extent) error {
	_, err := call(ctx, d.control, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: x.id, ClientID: d.clientID})
	return err
}
