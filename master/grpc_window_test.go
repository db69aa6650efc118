package master

import (
	"fmt"
	"testing"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/wire"
)

// TestBundleWaitsOnce writes a bundle while etcd takes nothing: to begin it waits for nothing, since a window is open. To
// commit it waits, once for all of its members, until etcd has it.
func TestBundleWaitsOnce(t *testing.T) {
	etcd := startEtcd(t)
	m := newMember(t, etcd)
	m.awaitState("serving")
	p := m.client(wire.V13)
	p.mount("pool", 1<<44, 1<<34)
	c, ctx := m.grpc(), soon(t)
	members := []*mooncakev1.NewMember{{Name: "meta", Size: 100}, {Name: "buffer/tokens", Size: 4096}, {Name: "manifest", Size: 500}}
	begin := func(n int) (id string) {
		t.Helper()
		id = fmt.Sprintf("rollout/default/%032x", n)
		got[*mooncakev1.BeginReply](t, "begin")(c.bundles.Begin(ctx, &mooncakev1.BeginRequest{Client: c.id, Id: id, Members: members}))
		return id
	}
	commit := func(id string) error {
		_, err := c.bundles.Commit(ctx, &mooncakev1.CommitRequest{Client: c.id, Id: id})
		return err
	}
	if err := commit(begin(1)); err != nil { // it opened the window
		t.Fatal(err)
	}
	etcd.Freeze()
	defer etcd.Thaw()
	id := begin(2)
	expect(t, "start of a published client's put", p.putStart("k", 4096).Err, 0)
	waiting := m.cluster.Stats().HA.Unacked
	committed := make(chan error, 1)
	go func() { committed <- commit(id) }()
	waitFor(t, "the ends of the members", func() bool { return m.cluster.Stats().HA.Unacked >= waiting+uint64(len(members)) })
	select {
	case err := <-committed:
		t.Fatalf("published although etcd does not have it: %v", err)
	default:
	}
	etcd.Thaw()
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	expect(t, "get of a member", p.get(id+"/buffer/tokens").Err, 0)
}
