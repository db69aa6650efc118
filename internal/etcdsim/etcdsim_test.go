package etcdsim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mooncake/internal/etcdkv"
)

// within runs a test in virtual time, beside a store that ends leases.
func within(t *testing.T, do func(t *testing.T, ctx context.Context, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run(ctx) }()
		do(t, ctx, s)
		cancel()
		<-ended
	})
}

func keysOf(t *testing.T, ctx context.Context, l *Link, p etcdkv.Page) (keys []string, more bool) {
	t.Helper()
	kvs, more, _, err := l.Range(ctx, "a", "z", p)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		keys = append(keys, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return keys, more
}

func put(t *testing.T, ctx context.Context, l *Link, key, value string, conditions ...etcdkv.Condition) etcdkv.Outcome {
	t.Helper()
	out, err := l.Txn(ctx, conditions, []etcdkv.Op{etcdkv.Put(key, []byte(value), 0)}, []etcdkv.Op{etcdkv.Get(key)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTransactions(t *testing.T) {
	within(t, func(t *testing.T, ctx context.Context, s *Store) {
		l := s.Link(1)
		first := put(t, ctx, l, "b", "1", etcdkv.Condition{Key: "b"})
		if again := put(t, ctx, l, "b", "2", etcdkv.Condition{Key: "b"}); !first.Done || again.Done || string(again.Got[0][0].Value) != "1" || again.Revision != first.Revision {
			t.Fatalf("%+v, then %+v", first, again)
		}
		if over := put(t, ctx, l, "b", "3", etcdkv.Condition{Key: "b", Created: first.Revision}); !over.Done || over.Revision != first.Revision+1 {
			t.Fatalf("%+v", over)
		}
		put(t, ctx, l, "c", "4")
		put(t, ctx, l, "d", "5")
		if keys, more := keysOf(t, ctx, l, etcdkv.Page{Limit: 2}); !more || !slices.Equal(keys, []string{"b=3", "c=4"}) {
			t.Errorf("%v, more: %v", keys, more)
		}
		if keys, more := keysOf(t, ctx, l, etcdkv.Page{Limit: 1, Last: true, KeysOnly: true}); !more || !slices.Equal(keys, []string{"d="}) {
			t.Errorf("%v, more: %v", keys, more)
		}
		if _, err := l.Txn(ctx, nil, []etcdkv.Op{etcdkv.DeleteRange("b", "d")}, nil); err != nil {
			t.Fatal(err)
		}
		if keys, _ := keysOf(t, ctx, l, etcdkv.Page{}); !slices.Equal(keys, []string{"d=5"}) || s.Count("d") != 1 {
			t.Errorf("%v", keys)
		}
	})
}

// TestLeases ends a key with its lease: not before its time, and at most a tick later.
func TestLeases(t *testing.T) {
	within(t, func(t *testing.T, ctx context.Context, s *Store) {
		l := s.Link(1)
		id, ttl, err := l.Grant(ctx, 2*time.Second)
		if err != nil || ttl != 2*time.Second {
			t.Fatal(ttl, err)
		}
		if _, err := l.Txn(ctx, nil, []etcdkv.Op{etcdkv.Put("k", nil, id)}, nil); err != nil {
			t.Fatal(err)
		}
		renewed := time.Now()
		for range 3 {
			<-time.After(1500 * time.Millisecond)
			renewed = time.Now()
			if err := l.KeepAlive(ctx, id); err != nil {
				t.Fatal(err)
			}
		}
		for {
			<-time.After(10 * time.Millisecond)
			if _, there := s.Read("k"); !there {
				break
			}
		}
		if lived := time.Since(renewed); lived < ttl || lived > ttl+expiryTick+100*time.Millisecond {
			t.Errorf("the key lived %v", lived)
		}
		if err := l.KeepAlive(ctx, id); !errors.Is(err, etcdkv.ErrNoLease) {
			t.Errorf("a lease that has ended: %v", err)
		}
		if _, err := l.Txn(ctx, nil, []etcdkv.Op{etcdkv.Put("k", nil, id)}, nil); !errors.Is(err, etcdkv.ErrNoLease) {
			t.Errorf("a key of a lease that has ended: %v", err)
		}
	})
}

// TestWatch passes everything on in order, also what came while the way was cut, and says what is compacted.
func TestWatch(t *testing.T) {
	within(t, func(t *testing.T, ctx context.Context, s *Store) {
		writer, watcher := s.Link(1), s.Link(2)
		var seen []string
		done := errors.New("done")
		ended := make(chan error, 1)
		go func() {
			ended <- watcher.Watch(ctx, "a", "z", 1+1, func(events []etcdkv.Event, _ int64) error {
				for _, e := range events {
					seen = append(seen, fmt.Sprintf("%s %v", e.Key, e.Deleted))
					if e.Key == "e" {
						return done
					}
				}
				return nil
			})
		}()
		put(t, ctx, writer, "b", "")
		watcher.Cut(false, true)
		put(t, ctx, writer, "c", "")
		if _, err := writer.Txn(ctx, nil, []etcdkv.Op{etcdkv.Delete("b")}, nil); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		watcher.Cut(false, false)
		put(t, ctx, writer, "e", "")
		if err := <-ended; err != done || !slices.Equal(seen, []string{"b false", "c false", "b true", "e false"}) {
			t.Errorf("%v: %v", err, seen)
		}
		s.CompactAll()
		if err := watcher.Watch(ctx, "a", "z", 2, func([]etcdkv.Event, int64) error { return nil }); !errors.Is(err, etcdkv.ErrCompacted) {
			t.Errorf("a watch of what is compacted: %v", err)
		}
	})
}

// TestWays looks at everything that a way does to calls: they are made again, come late, or never, and a client that stands
// still or is dead learns nothing.
func TestWays(t *testing.T) {
	within(t, func(t *testing.T, ctx context.Context, s *Store) {
		l := s.Link(1)
		l.Cut(false, true)
		if _, err := l.Txn(ctx, nil, []etcdkv.Op{etcdkv.Put("lost", nil, 0)}, nil); err == nil {
			t.Error("an answer came through a way that is cut")
		}
		if _, there := s.Read("lost"); !there {
			t.Error("a request got lost with its answer")
		}
		l.Cut(true, false)
		if _, err := l.Txn(ctx, nil, []etcdkv.Op{etcdkv.Put("never", nil, 0)}, nil); err == nil {
			t.Error("a request came through a way that is cut")
		}
		if _, there := s.Read("never"); there {
			t.Error("a request came through a way that is cut")
		}
		l.Cut(false, false)
		s.Stall(true)
		if _, _, err := l.Grant(ctx, time.Second); err == nil {
			t.Error("an etcd that stands still answers")
		}
		s.Stall(false)

		l.Freeze()
		began := time.Now()
		time.AfterFunc(time.Minute, l.Thaw)
		put(t, ctx, l, "k", "")
		if took := time.Since(began); took < time.Minute || l.Frozen() {
			t.Errorf("a client that stands still for a minute called after %v", took)
		}
		l.Slow(5*time.Second, 0)
		bounded, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := l.Txn(bounded, nil, []etcdkv.Op{etcdkv.Put("late", nil, 0)}, nil); err == nil {
			t.Error("an answer came too early")
		}
		l.Kill()
		<-time.After(10 * time.Second)
		if _, there := s.Read("late"); !there || !l.Dead() {
			t.Error("what was sent did not arrive after its sender's end")
		}
		if err := l.KeepAlive(ctx, 1); !errors.Is(err, errDead) {
			t.Errorf("a dead client calls: %v", err)
		}
	})
}

// TestControls drops a condition, and tells what is put.
func TestControls(t *testing.T) {
	within(t, func(t *testing.T, ctx context.Context, s *Store) {
		var told []string
		s.Ignores = func(c etcdkv.Condition) bool { return c.Key == "leader" }
		s.Applied = func(before *Keys, kv etcdkv.KV, conditions []etcdkv.Condition) {
			_, there := before.Get(kv.Key)
			told = append(told, fmt.Sprint(kv.Key, there, len(conditions)))
		}
		l := s.Link(1)
		for range 2 {
			if out := put(t, ctx, l, "k", "", etcdkv.Condition{Key: "leader", Created: 99}); !out.Done {
				t.Error("the condition counts")
			}
		}
		if !slices.Equal(told, []string{"kfalse 1", "ktrue 1"}) {
			t.Error(told)
		}
	})
}
