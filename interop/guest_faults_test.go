//go:build rdmavm

package interop

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// faultLimit is how long something broken may take to be noticed, or something mended to be used, before slowness.
const faultLimit = 60 * time.Second

func tool(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// getFails reads an object that cannot be reached: the client answers with nothing, and lives.
func getFails(t *testing.T, s *Store, i Item) {
	t.Helper()
	began := time.Now()
	got, err := s.Get(i)
	if err != nil {
		t.Fatalf("get %q: %v", i.Key, err)
	}
	if got.Size != 0 {
		t.Fatalf("get %q: %d bytes, same=%v, though nobody is there", i.Key, got.Size, got.Same)
	}
	t.Logf("%v: get failed after %v", s.Client.Release, time.Since(began).Round(100*time.Millisecond))
}

// readsAgain reads until it works, as a caller would.
func readsAgain(t *testing.T, s *Store, i Item) {
	t.Helper()
	eventually(t, faultLimit, "a read of "+string(i.Key)+" by "+s.Client.Release.String(), func() bool {
		got, err := s.Get(i)
		return err == nil && got.Same
	})
}

// unharmed looks that a daemon lives and has met nothing it did not expect.
func unharmed(t *testing.T, s *Segment) {
	t.Helper()
	if s.exited() {
		t.Fatal(s.failed("ended"))
	}
	for _, word := range []string{"panic", "fatal error", "SIGSEGV", "DATA RACE"} {
		if strings.Contains(s.Log(), word) {
			t.Error(s.failed("met a " + word))
		}
	}
}

// TestGuestDaemonKilled kills a daemon under clients of all releases: their reads fail in good order. Then it is started
// again, and the same clients read the same objects.
func TestGuestDaemonKilled(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	options := SegmentOptions{ArenaDir: t.TempDir(), HTTPPort: ports[0]}
	daemon := rdmaSegment(t, r, m, 1, options)
	guests.ready(t, patient, Releases...)
	stores, items := map[Release]*Store{}, map[Release][]Item{}
	for _, release := range Releases {
		stores[release] = rdmaStore(t, guests.client(t, patient, release), StoreOptions{Master: m.addressFor(release)})
		items[release] = rdmaItems(release.String()+"/", 1, 81921, 2<<20)
		putAll(t, stores[release], items[release])
		getAll(t, stores[release], items[release])
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGUSR1} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			before := segments(t, m, 1)[0]
			if err := daemon.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _, err := daemon.ExitCode(20 * slowness * time.Second); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGKILL {
				for _, release := range Releases {
					getFails(t, stores[release], items[release][1])
				}
			}
			daemon = rdmaSegment(t, r, m, 1, options)
			if after := segments(t, m, 1)[0]; after != before {
				t.Fatalf("the segment is %+v, it was %+v", after, before)
			}
			for _, release := range Releases {
				readsAgain(t, stores[release], items[release][0])
				getAll(t, stores[release], items[release])
				fresh := Item{Key: key("%v after %v", release, sig), Size: 100_000, Seed: 1}
				put(t, stores[release], fresh, nil)
				get(t, stores[release], fresh)
			}
		})
	}
	t.Run("under load", func(t *testing.T) { daemon = restartsUnderLoad(t, r, m, daemon, options, stores) })
	unharmed(t, daemon)
}

