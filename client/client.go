package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/descriptor"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
	"mooncake/tcp"
)

// Config says how a client reaches its cluster. The zero value needs Masters only.
type Config struct {
	// Masters are the gRPC ports of the masters, host:port. One that leads is found among them.
	Masters []string
	// Metadata is where segments publish how they are reached, as for all clients of the cluster: P2PHANDSHAKE, which empty
	// means, http://host:port/metadata or etcd://host:port.
	Metadata string
	// Tenant is whose keys are meant; empty is the default one.
	Tenant string
	// Timeout bounds calls whose context has no deadline; 0 is a minute.
	Timeout time.Duration
	// WaitForRoom tries again when there is no room, until the deadline, instead of telling at once.
	WaitForRoom bool
	// Connections is how many connections to one segment a client has at most; 0 is the default of package tcp.
	Connections int
	// CongestionControl names how the kernel paces what this client writes, as cubic or bbr; empty leaves it to the kernel.
	CongestionControl string
	// TLS, when set, is how the masters are spoken to; nil speaks plainly.
	TLS credentials.TransportCredentials
	// Credentials, when set, go along with every call: an access token.
	Credentials credentials.PerRPCCredentials
	// GRPCOnly makes every call by gRPC. Without it short calls go in frames (package api/framed) on the same port, which costs a
	// fraction, where the master knows them; with TLS or Credentials they never do.
	GRPCOnly bool
}

// Client speaks to one cluster.
type Client struct {
	cfg      Config
	id       *mooncakev1.Uuid
	store    descriptor.Store
	resolver *descriptor.Resolver
	dialer   *tcp.Dialer
	calls    atomic.Uint64
	retries  atomic.Uint64

	framed atomic.Uint64

	mu     sync.Mutex
	roads  map[string]*road
	leader string // the one that is asked first
	next   int    // in Masters, when nobody is known to lead
	closed bool

	reports reports
}

// Stats counts what a client has done.
type Stats struct {
	MasterCalls uint64 // calls to masters, those that were repeated included
	Retries     uint64 // things that were tried again
	FramedCalls uint64 // those of MasterCalls that went in frames
}

// New makes a client. It connects when it is used.
func New(cfg Config) (*Client, error) {
	if len(cfg.Masters) == 0 {
		return nil, errors.New("no master is named")
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, limits.ClientTimeoutMs*time.Millisecond)
	options := tcp.DefaultOptions()
	options.RcvLowatBytes = limits.ClientRcvLowatBytes
	options.SndbufWholeBytes = limits.ClientSndbufWholeBytes
	options.CongestionControl = cfg.CongestionControl
	if err := options.Validate(); err != nil {
		return nil, err
	}
	store, err := descriptor.Open(cmp.Or(cfg.Metadata, "P2PHANDSHAKE"), etcdkv.Access{})
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", cfg.Metadata, err)
	}
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, store: store, resolver: descriptor.NewResolver(store, nil), roads: map[string]*road{},
		id:     &mooncakev1.Uuid{High: binary.LittleEndian.Uint64(b[:]), Low: binary.LittleEndian.Uint64(b[8:]) | 1},
		dialer: tcp.NewDialer(tcp.DialerConfig{Options: options, Lanes: cfg.Connections}),
	}, nil
}

// Close ends all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	roads := c.roads
	c.roads, c.closed = nil, true
	c.mu.Unlock()
	errs := []error{c.dialer.Close(), c.store.Close()}
	for _, r := range roads {
		if r.frames != nil {
			r.frames.close()
		}
		errs = append(errs, r.plain.Close())
	}
	return errors.Join(errs...)
}

// Stats returns the counts so far.
func (c *Client) Stats() Stats { return Stats{c.calls.Load(), c.retries.Load(), c.framed.Load()} }

// master gives the road to the master that is to be asked.
func (c *Client) master() (*road, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	address := cmp.Or(c.leader, c.cfg.Masters[c.next%len(c.cfg.Masters)])
	r := c.roads[address]
	switch {
	case c.closed:
		return nil, "", errors.New("the client is closed")
	case r != nil:
		return r, address, nil
	}
	transport := c.cfg.TLS
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(transport), grpc.WithNoProxy(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(limits.GRPCMessageBytes), grpc.MaxCallSendMsgSize(limits.GRPCMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: limits.PeerDialMs * time.Millisecond, Backoff: quick}),
	}
	if c.cfg.Credentials != nil {
		options = append(options, grpc.WithPerRPCCredentials(c.cfg.Credentials))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, options...)
	if err != nil {
		return nil, "", fmt.Errorf("master %s: %w", address, err)
	}
	r = &road{address: address, plain: conn, inFrame: &c.framed}
	if !c.cfg.GRPCOnly && c.cfg.TLS == nil && c.cfg.Credentials == nil {
		r.frames = &frames{address: address}
	}
	c.roads[address] = r
	return r, address, nil
}

// Connection gives a connection to the master that is asked at the moment, for services that this package does not wrap.
func (c *Client) Connection() (*grpc.ClientConn, error) {
	r, _, err := c.master()
	if err != nil {
		return nil, err
	}
	return r.plain, nil
}

// turn notes that a master does not lead, and who does, if that is known.
func (c *Client) turn(from, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from != cmp.Or(c.leader, c.cfg.Masters[c.next%len(c.cfg.Masters)]) {
		return // somebody else has turned already
	}
	if to == from {
		to = ""
	}
	if c.leader = to; to == "" {
		c.next++
	}
}

// bounded gives a context without a deadline one.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}
