package descriptor

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// Target is a resolved endpoint: what a transport needs to reach the memory behind it. It is shared between callers and
// must not be changed.
type Target struct {
	// Endpoint is what was looked up: the transport endpoint in a replica's description.
	Endpoint string
	// Segment is the holder's descriptor.
	Segment *Segment
	// DataHost is the host to dial for data over tcp.
	DataHost string
	// Handshake is host:port of the holder's handshake port, where RDMA connections are asked for. It is empty when a
	// descriptor for tcp made it unnecessary to look.
	Handshake string
}

// Resolver looks endpoints up, in the way the store prescribes, and remembers what it found.
type Resolver struct {
	store  Store
	client *Client

	mu    sync.Mutex
	known map[string]*Target
}

// NewResolver makes a resolver. The client is used in P2P mode; nil is one without a descriptor of its own.
func NewResolver(store Store, client *Client) *Resolver {
	if client == nil {
		client = &Client{}
	}
	return &Resolver{store: store, client: client, known: map[string]*Target{}}
}

// Lookup returns the target of an endpoint, from memory if it is known.
func (r *Resolver) Lookup(ctx context.Context, endpoint string) (*Target, error) {
	r.mu.Lock()
	target := r.known[endpoint]
	r.mu.Unlock()
	if target != nil {
		return target, nil
	}
	return r.Refresh(ctx, endpoint)
}

// Refresh asks for the endpoint again. Call it after a transfer failed: the holder may have come back with another data
// port. When nobody answers, what was known before is forgotten.
func (r *Resolver) Refresh(ctx context.Context, endpoint string) (*Target, error) {
	target, err := r.resolve(ctx, endpoint)
	if err != nil {
		r.Forget(endpoint)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.known[endpoint]; !known && len(r.known) >= limits.DescriptorCacheEntries {
		r.dropAny()
	}
	r.known[endpoint] = target
	return target, nil
}

// Forget drops what is known about an endpoint.
func (r *Resolver) Forget(endpoint string) {
	r.mu.Lock()
	delete(r.known, endpoint)
	r.mu.Unlock()
}

// dropAny makes room. Which entry goes does not matter: it is asked for again when needed.
func (r *Resolver) dropAny() {
	for endpoint := range r.known {
		delete(r.known, endpoint)
		return
	}
}

func (r *Resolver) resolve(ctx context.Context, endpoint string) (*Target, error) {
	if IsP2P(r.store) {
		return r.resolveP2P(ctx, endpoint)
	}
	text, err := r.store.Get(ctx, RAMKey(endpoint))
	if err != nil {
		return nil, fmt.Errorf("descriptor of %q: %w", endpoint, err)
	}
	segment, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("descriptor of %q: %w", endpoint, err)
	}
	target := &Target{Endpoint: endpoint, Segment: segment, DataHost: segment.TCPDataHost}
	if target.DataHost != "" && segment.Protocol != ProtocolRDMA {
		return target, nil
	}
	text, err = r.store.Get(ctx, RPCMetaKey(segment.Name))
	if err != nil {
		return nil, fmt.Errorf("location of %q: %w", segment.Name, err)
	}
	location, err := ParseLocation(text)
	if err != nil {
		return nil, fmt.Errorf("location of %q: %w", segment.Name, err)
	}
	target.DataHost = cmp.Or(target.DataHost, location.Host)
	target.Handshake = hostport.Join(location.Host, int(location.RPCPort))
	return target, nil
}

func (r *Resolver) resolveP2P(ctx context.Context, endpoint string) (*Target, error) {
	segment, err := r.client.Fetch(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	target := &Target{Endpoint: endpoint, Segment: segment, DataHost: segment.TCPDataHost, Handshake: endpoint}
	if target.DataHost == "" {
		host, _, err := hostport.Parse(endpoint, limits.HandshakePortDefault)
		if err != nil {
			return nil, err
		}
		target.DataHost = host
	}
	return target, nil
}
