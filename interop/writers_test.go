package interop

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// halfWritten is a put that stands still between its start and its end.
type halfWritten struct {
	daemon *Segment
	writer *Store
	item   Item
	ended  chan putResult
}

type putResult struct {
	code int
	err  error
}

// startHalfWritten lets a writer begin a put whose bytes cannot arrive, since the segment daemon stands still. The caller
// stops or kills the writer and then lets the daemon go on.
func startHalfWritten(t *testing.T, m *Master, daemon *Segment, writer *Store, item Item) *halfWritten {
	t.Helper()
	before := metric(t, m, "master_allocated_bytes")
	if err := daemon.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h := &halfWritten{daemon: daemon, writer: writer, item: item, ended: make(chan putResult, 1)}
	go func() {
		code, err := writer.Put(item, nil)
		h.ended <- putResult{code, err}
	}()
	eventually(t, 60*time.Second, "the put has begun", func() bool {
		return metric(t, m, "master_allocated_bytes") >= before+float64(item.Size)
	})
	return h
}

func (h *halfWritten) letDaemonGo(t *testing.T) {
	t.Helper()
	if err := h.daemon.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// TestDeadWriter kills a writer in the middle of a put: long before the discard timeout another client can store the key,
// and nothing stays allocated.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release Release) {
		beside(t, waits)
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		daemon := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 128 * mib})
		writer := startStore(t, r, release, StoreOptions{Master: m.RPC, BufferBytes: 64 * mib})
		other := startStore(t, r, release, StoreOptions{Master: m.RPC})
		put(t, other, Item{Key: "hello", Size: 1, Seed: 1}, nil) // shows its release
		h := startHalfWritten(t, m, daemon, writer, Item{Key: "half", Size: 48 * mib, Seed: 1})
		writer.Client.Kill()
		<-h.ended
		h.letDaemonGo(t)
		killed := time.Now()
		again := Item{Key: "half", Size: 1000, Seed: 2}
		eventually(t, 15*time.Second, "the key takes a new value", func() bool {
			if code, err := other.Put(again, nil); err != nil || code != codeOK {
				return false
			}
			got, err := other.Get(again)
			return err == nil && got.Same
		})
		t.Logf("stored %v after the kill", time.Since(killed).Round(100*time.Millisecond))
		callWant(t, other, codeOK, "remove", again.Key, true)
		callWant(t, other, codeOK, "remove", "hello", true)
		wantMetric(t, m, "master_allocated_bytes", 0)
		eventually(t, 60*time.Second, "the quarantine of the dead writer's range ends", func() bool {
			return metric(t, m, "mooncake_go_quarantined_bytes") == 0
		})
	})
}

// TestPausingWriter stops a writer in the middle of a put, and another one in the middle of a bundle: nobody takes a
// writer that only stands still for dead, and both writes end well.
func TestPausingWriter(t *testing.T) {
	t.Parallel()
	pause := repeat(9, 90)
	for _, release := range otherReleases() {
		t.Run(release.String(), func(t *testing.T) {
			beside(t, waits)
			c := newTrainingCluster(t, release, release, 256*mib)
			c.produce.Client.Limit = DefaultCallLimit + time.Duration(pause)*time.Second
			bundle := Bundle{Rows: 100, Seed: 1, PauseAfter: 5, PauseSec: pause}
			handle := make(chan Handle, 1)
			go func() {
				h, _, _, err := c.produce.PutBundle(bundle)
				if err != nil {
					t.Error(err)
				}
				handle <- h
			}()
			t.Run("put", func(t *testing.T) { pauseInPut(t, c, release, time.Duration(pause)*time.Second) })
			if h := <-handle; h != nil {
				getBundle(t, c.consume, h, bundle)
				cleanBundle(t, c.consume, h)
				c.empty(t)
			}
		})
	}
}

// pauseInPut stands still as a process does that waits for memory or for its debugger: between the start of a put and its
// end, all connections open.
func pauseInPut(t *testing.T, c *trainingCluster, release Release, pause time.Duration) {
	writer := startStore(t, c.rig, release, StoreOptions{Master: c.master.RPC, BufferBytes: 64 * mib})
	writer.Client.Limit = DefaultCallLimit + pause
	item := Item{Key: "slow", Size: 8 * mib, Seed: 1}
	h := startHalfWritten(t, c.master, c.segment, writer, item)
	stall(t, writer.Client)
	h.letDaemonGo(t)
	time.Sleep(pause)
	resume(t, writer.Client)
	if end := <-h.ended; end.err != nil || end.code != codeOK {
		t.Fatalf("put with a pause of %v: code %d, %v", pause, end.code, end.err)
	}
	get(t, c.consume, item)
	callWant(t, c.consume, codeOK, "remove", item.Key, true)
}

// TestForcedRemoveUnderRead removes an object while a client reads it, and asks for its memory again at once: the read
// brings the object's own bytes or fails.
func TestForcedRemoveUnderRead(t *testing.T) {
	beside(t, works)
	const size = 32 * mib
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{})
	startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 80 * mib})
	for _, release := range otherReleases() {
		t.Run(release.String(), func(t *testing.T) {
			writer := startStore(t, r, release, StoreOptions{Master: m.RPC, BufferBytes: 48 * mib})
			reader := startStore(t, r, release, StoreOptions{Master: m.RPC, BufferBytes: 48 * mib})
			for n := range repeat(4, 40) {
				old := Item{Key: key("old/%d", n), Size: size, Seed: int64(n)}
				put(t, writer, old, nil)
				read := make(chan error, 1)
				go func() {
					got, err := reader.Get(old)
					if err == nil && got.Size != 0 && !got.Same {
						err = fmt.Errorf("%d bytes that are not the object's", got.Size)
					}
					read <- err
				}()
				time.Sleep(time.Duration(10+n*7%40) * time.Millisecond) // somewhere in the transfer
				stall(t, reader.Client)
				callWant(t, writer, codeOK, "remove", old.Key, true)
				if got := metric(t, m, "master_allocated_bytes"); got != 0 {
					t.Errorf("%v bytes are allocated after the remove", got)
				}
				put(t, writer, Item{Key: key("new/%d", n), Size: size, Seed: int64(n + 1000)}, nil)
				resume(t, reader.Client)
				if err := <-read; err != nil {
					t.Errorf("read %d: %v", n, err)
				}
				callWant(t, writer, codeOK, "remove", key("new/%d", n), true)
			}
		})
	}
}
