package master

import (
	"encoding/json"
	"net"
	"strconv"
	"testing"

	"go.uber.org/zap"
)

// TestMembersAreKnown starts two masters: each tells where others reach it, and that it has gone.
func TestMembersAreKnown(t *testing.T) {
	const members = "/mooncake-go/mooncake_cluster/member/"
	etcd := startEtcd(t)
	first := newMember(t, etcd, func(c *Config) { c.SnapshotDir = t.TempDir() })
	first.awaitState("serving")
	second := newMember(t, etcd)
	second.awaitState("standby")
	waitFor(t, "both to be known", func() bool { return len(etcd.Keys(members)) == 2 })
	for b, keeps := range map[*bed]bool{first: true, second: false} {
		value, _ := etcd.Value(members + "127.0.0.1:" + strconv.Itoa(b.Ports().RPC))
		var p struct {
			GRPC  string
			Keeps bool
		}
		if err := json.Unmarshal([]byte(value), &p); err != nil || p.Keeps != keeps || p.GRPC != "127.0.0.1:"+strconv.Itoa(b.Ports().GRPC) {
			t.Errorf("%q, %v", value, err)
		}
		conn, err := net.Dial("tcp", p.GRPC)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	if first.cluster.member.Alone(t.Context()) || second.cluster.member.Alone(t.Context()) {
		t.Error("one of two is alone")
	}
	second.stop()
	if !first.cluster.member.Alone(t.Context()) {
		t.Error("the one that stays is not alone")
	}
	if left := etcd.Keys(members); len(left) != 1 {
		t.Errorf("after one has gone: %q", left)
	}
	first.stop()
	if n := first.logs.FilterField(zap.String("action", "no_other_master")).Len(); n != 1 {
		t.Errorf("the last one says %d times that nobody takes over", n)
	}
}
