package interop

import (
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// readiness is what /readyz says.
type readiness struct {
	status  int
	Ready   bool   `json:"ready"`
	Role    string `json:"role"`
	Applied uint64 `json:"applied_sequence"`
	Newest  uint64 `json:"leader_sequence"`
	Objects uint64 `json:"objects"`
}

func readinessOf(t *testing.T, m *Master) (r readiness) {
	t.Helper()
	resp, err := http.Get("http://" + m.Admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	r.status = resp.StatusCode
	return r
}

// TestReadinessOfAStandby takes etcd away from a standby while objects are written: it says that it could not be promoted for
// as long as that lasts, and then that it could; how far it is and what it would serve is what the leader has.
func TestReadinessOfAStandby(t *testing.T) {
	beside(t, elects)
	r := newRig(t)
	members, etcd := startEtcds(t, r)
	leader := joinMasters(t, r, etcd)
	standby := startIsland(t, r, members)
	l := startLoad(t, leader.RPC)
	var over atomic.Bool
	var writing sync.WaitGroup
	writing.Go(func() { l.pairs(0, 10, 1000, func() bool { return !over.Load() }) })
	end := sync.OnceFunc(func() { over.Store(true); writing.Wait() })
	defer end()
	goesOn := func(than uint64) {
		t.Helper()
		eventually(t, 60*time.Second, "the standby to read on", func() bool {
			s := readinessOf(t, standby.Master)
			return s.status == http.StatusOK && s.Ready && s.Role == "standby" && s.Applied > than
		})
	}
	goesOn(10)
	var times figures
	standby.cut()
	began := time.Now()
	eventually(t, 60*time.Second, "the standby not to be ready", func() bool {
		s := readinessOf(t, standby.Master)
		return s.status == http.StatusServiceUnavailable && !s.Ready
	})
	times.add(unreadyAfterCut, time.Since(began))
	stays := time.Now().Add(time.Duration(repeat(3, 10)) * time.Second)
	for time.Now().Before(stays) { // the leader writes on, and the standby knows nothing of it
		if s := readinessOf(t, standby.Master); s.status != http.StatusServiceUnavailable {
			t.Fatalf("without etcd: %+v", s)
		}
		time.Sleep(50 * time.Millisecond)
	}
	behind := readinessOf(t, standby.Master)
	if ahead := readinessOf(t, leader); ahead.Applied <= behind.Applied {
		t.Errorf("the leader is at %d, the standby without etcd at %d", ahead.Applied, behind.Applied)
	}
	standby.join()
	goesOn(behind.Applied)
	end()
	eventually(t, 60*time.Second, "the standby to have what the leader has", func() bool {
		a, b := readinessOf(t, leader), readinessOf(t, standby.Master)
		return b.status == http.StatusOK && a.Applied == b.Applied && a.Applied == b.Newest && a.Objects == b.Objects && a.Objects > 0
	})
	times.tell(t, map[string]time.Duration{unreadyAfterCut: 3 * time.Second})
}

const unreadyAfterCut = "from the cut until a standby says that it is not ready"
