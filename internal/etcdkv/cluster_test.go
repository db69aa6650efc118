package etcdkv

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"mooncake/internal/etcdkv/etcdfake"
)

func startFake(t *testing.T) *etcdfake.Server {
	t.Helper()
	fake, err := etcdfake.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	return fake
}

func openCluster(t *testing.T, endpoints ...string) *Cluster {
	t.Helper()
	c, err := OpenCluster(endpoints, Access{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestTransactions(t *testing.T) {
	c, ctx := openCluster(t, startFake(t).Address()), t.Context()
	absent := []Condition{{Key: "k"}}
	first, err := c.Txn(ctx, absent, []Op{Put("k", []byte("1"), 0)}, []Op{Get("k")})
	if err != nil || !first.Done {
		t.Fatal(first, err)
	}
	again, err := c.Txn(ctx, absent, []Op{Put("k", []byte("2"), 0)}, []Op{Get("k")})
	if err != nil || again.Done || len(again.Got) != 1 || string(again.Got[0][0].Value) != "1" || again.Got[0][0].Created != first.Revision {
		t.Fatal(again, err)
	}
	fenced := []Condition{{Key: "k", Created: first.Revision}}
	if out, err := c.Txn(ctx, fenced, []Op{Put("a/1", nil, 0), Put("a/2", nil, 0), Put("a/3", nil, 0)}, nil); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	found, more, revision, err := c.Range(ctx, "a/", PrefixEnd("a/"), Page{Limit: 2})
	if err != nil || len(found) != 2 || !more || found[0].Key != "a/1" {
		t.Fatal(found, more, err)
	}
	if out, err := c.Txn(ctx, fenced, []Op{DeleteRange("a/1", "a/3")}, nil); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	last, _, _, err := c.Range(ctx, "a/", PrefixEnd("a/"), Page{Limit: 1, Last: true, KeysOnly: true})
	if err != nil || len(last) != 1 || last[0].Key != "a/3" {
		t.Fatal(last, err)
	}
	if old, _, _, err := c.Range(ctx, "a/", PrefixEnd("a/"), Page{Revision: revision}); err != nil || len(old) != 3 {
		t.Fatal(old, err)
	}
	if err := c.Compact(ctx, revision+1); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.Range(ctx, "a/", PrefixEnd("a/"), Page{Revision: revision}); !errors.Is(err, ErrCompacted) {
		t.Fatalf("a compacted revision: %v", err)
	}
}

func TestLeases(t *testing.T) {
	fake := startFake(t)
	c, ctx := openCluster(t, fake.Address()), t.Context()
	lease, granted, err := c.Grant(ctx, 2500*time.Millisecond)
	if err != nil || granted != 3*time.Second {
		t.Fatal(granted, err)
	}
	if _, err := c.Txn(ctx, nil, []Op{Put("k", []byte("v"), lease)}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.KeepAlive(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if err := c.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if _, there := fake.Value("k"); there {
		t.Fatal("the key outlives its lease")
	}
	if err := c.KeepAlive(ctx, lease); !errors.Is(err, ErrNoLease) {
		t.Fatalf("renewal of an ended lease: %v", err)
	}
	if err := c.Revoke(ctx, lease); err != nil {
		t.Fatalf("second end: %v", err)
	}
}

// TestWatch sees what happens from a revision on, in order, and is told when that is not to be had any more.
func TestWatch(t *testing.T) {
	fake := startFake(t)
	c := openCluster(t, fake.Address())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := c.Txn(ctx, nil, []Op{Put("w/1", []byte("a"), 0)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fake.Set("other", "")
	fake.Set("w/2", "b")
	var seen []Event
	done := errors.New("enough")
	started := false
	err = c.Watch(ctx, "w/", PrefixEnd("w/"), out.Revision, func(events []Event, _ int64) error {
		if seen = append(seen, events...); !started && len(seen) == 2 {
			started = true
			fake.Drop("w/1")
		}
		if len(seen) == 3 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) || seen[0].Key != "w/1" || seen[1].Key != "w/2" || string(seen[1].Value) != "b" || !seen[2].Deleted {
		t.Fatal(seen, err)
	}
	if err := c.Compact(ctx, seen[2].Modified); err != nil {
		t.Fatal(err)
	}
	err = c.Watch(ctx, "w/", PrefixEnd("w/"), out.Revision, func([]Event, int64) error { return nil })
	if !errors.Is(err, ErrCompacted) {
		t.Fatalf("a watch of the past: %v", err)
	}
}

// TestFrozenMember asks a member that accepts and never answers first: calls and watches go on with the other.
func TestFrozenMember(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	fake := startFake(t)
	c := openCluster(t, silent.Addr().String(), fake.Address())
	c.call, c.hedge = time.Minute, 50*time.Millisecond // waiting for the first would take longer than the test may
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := c.Txn(ctx, nil, []Op{Put("k", nil, 0)}, nil); err != nil {
		t.Fatal(err)
	}
	if c.inOrder()[0].address != fake.Address() {
		t.Error("the silent member is still asked first")
	}
	c.members[0].until.Store(0) // as if its time aside were over
	done := errors.New("enough")
	err = c.Watch(ctx, "k", "l", 1, func(events []Event, _ int64) error {
		if len(events) > 0 {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Fatalf("the watch ends with %v", err)
	}
}

// TestSlowMembers asks two members that never answer and one that does: the answer of the last counts, and a call that must
// not be made twice waits for each in turn.
func TestSlowMembers(t *testing.T) {
	var endpoints []string
	for range 2 {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		endpoints = append(endpoints, silent.Addr().String())
	}
	fake := startFake(t)
	c := openCluster(t, append(endpoints, fake.Address())...)
	c.call, c.hedge = time.Minute, 20*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if out, err := c.Txn(ctx, []Condition{{Key: "k"}}, []Op{Put("k", nil, 0)}, nil); err != nil || !out.Done {
		t.Fatal(out, err)
	}
	for _, m := range c.members {
		if aside := m.until.Load() > time.Now().UnixNano(); aside == (m.address == fake.Address()) {
			t.Errorf("%s is left aside: %v", m.address, aside)
		}
		m.until.Store(0)
	}
	c.call = 2 * time.Second
	if _, _, err := c.Grant(ctx, time.Second); err != nil {
		t.Fatal(err)
	}
	if c.inOrder()[0].address != fake.Address() {
		t.Error("a silent member is still asked first")
	}
	fake.Stop()
	if _, err := c.Txn(ctx, nil, []Op{Put("k", nil, 0)}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}
