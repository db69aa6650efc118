package interop

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestCopiesAndMoves lets clients of each release, and our daemon, copy and move objects for the master: the bytes are the
// same wherever they are read.
func TestCopiesAndMoves(t *testing.T) {
	beside(t, waits)
	eachRelease(t, func(t *testing.T, release Release) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{})
		a := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 48 * mib})
		b := startStore(t, r, release, StoreOptions{Master: m.RPC, SegmentBytes: 48 * mib})
		segments(t, m, 2)
		copied := Item{Key: "copied", Size: 2*mib + 7, Seed: 1}
		put(t, a, copied, Config{"preferred_segment": a.Hostname})
		asks(t, b, "create_copy_task", []any{copied.Key, []string{b.Hostname}})
		eventually(t, 60*time.Second, "a second copy", func() bool { return len(replicas(t, b, copied.Key)) == 2 })
		moved := Item{Key: "moved", Size: mib + 3, Seed: 2}
		put(t, a, moved, Config{"preferred_segment": a.Hostname})
		from := replicas(t, a, moved.Key)
		asks(t, b, "create_move_task", []any{moved.Key, a.Hostname, b.Hostname})
		eventually(t, 60*time.Second, "it is elsewhere", func() bool {
			at := replicas(t, b, moved.Key)
			return len(at) == 1 && at[0].Endpoint != from[0].Endpoint
		})
		get(t, a, moved)
		get(t, b, moved)
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		segments(t, m, 1)
		get(t, b, copied)
		get(t, b, moved)
	})
}

// asks calls a method that answers with an id and a code.
func asks(t *testing.T, s *Store, method string, args []any) {
	t.Helper()
	var answer []json.RawMessage
	if err := s.Do("call", map[string]any{"method": method, "args": args}, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer) != 2 || string(answer[1]) != "0" {
		t.Fatalf("%s: %s", method, answer)
	}
}

// TestDrain moves everything off one of our daemons onto another while clients of each release read.
func TestDrain(t *testing.T) {
	r := newRig(t)
	m := startMaster(t, r, MasterOptions{Flags: []string{"--default_kv_lease_ttl=500"}})
	startSegment(t, r, m, 1, SegmentOptions{})
	first := segments(t, m, 1)[0].Name
	var stores []*Store
	for _, release := range Releases {
		stores = append(stores, startStore(t, r, release, StoreOptions{Master: m.RPC}))
	}
	items := itemsOf("drained/", 12, func(i int) int64 { return int64(i)*100_000 + 1 })
	for n, i := range items {
		put(t, stores[n%len(stores)], i, nil)
	}
	startSegment(t, r, m, 2, SegmentOptions{})
	segments(t, m, 2)
	text, err := m.Request("POST", "/api/v1/drain_jobs", fmt.Sprintf(`{"segments":[%q]}`, first))
	if err != nil {
		t.Fatal(err)
	}
	var job struct {
		ID     string `json:"job_id"`
		Status string `json:"status_name"`
		Moved  int    `json:"succeeded_units"`
	}
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	for n, i := range items {
		get(t, stores[n%len(stores)], i)
	}
	eventually(t, 60*time.Second, "everything is moved", func() bool {
		text, err := m.Page("/api/v1/drain_jobs/query?job_id=" + job.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			t.Fatal(err)
		}
		return job.Status == "SUCCEEDED"
	})
	if job.Moved != len(items) {
		t.Errorf("%d of %d objects were moved", job.Moved, len(items))
	}
	for n, i := range items {
		get(t, stores[(n+1)%len(stores)], i)
	}
}
