package descriptor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"mooncake/internal/limits"
)

func TestResolveByHandshake(t *testing.T) {
	for dataHost, want := range map[string]string{"": "127.0.0.1", "127.0.0.3": "127.0.0.3"} {
		_, endpoint := startServer(t, ServerConfig{Describe: func(*Segment) (*Segment, error) {
			own := sample()
			own.Name, own.TCPDataHost = "logical name", dataHost
			return own, nil
		}})
		target, err := NewResolver(NoStore{}, nil).Lookup(context.Background(), endpoint)
		if err != nil || target.DataHost != want || target.Segment.TCPDataPort != 16006 || target.Endpoint != endpoint {
			t.Errorf("tcp_data_host %q: %+v, %v", dataHost, target, err)
		}
	}
}

func TestResolveByStore(t *testing.T) {
	bothStores(t, func(t *testing.T, store Store) {
		ctx, r := context.Background(), NewResolver(store, nil)
		if _, err := r.Lookup(ctx, "n"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("an unknown endpoint: %v", err)
		}
		segment := sample()
		segment.Name = "n"
		if err := Publish(ctx, store, segment, Location{Host: "10.0.0.9", RPCPort: 1}); err != nil {
			t.Fatal(err)
		}
		if target, err := r.Lookup(ctx, "n"); err != nil || target.DataHost != "127.0.0.1" {
			t.Fatalf("%+v, %v, want tcp_data_host", target, err)
		}
		segment.TCPDataHost, segment.TCPDataPort = "", 777
		if err := Publish(ctx, store, segment, Location{Host: "10.0.0.9", RPCPort: 1}); err != nil {
			t.Fatal(err)
		}
		if target, err := r.Lookup(ctx, "n"); err != nil || target.Segment.TCPDataPort != 16006 {
			t.Fatalf("%+v, %v, want what was known", target, err)
		}
		if target, err := r.Refresh(ctx, "n"); err != nil || target.DataHost != "10.0.0.9" || target.Segment.TCPDataPort != 777 {
			t.Fatalf("%+v, %v, want the new descriptor and the location's host", target, err)
		}
		if target, err := r.Lookup(ctx, "n"); err != nil || target.Segment.TCPDataPort != 777 {
			t.Fatalf("%+v, %v, want what was refreshed", target, err)
		}
		if err := store.Delete(ctx, RPCMetaKey("n")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Refresh(ctx, "n"); !errors.Is(err, ErrNotFound) {
			t.Fatalf("without a location: %v", err)
		}
		if err := store.Put(ctx, RAMKey("n"), []byte(`{"name":""}`)); err != nil {
			t.Fatal(err)
		}
		_, err := r.Lookup(ctx, "n")
		mustContain(t, err, `"n"`, "no name")
	})
}

// countingStore answers every descriptor and counts how often it is asked.
type countingStore struct {
	NoStore
	gets atomic.Int32
}

func (s *countingStore) Get(context.Context, string) ([]byte, error) {
	s.gets.Add(1)
	return sample().Encode(), nil
}

func TestTheCacheIsBounded(t *testing.T) {
	store := &countingStore{}
	r, ctx := NewResolver(store, nil), context.Background()
	lookup := func(endpoint string) {
		if _, err := r.Lookup(ctx, endpoint); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		lookup("n")
	}
	if gets := store.gets.Load(); gets != 1 {
		t.Errorf("asked %d times for one endpoint", gets)
	}
	r.Forget("n")
	lookup("n")
	if gets := store.gets.Load(); gets != 2 {
		t.Errorf("asked %d times after Forget", gets)
	}
	for i := range 2 * limits.DescriptorCacheEntries {
		lookup(fmt.Sprint(i))
	}
	if len(r.known) != limits.DescriptorCacheEntries {
		t.Errorf("%d endpoints are known, limit %d", len(r.known), limits.DescriptorCacheEntries)
	}
}
