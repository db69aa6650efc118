//go:build rdmavm

package interop

import "testing"

// TestGuestCopies lets a published master have objects copied from one daemon to another, and to a client's own memory. The
// copies are read when the originals are gone.
func TestGuestCopies(t *testing.T) {
	releases := []Release{R13}
	switch {
	case *soak:
		releases = []Release{R13, R14}
	case *only != 0:
		releases = Releases
	}
	for _, release := range releases {
		t.Run(release.String(), func(t *testing.T) { testCopies(t, release) })
	}
}

func testCopies(t *testing.T, release Release) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{Release: release})
	source := rdmaSegment(t, r, m, 1, SegmentOptions{})
	from := segments(t, m, 1)[0].Name
	target := rdmaSegment(t, r, m, 2, SegmentOptions{Devices: "rxe1"})
	to := ""
	for _, s := range segments(t, m, 2) {
		if s.Name != from {
			to = s.Name
		}
	}
	process := guests.client(t, patient, release)
	owner := rdmaStore(t, process, StoreOptions{Name: t.Name() + " owner", Master: m.RPC, SegmentBytes: 16 * mib})
	segments(t, m, 3)
	reader := rdmaStore(t, process, StoreOptions{Master: m.RPC})
	items := rdmaItems("copied/", 1, 81921, 5_000_001)
	for _, i := range items {
		put(t, reader, i, Config{"preferred_segment": from})
		if at := replicas(t, reader, i.Key); len(at) != 1 {
			t.Fatalf("%q lies at %+v", i.Key, at)
		}
		var answer []any
		if err := reader.Call(&answer, "create_copy_task", i.Key, []string{to, owner.Hostname}); err != nil {
			t.Fatal(err)
		}
		if code, ok := answer[len(answer)-1].(float64); !ok || code != codeOK {
			t.Fatalf("create_copy_task: %v", answer)
		}
	}
	for _, i := range items {
		eventually(t, faultLimit, "three copies of "+string(i.Key), func() bool {
			at, err := reader.Replicas(i.Key)
			return err == nil && len(at) == 3
		})
	}
	if written, err := source.Metric("mooncake_go_segment_task_writes_over_tcp_total"); err != nil || written != 0 {
		t.Errorf("%v copies went over TCP, %v", written, err)
	}
	unharmed(t, source)
	for n, leaving := range []*Segment{source, target} {
		if err := leaving.Stop(stopGrace * slowness); err != nil {
			t.Fatal(err)
		}
		segments(t, m, 2-n)
		getAll(t, reader, items)
	}
}
