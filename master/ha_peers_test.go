package master

import (
	"encoding/json"
	"net"
	"strconv"
	"testing"
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
	second.stop()
	if left := etcd.Keys(members); len(left) != 1 {
		t.Errorf("after one has gone: %q", left)
	}
}
