package segment

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestP07NoResolver runs a daemon where every question to a resolver is a failure: numeric addresses need none.
func TestP07NoResolver(t *testing.T) {
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a resolver was asked")
		return nil, errors.New("no resolver here")
	}}
	m := newFakeMaster(t)
	d := run(t, daemonConfig(t, m))
	m.wait(t, "MountSegment")
	m.wait(t, "Ping")
	d.end(t, errors.New("leave"))
}
