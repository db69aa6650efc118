package interop

import (
	"testing"
	"time"
)

// TestUnderOriginalMasters runs our segment daemon under the wheels' own masters: faults of our two halves show apart.
func TestUnderOriginalMasters(t *testing.T) {
	beside(t, works)
	eachRelease(t, func(t *testing.T, release Release) {
		r := newRig(t)
		m := startMaster(t, r, MasterOptions{Release: release})
		s := startSegment(t, r, m, 1, SegmentOptions{SizeBytes: 256 * mib})
		runBundleCases(t, joinTraining(t, r, m, release, release, ""))
		leaves(t, m, s)
	})
}

// leaves stops a segment daemon in good order: the master forgets the segment at once, not after the client TTL.
func leaves(t *testing.T, m *Master, s *Segment) {
	t.Helper()
	if err := s.Stop(stopGrace); err != nil {
		t.Fatal(err)
	}
	if left, err := m.SegmentsDetail(); err != nil || len(left) != 0 {
		t.Fatalf("segments after the daemon has left: %+v, %v", left, err)
	}
	if code, err := s.ExitCode(60 * time.Second); !replaced("segment") && (err != nil || code != 0) {
		t.Fatalf("exit code %d, %v", code, err)
	}
}
