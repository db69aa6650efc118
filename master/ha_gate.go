package master

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/replication"
)

// gate takes the connections of one call port for as long as the process lives. While this master leads they go to its
// server; else their bytes are passed on to whoever does, and wait a while when nobody does. So a client that knows this
// address only, or still, is served at once.
type gate struct {
	ln    *net.TCPListener
	self  string // what the leader's key has when this master leads
	fixed family // of whoever connects here; familyUnknown: to be found out
	// welcome tells who may come in.
	welcome func(addr netip.Addr) bool
	follow  func() (view replication.View, changed <-chan struct{})
	secret  func(ctx context.Context, view replication.View) (replication.Secret, error) // that the leader knows members by
	forget  func(view replication.View)                                                  // the secret is not right
	log     *zap.Logger
	ctx     context.Context // ends the gate
	guests  sync.WaitGroup
	mute    atomic.Int64  // term whose leader was told of guests in vain, which is logged once
	slots   chan struct{} // bounds the connections that wait or are passed on

	mu     sync.Mutex
	inside *inlet        // nil while this master does not lead
	opened chan struct{} // closed, and made anew, when inside changes
}

// inlet is a listener whose connections come from somebody who has accepted them already.
type inlet struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newInlet(addr net.Addr) *inlet {
	return &inlet{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (i *inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

func (i *inlet) Close() error {
	i.once.Do(func() { close(i.done) })
	return nil
}

func (i *inlet) Addr() net.Addr { return i.addr }

func newGate(ctx context.Context, p callPort, self string, m *replication.Member, log *zap.Logger) (*gate, error) {
	tcp, ok := p.Listener.(*net.TCPListener)
	if !ok {
		return nil, errors.New("a call port that is no TCP port")
	}
	return &gate{
		ln: tcp, self: self, fixed: p.fixed, welcome: func(netip.Addr) bool { return true }, follow: m.View, secret: m.SecretOf, forget: m.ForgetSecret, log: log, ctx: ctx,
		slots: make(chan struct{}, limits.GateConns), opened: make(chan struct{}),
	}, nil
}

// run takes connections until the gate's context ends, and returns when none is left.
func (g *gate) run() error {
	defer g.guests.Wait()
	defer context.AfterFunc(g.ctx, func() { _ = g.ln.Close() })() // whoever accepts learns of it
	for {
		c, err := g.ln.AcceptTCP()
		switch {
		case err == nil && !g.welcome(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()):
			_ = c.Close() // before a byte of it is read
		case err == nil:
			g.admit(c, nil, g.hostOf(c))
		case g.ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			g.log.Warn("a connection could not be taken", zap.Error(err))
			select {
			case <-time.After(limits.RPCAcceptPauseMaxMs * time.Millisecond):
			case <-g.ctx.Done():
			}
		}
	}
}

// open leads connections to a server of this master until the inlet is closed.
func (g *gate) open() net.Listener {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside = newInlet(g.ln.Addr())
	close(g.opened)
	g.opened = make(chan struct{})
	return g.inside
}

// shut sends connections elsewhere from now on.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside != nil {
		_ = g.inside.Close() // it never fails
		g.inside = nil
	}
}

func (g *gate) inlet() (in *inlet, opened <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside, g.opened
}

// admit places a connection, of which rest was read already, and behind which is who.
func (g *gate) admit(c *net.TCPConn, rest []byte, who guest) {
	if in, _ := g.inlet(); in != nil && len(rest) == 0 {
		select {
		case in.conns <- c:
			return
		case <-in.done:
		case <-g.ctx.Done():
		}
	}
	select {
	case g.slots <- struct{}{}:
		g.guests.Go(func() {
			g.host(c, rest, &who)
			<-g.slots
		})
	default:
		_ = c.Close() // too many wait already
	}
}

// host passes a connection on as soon as somebody leads, and closes it when nobody does for too long.
func (g *gate) host(c *net.TCPConn, rest []byte, who *guest) {
	defer context.AfterFunc(g.ctx, func() { _ = c.Close() })() // it is closed once more below
	limit := time.NewTimer(limits.GateHoldMs * time.Millisecond)
	defer limit.Stop()
	retry := time.NewTicker(limits.GateRetryMs * time.Millisecond)
	defer retry.Stop()
	for {
		in, opened := g.inlet()
		if in != nil && len(rest) == 0 {
			select {
			case in.conns <- c:
				return
			case <-in.done:
			case <-g.ctx.Done():
			}
		}
		view, changed := g.follow()
		if view.Address != "" && view.Address != g.self && g.pass(c, rest, who, view, changed) {
			return
		}
		select {
		case <-changed:
		case <-opened:
		case <-retry.C:
		case <-limit.C:
			_ = c.Close() // nobody serves it
			return
		case <-g.ctx.Done():
			_ = c.Close()
			return
		}
	}
}

// pass connects a client with the leader and carries bytes both ways until either ends, or another leads. It is false when
// the leader cannot be reached; the client's connection is as before then.
func (g *gate) pass(c *net.TCPConn, rest []byte, who *guest, view replication.View, changed <-chan struct{}) bool {
	leader, err := g.reach(view, who)
	if err != nil {
		return false
	}
	closeBoth := sync.OnceFunc(func() {
		_ = c.Close() // whoever carries bytes learns of it
		_ = leader.Close()
	})
	defer context.AfterFunc(g.ctx, closeBoth)()
	over := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { // calls in flight may still be answered; who answers later does not lead
		select {
		case <-over:
			return
		case <-changed:
		}
		grace := time.NewTimer(limits.GateGraceMs * time.Millisecond)
		defer grace.Stop()
		select {
		case <-over:
		case <-grace.C:
			closeBoth()
		}
	})
	others.Go(func() {
		_, err := leader.Write(rest)
		if err == nil {
			_, err = io.Copy(leader, c)
		}
		if err != nil || leader.CloseWrite() != nil {
			closeBoth()
		}
	})
	_, _ = io.Copy(c, leader) // the end of it is the end of both, whatever the reason
	closeBoth()
	close(over)
	others.Wait()
	return true
}