// restartsUnderLoad kills the daemon over and over while clients of all releases read without a pause: it is the same segment
// that comes back, nobody ever sees wrong bytes, and every client goes on with new keys of the device.
func restartsUnderLoad(t *testing.T, r *Rig, m *Master, daemon *Segment, options SegmentOptions, stores map[Release]*Store) *Segment {
	reader := Reader{Name: "reader", Items: rdmaItems("kept/", 1, 4096, 81921, 500_000), Threads: 1, PaceMs: 50}
	putAll(t, stores[Releases[0]], reader.Items)
	for _, release := range Releases {
		if err := stores[release].StartReader(reader); err != nil {
			t.Fatal(err)
		}
	}
	goOn := func(since time.Time) {
		t.Helper()
		for _, release := range Releases {
			eventually(t, faultLimit, release.String()+" reads again", func() bool {
				saw, err := stores[release].LookAtReader(reader)
				if err != nil || len(saw.Wrong) > 0 {
					t.Fatalf("%v: wrong bytes %q, %v", release, saw.Wrong, err)
				}
				return saw.Oldest.After(since)
			})
		}
	}
	before := segments(t, m, 1)[0]
	goOn(time.Now())
	var gaps figures
	for range repeat(2, 50) {
		gone := time.Now()
		if err := daemon.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.ExitCode(20 * slowness * time.Second); err != nil {
			t.Fatal(err)
		}
		daemon = rdmaSegment(t, r, m, 1, options)
		back := time.Now()
		gaps.add("the daemon is back", back.Sub(gone))
		if after := segments(t, m, 1)[0]; after != before {
			t.Fatalf("the segment is %+v, it was %+v", after, before)
		}
		goOn(back)
		gaps.add("every client has read", time.Since(gone))
	}
	for _, release := range Releases {
		saw, err := stores[release].StopReader(reader)
		if err != nil || len(saw.Wrong) > 0 {
			t.Errorf("%v: wrong bytes %q, %v", release, saw.Wrong, err)
		}
		t.Logf("%v: %d reads, %d failed", release, saw.Good, len(saw.Failed))
		getAll(t, stores[release], reader.Items)
	}
	gaps.tell(t, nil)
	return daemon
}

// TestGuestPortDown takes the daemon's port down and up again.
func TestGuestPortDown(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{})
	daemon := rdmaSegment(t, r, m, 1, SegmentOptions{})
	s := rdmaStore(t, guests.client(t, patient, R13), StoreOptions{Master: m.RPC})
	items := rdmaItems("port/", 1, 81921, 1<<20)
	putAll(t, s, items)
	t.Cleanup(func() { tool(t, "ip link set port0 up") })
	tool(t, "ip link set port0 down")
	waitMetric(t, daemon, "mooncake_go_segment_rdma_port_up", 0)
	getFails(t, s, items[1])
	tool(t, "ip link set port0 up")
	waitMetric(t, daemon, "mooncake_go_segment_rdma_port_up", 1)
	readsAgain(t, s, items[1])
	getAll(t, s, items)
	put(t, s, Item{Key: "afterwards", Size: 100_000, Seed: 1}, nil)
	unharmed(t, daemon)
}

// TestGuestDeviceDeleted deletes one of the daemon's two devices, which goes on with the other, and then that as well.
// Devices that are made again are taken up by a restart.
func TestGuestDeviceDeleted(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{})
	ports, err := r.TakePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	options := SegmentOptions{ArenaDir: t.TempDir(), HTTPPort: ports[0], Devices: "rxe0,rxe2"}
	daemon := rdmaSegment(t, r, m, 1, options)
	s := rdmaStore(t, guests.client(t, patient, R14), StoreOptions{Master: m.RPC})
	items := rdmaItems("device/", 1, 81921, 1<<20)
	putAll(t, s, items)
	t.Cleanup(func() { // for the tests that follow
		for _, n := range []string{"0", "2"} {
			if !strings.Contains(tool(t, "rdma link"), "rxe"+n+"/") {
				tool(t, "rdma link add rxe"+n+" type rxe netdev node"+n)
			}
		}
	})
	tool(t, "rdma link delete rxe2")
	waitMetric(t, daemon, "mooncake_go_segment_rdma_port_up", 1)
	readsAgain(t, s, items[1])
	getAll(t, s, items)
	tool(t, "rdma link delete rxe0")
	waitMetric(t, daemon, "mooncake_go_segment_rdma_port_up", 0)
	getFails(t, s, items[1])
	unharmed(t, daemon)
	for _, n := range []string{"0", "2"} {
		tool(t, "rdma link add rxe"+n+" type rxe netdev node"+n)
	}
	if err := daemon.Signal(syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.ExitCode(20 * slowness * time.Second); err != nil {
		t.Fatal(err)
	}
	daemon = rdmaSegment(t, r, m, 1, options)
	readsAgain(t, s, items[1])
	getAll(t, s, items)
	unharmed(t, daemon)
}

// waitMetric waits until the samples of a name, over all labels, add up to a value.
func waitMetric(t *testing.T, s *Segment, name string, want float64) {
	t.Helper()
	eventually(t, faultLimit, name+" as wanted", func() bool {
		got, err := s.Metric(name)
		return err == nil && got == want
	})
}
