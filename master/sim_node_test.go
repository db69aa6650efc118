package master

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"mooncake/internal/etcdsim"
	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/replication"
)

// node is a machine on which a master runs again and again.
type node struct {
	w      *world
	name   string
	dice   *rand.Rand
	bootAt int64
	rate   float64 // of its clock

	mu      sync.Mutex
	process *process // nil while none runs
}

// process is one life of a master: a real Member, and the real Service while it leads.
type process struct {
	n      *node
	link   *etcdsim.Link
	member *replication.Member
	server *Server
	dials  *rand.Rand
	leave  context.CancelFunc // SIGTERM
	ended  chan struct{}

	mu      sync.Mutex
	serving *serving
	guests  []net.Conn // of others' vigils
	gone    bool       // nobody listens any more
}

// serving is a term of a process: what a port is otherwise.
type serving struct {
	*port
	term  *replication.Term
	calls sync.WaitGroup
}

func (n *node) running() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// boot is CLOCK_BOOTTIME of the machine. A process that is stopped does not see it.
func (p *process) boot() int64 {
	p.link.Pause()
	return p.n.bootAt + int64(float64(time.Since(p.n.w.began))*p.n.rate)
}

func (n *node) config() Config {
	cfg := DefaultConfig()
	cfg.HA, cfg.LeaderTTL, cfg.ClusterID, cfg.RPCAddress = true, simTTL, "sim", n.name
	cfg.LeaseTTL, cfg.PutDiscard, cfg.PutRelease = simLease, 2*time.Second, 100*time.Second
	cfg.HighWatermark = 1
	if n.w.plan.async {
		cfg.HAAck = ackAsync
	}
	return cfg
}

// start begins a life.
func (n *node) start() {
	w := n.w
	cfg := n.config()
	log := w.log.Named(n.name)
	p := &process{n: n, link: w.store.Link(n.dice.Uint64()), dials: rand.New(rand.NewPCG(n.dice.Uint64(), 1)), ended: make(chan struct{})}
	rules := cfg.catalog()
	rules.Seed = n.dice.Uint64()
	var err error
	p.member, err = replication.OpenMember(replication.MemberConfig{
		Cluster: cfg.ClusterID, Address: n.name, TTL: cfg.LeaderTTL, Compact: true, Catalog: rules, Log: log,
		Store: p.link, Boot: p.boot, Dial: p.dial, SnapshotBytes: 16 << 10,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	p.server = &Server{cfg: cfg, log: log, cluster: &cluster{
		member: p.member, self: n.name, calls: metrics.NewCalls(),
		linger: limits.HandOverMs * time.Millisecond, successor: limits.SuccessorMs * time.Millisecond,
	}}
	turns, leave := context.WithCancel(context.Background())
	p.leave = leave
	n.mu.Lock()
	n.process = p
	n.mu.Unlock()
	go p.run(turns)
}

// run is Server.runCluster without ports.
func (p *process) run(turns context.Context) {
	defer close(p.ended)
	living, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = p.member.Follow(living) }) // they end without an error
	all.Go(func() { _ = p.member.KeepVigil(living) })
	for {
		term, past, err := p.member.Lead(turns)
		if err != nil {
			break
		}
		err = p.lead(turns, term, past)
		p.member.Ended(term)
		past.Catalog.Close()
		p.n.w.note("%s leads no more: %v", p.n.name, err)
		if turns.Err() != nil {
			if !p.link.Dead() {
				p.server.handOver(term)
			}
			break
		}
	}
	end()
	all.Wait()
	p.vanish()
	p.n.mu.Lock()
	p.n.process = nil
	p.n.mu.Unlock()
	_ = p.member.Close() // nothing is open
}

// lead is Server.lead without ports.
func (p *process) lead(ctx context.Context, term *replication.Term, past *replication.History) error {
	service, err := serviceOf(p.server.cfg, p.server.log, p.server.cluster.calls, term, past)
	if err != nil {
		return err
	}
	service.suspicion.ask = func(context.Context, string) error { return nil }
	plan := &p.n.w.plan
	if plan.unbound {
		service.history.term = nil
	}
	if plan.visible {
		service.cat.Settled(math.MaxUint64)
	}
	turn := &Server{cfg: p.server.cfg, log: p.server.log, page: newLivePage()}
	turn.use(service)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(limits.LogFlushMs * time.Millisecond):
			term.Abandon()
		case <-term.Deposed():
		}
	})()
	return turn.serve(ctx, nil, func(ctx context.Context, group *errgroup.Group) {
		s := &serving{port: &port{Service: service, fixed: family13}, term: term}
		p.mu.Lock()
		p.serving = s
		p.mu.Unlock()
		group.Go(func() error {
			<-ctx.Done()
			p.mu.Lock()
			p.serving = nil
			p.mu.Unlock()
			s.calls.Wait()
			return nil
		})
		group.Go(func() error {
			select {
			case <-term.Deposed():
				return replication.ErrDeposed
			case <-ctx.Done():
				return nil
			}
		})
	})
}

// enter begins a call; nil when this process does not lead. The call ends with calls.Done.
func (p *process) enter() *serving {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.serving != nil {
		p.serving.calls.Add(1)
	}
	return p.serving
}

// kill ends a life at once.
func (p *process) kill() {
	p.link.Kill()
	p.vanish()
	p.leave()
}

// vanish closes whatever others are connected with.
func (p *process) vanish() {
	p.mu.Lock()
	p.gone = true
	p.mu.Unlock()
	p.hangUp()
}

// hangUp ends the connections of others' vigils.
func (p *process) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.guests {
		_ = c.Close() // the other end learns of it
	}
	p.guests = nil
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// dial connects with another node's call port, for a vigil. A stopped process still accepts: its kernel does.
func (p *process) dial(ctx context.Context, address string) (net.Conn, error) {
	p.link.Pause()
	select {
	case <-time.After(time.Duration(p.dials.Int64N(int64(time.Millisecond)))):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.link.Dead() {
		return nil, errors.New("dead")
	}
	n := p.n.w.node(address)
	if n == nil {
		return nil, errRefused
	}
	other := n.running()
	if other == nil || p.n.w.plan.rash && other.link.Frozen() {
		return nil, errRefused
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.gone {
		return nil, errRefused
	}
	mine, its := net.Pipe()
	other.guests = append(other.guests, its)
	return mine, nil
}
