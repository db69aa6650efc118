package interop

import (
	"slices"
	"testing"
	"time"
)

// Codes of the clients that the tests name.
const (
	codeOK         = 0
	codeNoHandle   = -200
	codeInvalid    = -600
	codeNotReady   = -703
	codeNotFound   = -704
	codeHasLease   = -706
	codeLeaseEnded = -707
)

const mib = 1 << 20

// The functions of this file are single steps of a test: they fail it with what was expected and what came.

func startMaster(t *testing.T, r *Rig, o MasterOptions) *Master {
	t.Helper()
	m, err := r.StartMaster(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// startSegment starts a segment daemon and waits until the master knows it as the n-th segment.
func startSegment(t *testing.T, r *Rig, m *Master, n int, o SegmentOptions) *Segment {
	t.Helper()
	o.Master = m.RPC
	if o.SizeBytes == 0 {
		o.SizeBytes = 256 * mib
	}
	s, err := r.StartSegment(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.WaitSegments(n, startLimit*slowness); err != nil {
		t.Fatal(err)
	}
	return s
}

func startStore(t *testing.T, r *Rig, release Release, o StoreOptions) *Store {
	t.Helper()
	c, err := r.StartClient(release)
	if err != nil {
		t.Fatal(err)
	}
	return setup(t, c, o)
}

func setup(t *testing.T, c *Client, o StoreOptions) *Store {
	t.Helper()
	st, code, err := c.Setup(o)
	if err != nil {
		t.Fatal(err)
	}
	if code != codeOK {
		t.Fatalf("setup of %s: code %d", c.Release.Version(), code)
	}
	return st
}

func put(t *testing.T, s *Store, i Item, c Config) {
	t.Helper()
	putCode(t, s, i, c, codeOK)
}

func putCode(t *testing.T, s *Store, i Item, c Config, want int) {
	t.Helper()
	code, err := s.Put(i, c)
	if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Fatalf("put %q, %d bytes: code %d, want %d", i.Key, i.Size, code, want)
	}
}

func get(t *testing.T, s *Store, i Item) {
	t.Helper()
	got, err := s.Get(i)
	if err != nil {
		t.Fatal(err)
	}
	if got.Size != i.Size || !got.Same {
		t.Fatalf("get %q: %d bytes (want %d), same=%v", i.Key, got.Size, i.Size, got.Same)
	}
}

// absent reads an object that must not be there: the clients answer with no bytes.
func absent(t *testing.T, s *Store, k Key) {
	t.Helper()
	got, err := s.Get(Item{Key: k})
	if err != nil {
		t.Fatal(err)
	}
	if got.Size != 0 {
		t.Fatalf("get %q: %d bytes, want none", k, got.Size)
	}
}

// callWant runs a method that answers with a number (or bool) and compares it.
func callWant(t *testing.T, s *Store, want int, method string, args ...any) {
	t.Helper()
	var got int
	if err := s.Call(&got, method, args...); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("%s(%v): %d, want %d", method, args, got, want)
	}
}

// callWantAll runs a method that answers with a list of numbers and compares it.
func callWantAll(t *testing.T, s *Store, want []int, method string, args ...any) {
	t.Helper()
	var got []int
	if err := s.Call(&got, method, args...); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: %v, want %v", method, got, want)
	}
}

func putBundle(t *testing.T, s *Store, b Bundle) Handle {
	t.Helper()
	h, _, _, err := s.PutBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func getBundle(t *testing.T, s *Store, h Handle, b Bundle) {
	t.Helper()
	diff, _, err := s.GetBundle(h, b, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff != "" {
		t.Fatalf("bundle of %d rows differs: %s", b.Rows, diff)
	}
}

func cleanBundle(t *testing.T, s *Store, h Handle) {
	t.Helper()
	if err := s.CleanBundle(h); err != nil {
		t.Fatal(err)
	}
}

func keysOf(t *testing.T, m *Master, prefix string) []string {
	t.Helper()
	keys, err := m.Keys(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func metric(t *testing.T, m *Master, name string) float64 {
	t.Helper()
	v, err := m.Metric(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sample reads a sample with labels.
func sample(t *testing.T, m *Master, series string) float64 {
	t.Helper()
	v, err := m.Sample(series)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// bundles lists the bundles that the master knows, those that are gone included.
func bundles(t *testing.T, m *Master, query string) []BundleInfo {
	t.Helper()
	list, err := m.Bundles(query)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// wantMetric compares a sample at once: what it counts has happened before.
func wantMetric(t *testing.T, m *Master, name string, want float64) {
	t.Helper()
	if got := metric(t, m, name); got != want {
		t.Fatalf("%s is %v, want %v", name, got, want)
	}
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, limit time.Duration, what string, yes func() bool) {
	t.Helper()
	limit *= slowness
	for deadline := time.Now().Add(limit); !yes(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func replicas(t *testing.T, s *Store, k Key) []Location {
	t.Helper()
	at, err := s.Replicas(k)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// segments waits for n mounted segments.
func segments(t *testing.T, m *Master, n int) []SegmentDetail {
	t.Helper()
	s, err := m.WaitSegments(n, 30*slowness*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
