package interop

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mooncake/internal/linear"
)

// The codes of published clients that say for certain what became of a removal.
const (
	codeAbsent = -704
	codeLeased = -706
)

// leastValue is added to the number of a value to get its size, by which a read tells which value it got.
const leastValue = 100

// historian makes random calls with one client and writes down what it is told.
type historian struct {
	store   *Store
	number  int
	began   time.Time
	dice    *rand.Rand
	history *linear.History
	next    func() int64 // number of another value
}

func (h *historian) now() int64 { return int64(time.Since(h.began)) }

// call makes one random call about one of a few keys.
func (h *historian) call() error {
	key := fmt.Sprintf("history/%d", h.dice.IntN(6))
	op := linear.Op{Client: h.number, Key: key, Call: h.now()}
	code, err := 0, error(nil)
	switch n := h.dice.IntN(10); {
	case n < 3:
		op.Kind, op.Value, op.Outcome = linear.Put, uint64(h.next()), linear.Either
		item := Item{Key: Key(key), Size: leastValue + int64(op.Value), Seed: int64(op.Value)}
		if code, err = h.store.Put(item, nil); code != codeOK {
			op.Outcome = linear.Unknown
		}
	case n < 6:
		got, err := h.store.Get(Item{Key: Key(key)})
		if err != nil || got.Size == 0 { // nothing, or an error: the client does not say
			return err
		}
		op.Kind, op.Value, op.Outcome = linear.Get, uint64(got.Size-leastValue), linear.Done
	case n < 9:
		err = h.store.Call(&code, "is_exist", key)
		op.Kind, op.Outcome = linear.Exist, linear.Done
		switch code {
		case 0:
			op.Outcome = linear.Absent
		case 1:
		default:
			return err
		}
	default:
		err = h.store.Call(&code, "remove", key)
		op.Kind, op.Outcome = linear.Remove, linear.Unknown
		switch code {
		case codeOK:
			op.Outcome = linear.Done
		case codeAbsent:
			op.Outcome = linear.Absent
		case codeLeased:
			return err
		}
	}
	op.Return = h.now()
	h.history.Add(op)
	return err
}

// TestHistories lets clients of two releases put, read and remove a few objects while leaders are killed, stopped and asked
// to leave, and judges what they were told: a store that loses nothing could have answered so.
func TestHistories(t *testing.T) {
	beside(t, elects)
	r := newRig(t)
	_, etcd := startEtcds(t, r)
	join := func() *Master {
		m := startMaster(t, r, MasterOptions{Flags: []string{"--enable_ha", "--ha_backend_connstring=" + etcd, "--grpc_port=0", "--default_kv_lease_ttl=300"}})
		eventually(t, startLimit, "a master to be ready", func() bool { return status(m, "/readyz") == http.StatusOK })
		return m
	}
	masters := []*Master{join(), join()}
	address := "etcd://" + etcd
	startStore(t, r, R13, StoreOptions{Master: address, SegmentBytes: 64 * mib})
	var history linear.History
	var values sync.Mutex
	last, began := int64(0), time.Now()
	stop, errs := make(chan struct{}), make(chan error, 3)
	for n, release := range []Release{R13, R13, R14} {
		h := &historian{
			store: startStore(t, r, release, StoreOptions{Master: address}), number: n, began: began,
			dice: rand.New(rand.NewPCG(uint64(n), 1)), history: &history,
			next: func() int64 { values.Lock(); defer values.Unlock(); last++; return last },
		}
		go func() {
			var err error
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for err == nil {
				select {
				case <-stop:
					errs <- nil
					return
				case <-tick.C:
					err = h.call()
				}
			}
			errs <- err
		}()
	}
	for round := range repeat(3, 30) {
		sig := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP}[round%3]
		time.Sleep(2 * time.Second)
		leader, next := masters[0], masters[1]
		if err := leader.Signal(sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "the other to lead", func() bool { return strings.Contains(page(next, "/health"), `"service_ready":true`) })
		time.Sleep(5 * time.Second) // a wheel tries a dead address for 4.3 s
		if sig == syscall.SIGSTOP {
			if err := leader.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			eventually(t, 60*time.Second, "the former leader to stand by", func() bool { return page(leader, "/role") == "standby" && status(leader, "/readyz") == http.StatusOK })
		} else {
			leader = join()
		}
		masters = []*Master{next, leader}
	}
	time.Sleep(2 * time.Second)
	close(stop)
	for range 3 {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	bad, err := history.Check(time.Minute)
	t.Logf("%d calls", history.Len())
	if err != nil {
		t.Error(err)
	}
	for _, key := range bad {
		t.Errorf("no store that loses nothing answers like this:\n%s", history.Text(key))
	}
	if history.Len() < 100 {
		t.Errorf("only %d calls were answered", history.Len())
	}
}
