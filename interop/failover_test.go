package interop

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// joinMasters starts a master that shares its log with others in etcd, and waits until it leads or could.
func joinMasters(t *testing.T, r *Rig, etcd string) *Master {
	t.Helper()
	m := startMaster(t, r, MasterOptions{Flags: []string{"--enable_ha", "--ha_backend_connstring=" + etcd}})
	eventually(t, startLimit, "a master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
	return m
}

// page reads a page of a master's admin server; empty when it does not answer.
func page(m *Master, path string) string {
	resp, err := http.Get("http://" + m.Admin + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

func status(m *Master, path string) int {
	resp, err := http.Get("http://" + m.Admin + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// writing is what one client wrote at a steady rate, and how that went.
type writing struct {
	acked  []Item
	failed int
	gap    time.Duration // the longest time between two puts that succeeded
	worst  time.Duration // the longest put that succeeded
}

// writeSteadily puts 200 objects a second until stop is closed, each with a key of its own.
func writeSteadily(s *Store, prefix string, stop <-chan struct{}) (w writing, err error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for n := 0; ; n++ {
		select {
		case <-stop:
			return w, nil
		case <-tick.C:
		}
		item := Item{Key: Key(fmt.Sprintf("%s/%06d", prefix, n)), Size: 512, Seed: int64(n)}
		began := time.Now()
		code, err := s.Put(item, nil)
		if err != nil {
			return w, err
		}
		if code != codeOK {
			w.failed++
			continue
		}
		now := time.Now()
		w.gap, w.worst = max(w.gap, now.Sub(last)), max(w.worst, now.Sub(began))
		last = now
		w.acked = append(w.acked, item)
	}
}

// TestFailover kills, and then asks to leave, the leader of two masters under a client that writes: nothing that was
// acknowledged is lost, and the wheels find the other by themselves.
func TestFailover(t *testing.T) {
	r := newRig(t)
	etcd, err := r.StartEtcd()
	if err != nil {
		t.Fatal(err)
	}
	masters := []*Master{joinMasters(t, r, etcd), joinMasters(t, r, etcd)}
	if a, b := page(masters[0], "/role"), page(masters[1], "/role"); a != "leader" || b != "standby" {
		t.Fatalf("the masters are %s and %s", a, b)
	}
	if code := status(masters[1], "/get_all_keys"); code != http.StatusServiceUnavailable {
		t.Errorf("a standby lists keys: %d", code)
	}
	address := "etcd://" + etcd
	startStore(t, r, R13, StoreOptions{Master: address, SegmentBytes: 256 * mib})
	writer := startStore(t, r, R13, StoreOptions{Master: address})
	reader := startStore(t, r, R14, StoreOptions{Master: address})
	var items []Item
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		stop, done := make(chan struct{}), make(chan error, 1)
		var w writing
		go func() {
			var err error
			w, err = writeSteadily(writer, sig.String(), stop)
			done <- err
		}()
		time.Sleep(2 * time.Second)
		began := time.Now()
		if err := masters[0].Signal(sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "the standby to lead", func() bool {
			return strings.Contains(page(masters[1], "/health"), `"service_ready":true`)
		})
		served := time.Since(began)
		time.Sleep(8 * time.Second) // a wheel tries a dead address for 4.3 s
		close(stop)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		t.Logf("%v: the other serves after %v; %d puts acknowledged, %d failed; longest gap %v, longest put %v",
			sig, served.Round(time.Millisecond), len(w.acked), w.failed, w.gap.Round(time.Millisecond), w.worst.Round(time.Millisecond))
		if len(w.acked) < 200 {
			t.Errorf("%v: only %d puts were acknowledged", sig, len(w.acked))
		}
		items = append(items, w.acked...)
		readAll(t, []*Store{writer, reader}, items)
		if sig == syscall.SIGTERM {
			if code, err := masters[0].ExitCode(20 * time.Second); err != nil || code != 0 {
				t.Errorf("the leader that was asked to leave ends with %d, %v", code, err)
			}
			if w.failed > 0 {
				t.Errorf("%d puts failed in a hand-over", w.failed)
			}
		}
		masters = []*Master{masters[1], joinMasters(t, r, etcd)}
	}
}
