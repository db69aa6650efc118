package catalog

import "testing"

// TestReuseWithinOneMillisecond takes the same range from readers again and again while the clock stands still, so that
// every stay in quarantine looks like the one before.
func TestReuseWithinOneMillisecond(t *testing.T) {
	c := newTest(t, testConfig())
	if err := c.MountSegment(1, alice, segmentNo(1, 300)); err != nil {
		t.Fatal(err)
	}
	snatch := func(key string, size uint64) {
		t.Helper()
		if _, err := c.PutStart(5, bob, key, size, one(), nil); err != nil {
			t.Fatal(key, err)
		}
		wantErr(t, "end", c.PutEnd(5, bob, key, 0, false, ReplicaTypeAll), 0)
		if _, _, err := c.Get(5, key, nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "remove", c.Remove(5, key, true), 0)
	}
	for range 20 {
		snatch("a", 100)
		snatch("b", 100)
		snatch("c", 100)
		snatch("whole", 300)
	}
	if st := c.Stats(); st.QuarantinedBytes != 300 || st.HandOutReuses == 0 || st.AllocatedBytes != 0 {
		t.Errorf("%+v", st)
	}
	c.Sweep(10_005)
	if st := c.Stats(); st.QuarantinedBytes != 0 || len(c.s.heldBack.handOuts) != 0 || len(c.s.heldBack.ends) != 0 {
		t.Errorf("%+v", st)
	}
}

// TestReuseStopsLooking reads more ranges than a put looks at one by one: it then takes the best window instead.
func TestReuseStopsLooking(t *testing.T) {
	c := newTest(t, testConfig())
	c.tries = 3
	if err := c.MountSegment(1, alice, segmentNo(1, 1000)); err != nil {
		t.Fatal(err)
	}
	putMany(t, c.Catalog, 5, "k", 10, one())
	for _, i := range "0123456789" {
		if _, _, err := c.Get(Time(10+i%3), "k"+string(i), nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "remove", c.Remove(20, "k"+string(i), true), 0)
	}
	replicas, err := c.PutStart(21, bob, "big", 600, one(), nil)
	if err != nil || c.Stats().HandOutReuses != 6 {
		t.Fatal(replicas, err, c.Stats().HandOutReuses)
	}
}
