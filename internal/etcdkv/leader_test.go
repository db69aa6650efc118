package etcdkv

import (
	"fmt"
	"testing"
	"time"

	"mooncake/internal/etcdkv/etcdfake"
)

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

// TestLeaderIsAskedFirst looks at which of two members gets a transaction: the one that leads etcd as soon as that is known,
// and another as soon as it does not answer.
func TestLeaderIsAskedFirst(t *testing.T) {
	a, b := startFake(t), startFake(t)
	c, ctx, n := openCluster(t, a.Address(), b.Address()), t.Context(), 0
	// arrives tells whether a member gets transactions that are made after looks at how full etcd is. Where the machine is
	// slow a single one may get to the other as well, or only.
	arrives := func(what string, at *etcdfake.Server) {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			_, _ = c.Size(ctx) // where it fails it is asked again
			key := fmt.Sprint(n)
			n++
			if _, err := c.Txn(ctx, nil, []Op{Put(key, nil, 0)}, nil); err != nil {
				t.Fatal(err)
			}
			if _, there := at.Value(key); there {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: it never gets a transaction", what)
			}
		}
	}
	arrives("nobody says who leads: the first", a)
	a.Number(1, 2)
	b.Number(2, 2)
	arrives("the second leads", b)
	if first := c.first.Load(); first == nil || first.address != b.Address() {
		t.Fatalf("asked first is %v", first)
	}
	a.Number(1, 1)
	b.Number(2, 1)
	arrives("the first leads again", a)
	a.Number(1, 9)
	b.Number(2, 9)
	arrives("one that cannot be reached leads: the first", a)
	a.Number(1, 3)
	b.Number(3, 3)
	arrives("a member that was replaced leads", b)
	b.Stop()
	arrives("the leader is gone", a)
}
