package catalog

import "testing"

// TestRetune lowers the watermark of a pool in use: the next sweep evicts down to it. The life of soft pins follows as well.
func TestRetune(t *testing.T) {
	cfg := testConfig()
	cfg.HighWatermark, cfg.EvictionRatio = 0.9, 0.1
	c := newTest(t, cfg)
	wantErr(t, "mount", c.MountSegment(1, alice, segmentNo(1, 1000)), 0)
	for _, key := range []string{"a", "b", "c", "d"} {
		if _, err := c.PutStart(2, bob, key, 200, &PutOptions{Replicas: 1}, nil); err != nil {
			t.Fatal(err)
		}
		wantErr(t, "end", c.PutEnd(2, bob, key, 0, false, ReplicaTypeAll), 0)
	}
	c.Sweep(100)
	if n := c.Stats().EvictedKeys; n != 0 {
		t.Fatalf("%d evicted below the watermark", n)
	}
	c.Retune(Tuning{HighWatermark: 0.5, EvictionRatio: 0.1, SoftPinMs: 77})
	c.Sweep(200)
	if st := c.Stats(); st.EvictedKeys != 2 {
		t.Errorf("%d evicted above the new one, want 2", st.EvictedKeys)
	}
	if c.cfg.SoftPinMs != 77 || c.cfg.AllowEvictSoftPinned {
		t.Errorf("%+v", c.cfg)
	}
}
