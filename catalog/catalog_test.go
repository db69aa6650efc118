package catalog

import (
	"errors"
	"testing"
)

var (
	alice = UUID{1, 1}
	bob   = UUID{2, 2}
)

func segmentNo(i uint64, size uint64) Segment {
	return Segment{ID: UUID{100, i}, Name: "host:1", Base: (i + 1) << 42, Size: size, Endpoint: "127.0.0.1:1", Protocol: "tcp"}
}

func one() *PutOptions { return &PutOptions{Replicas: 1} }

func wantErr(t *testing.T, what string, got error, want Error) {
	t.Helper()
	if want == 0 && got == nil {
		return
	}
	if !errors.Is(got, want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestPutGetRemove(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(0, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	replicas, err := c.PutStart(1, bob, "k", 1000, one(), nil)
	if err != nil || len(replicas) != 1 || replicas[0].Status != ReplicaProcessing {
		t.Fatal(replicas, err)
	}
	_, _, err = c.Get(2, "k", nil)
	wantErr(t, "get before end", err, ErrNotReady)
	wantErr(t, "end by another", c.PutEnd(2, alice, "k", 0, false, ReplicaTypeAll), ErrIllegalClient)
	wantErr(t, "end", c.PutEnd(2, bob, "k", 77, true, ReplicaTypeAll), 0)
	wantErr(t, "end again", c.PutEnd(2, bob, "k", 77, true, ReplicaTypeAll), 0)
	wantErr(t, "remove, never read", c.Remove(2, "nope", true), ErrObjectNotFound)
	o, got, err := c.Get(3, "k", nil)
	if err != nil || len(got) != 1 || got[0].Offset != replicas[0].Offset || o.Checksum != 77 || o.LeaseMs != 10_000 {
		t.Fatal(o, got, err)
	}
	wantErr(t, "remove under lease", c.Remove(10_002, "k", false), ErrHasLease)
	wantErr(t, "remove after it", c.Remove(10_003, "k", false), 0)
	if st := c.Stats(); st.AllocatedBytes != 0 || st.Keys != 0 {
		t.Fatalf("%+v", st)
	}
}
