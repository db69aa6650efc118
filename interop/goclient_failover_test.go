package interop

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mooncake/client"
)

// goWriter is a client in Go that writes one object after another.
type goWriter struct {
	*client.Client
	name  string
	count atomic.Int64 // objects acknowledged

	mu     sync.Mutex
	acked  []int64
	failed []error
}

func (w *goWriter) object(n int64) (key string, data []byte) {
	return fmt.Sprintf("%s/%d", w.name, n), bytes.Repeat([]byte{byte(n), byte(n >> 8), w.name[0]}, 1000)
}

func (w *goWriter) write(ctx context.Context, stop <-chan struct{}) {
	for n := int64(0); ctx.Err() == nil; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key, data := w.object(n)
		err := w.Put(ctx, key, data, client.PutOptions{})
		w.mu.Lock()
		if err != nil {
			w.failed = append(w.failed, err)
		} else {
			w.acked = append(w.acked, n)
			w.count.Add(1)
		}
		w.mu.Unlock()
	}
}

// failures gives the errors so far.
func (w *goWriter) failures() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.failed)
}

// TestGoClientFailover has a leader leave, and the next one killed, under two clients in Go that write: one in frames, one by gRPC
// only. A hand-over fails no put of either, a kill few: the one under way, whose start may not have been kept. What was
// acknowledged to either both read.
func TestGoClientFailover(t *testing.T) {
	r := newRig(t)
	etcd, err := r.StartEtcd()
	if err != nil {
		t.Fatal(err)
	}
	var masters []*Master
	var addresses []string
	for range 3 {
		m := startMaster(t, r, MasterOptions{Flags: []string{"--enable_ha", "--ha_backend_connstring=" + etcd}})
		eventually(t, startLimit, "a master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
		masters, addresses = append(masters, m), append(addresses, m.GRPC)
	}
	if _, err := r.StartSegment(SegmentOptions{Master: "etcd://" + etcd, SizeBytes: 256 * mib}); err != nil {
		t.Fatal(err)
	}
	if _, err := masters[0].WaitSegments(1, startLimit); err != nil {
		t.Fatal(err)
	}
	writers := []*goWriter{{name: "frames"}, {name: "grpc"}}
	ctx, cancel := context.WithTimeout(context.Background(), 2*DefaultCallLimit)
	defer cancel()
	var group sync.WaitGroup
	stop := make(chan struct{})
	for _, w := range writers {
		if w.Client, err = client.New(client.Config{Masters: addresses, WaitForRoom: true, GRPCOnly: w.name == "grpc"}); err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		group.Go(func() { w.write(ctx, stop) })
	}
	more := func(what string) {
		t.Helper()
		for _, w := range writers {
			before := w.count.Load()
			eventually(t, 60*time.Second, what, func() bool { return w.count.Load() > before+20 })
		}
	}
	more("writing to be under way")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		left := masters
		for i, m := range masters {
			if page(m, "/role") == "leader" {
				if err := m.Signal(sig); err != nil {
					t.Fatal(err)
				}
				left = append(append([]*Master{}, masters[:i]...), masters[i+1:]...)
			}
		}
		if len(left) == len(masters) {
			t.Fatal("nobody leads")
		}
		masters = left
		eventually(t, 60*time.Second, "another to lead", func() bool {
			for _, m := range masters {
				if page(m, "/role") == "leader" {
					return true
				}
			}
			return false
		})
		more(fmt.Sprintf("writing to go on after %v", sig))
		for _, w := range writers {
			if failed := w.failures(); len(failed) > 0 && (sig == syscall.SIGTERM || len(failed) > 5) {
				t.Errorf("%s, after %v: %v", w.name, sig, failed)
			}
		}
	}
	close(stop)
	group.Wait()
	for _, w := range writers {
		s := w.Stats()
		if (s.FramedCalls == 0) != (w.name == "grpc") {
			t.Errorf("%s: %+v", w.name, s)
		}
		t.Logf("%s: %d objects, %+v, failed %v", w.name, len(w.acked), s, w.failed)
		for _, reader := range writers {
			for _, n := range w.acked {
				key, want := w.object(n)
				if got, err := reader.Get(ctx, key); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%s reads %s: %d bytes, %v", reader.name, key, len(got), err)
				}
			}
		}
	}
}
