package etcdkv

import (
	"context"
	"testing"
	"time"
)

// TestFollowKey sees a key come, change and go, goes on behind a compaction, and says when nothing can be seen.
func TestFollowKey(t *testing.T) {
	fake := startFake(t)
	fake.Set("k", "one")
	c := openCluster(t, fake.Address())
	ctx, cancel := context.WithCancel(t.Context())
	seen, failures := make(chan string, 1000), make(chan error, 1000)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.FollowKey(ctx, "k", func(kv *KV) {
			if kv == nil {
				seen <- ""
			} else {
				seen <- string(kv.Value)
			}
		}, func(err error) { failures <- err })
	}()
	await := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-seen:
				if got == want {
					return
				}
			case <-time.After(2 * time.Minute):
				t.Fatalf("%q is not seen", want)
			}
		}
	}
	await("one")
	fake.Set("k", "two")
	fake.Set("kk", "another key")
	await("two")
	fake.Drop("k")
	await("")
	if err := c.Compact(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	fake.Set("k", "three")
	await("three")
	fake.Stop()
	select {
	case err := <-failures:
		if err == nil {
			t.Error("a failure without a reason")
		}
	case <-time.After(2 * time.Minute):
		t.Error("nobody is told that etcd is gone")
	}
	cancel()
	<-ended
}
