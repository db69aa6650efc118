package interop

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// health of a segment daemon, and whether it says that all is well.
func healthy(s *Segment) bool {
	return strings.HasPrefix(page(&Master{Admin: s.HTTP}, "/health"), `{"status":"healthy"`)
}

// TestSegmentFollowsLeader has a segment daemon that finds its master through etcd. The leader is killed and, in the next
// round, asked to leave: the daemon goes over to the other, and a client reads what it has and writes on.
func TestSegmentFollowsLeader(t *testing.T) {
	beside(t, waits)
	r := newRig(t)
	etcd, err := r.StartEtcd()
	if err != nil {
		t.Fatal(err)
	}
	masters := []*Master{joinMasters(t, r, etcd), joinMasters(t, r, etcd)}
	address := "etcd://" + etcd
	daemon, err := r.StartSegment(SegmentOptions{Master: address, SizeBytes: 128 * mib})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, startLimit, "the daemon to be in the pool", func() bool { return healthy(daemon) })
	store := startStore(t, r, R13, StoreOptions{Master: address})
	items := itemsOf("followed/", 20, func(i int) int64 { return int64(1 + i*100_000) })
	for _, i := range items {
		put(t, store, i, nil)
	}
	for round, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		if err := masters[0].Signal(sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "the standby to lead", func() bool {
			return strings.Contains(page(masters[1], "/health"), `"service_ready":true`)
		})
		eventually(t, 60*time.Second, "the daemon to be with the next leader", func() bool {
			return healthy(daemon) && strings.Contains(page(&Master{Admin: daemon.HTTP}, "/metrics/summary"), "Master: "+masters[1].RPC)
		})
		// A client that lost its leader tries the old address for 4.3 s before it looks at the new one.
		eventually(t, 60*time.Second, "the client to read", func() bool {
			got, err := store.Get(items[0])
			return err == nil && got.Same
		})
		for _, i := range items {
			get(t, store, i)
		}
		more := Item{Key: Key(fmt.Sprintf("followed/later/%d", round)), Size: mib, Seed: int64(round)}
		put(t, store, more, nil)
		get(t, store, more)
		items = append(items, more)
		masters = []*Master{masters[1], joinMasters(t, r, etcd)}
	}
}
