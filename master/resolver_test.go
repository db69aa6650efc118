package master

import (
	"context"
	"errors"
	"net"
	"testing"

	"mooncake/wire"
)

// TestP07NoResolver starts a master and serves a client where every question to a resolver is a failure: numeric addresses need
// none.
func TestP07NoResolver(t *testing.T) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a resolver was asked")
		return nil, errors.New("no resolver here")
	}}
	b := newBed(t, func(c *Config) { c.MetadataServer, c.RPCPortV12 = true, 0 })
	p := b.client(wire.V13)
	p.mount("127.0.0.1:17001", 1<<44, 64*mib)
	p.put("k", mib)
	b.stop()
}
