package master

import (
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
)

// TestClockFitsTheCatalog looks at the clock that all other tests of the catalog replace: its times, and those of the next
// ten years, are such as the catalog can tell apart.
func TestClockFitsTheCatalog(t *testing.T) {
	now := NewClock().Now()
	if now <= 0 || now+10*365*24*3600*1000 > catalog.TimeMax {
		t.Fatalf("it is %d, and the catalog knows times up to %d", now, catalog.TimeMax)
	}
	for _, wall := range []time.Time{time.Unix(0, 0), time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if at := newClock(wall, time.Now()).Now(); at <= 0 || at > catalog.TimeMax {
			t.Errorf("a clock started at %v shows %d", wall, at)
		}
	}
}

// TestEvictionByTheClock lets the eviction work with times of the real clock: what is leased is not in the way of what may
// go, and the oldest goes first.
func TestEvictionByTheClock(t *testing.T) {
	b := newBed(t, func(c *Config) { c.LeaseTTL, c.HighWatermark = time.Hour, 1 })
	p := b.client(wire.V13)
	p.mount("node", 1<<44, 1000)
	p.put("leased", 300)
	expect(t, "get", p.get("leased").Err, 0)
	for _, key := range []string{"a", "b"} {
		p.put(key, 300)
		start := b.service.clock.Now()
		waitFor(t, "another age", func() bool { return b.service.clock.Now() > start+200 })
	}
	p.put("c", 300)
	for key, want := range map[string]bool{"leased": true, "a": false, "b": true, "c": true} {
		expect(t, "exist of "+key, p.exists(key), want)
	}
}

// TestFullPoolBesideASilentClient has a pool above its watermark of which nothing may go, and objects that nobody may see for
// the time being: the background eviction passes them by, and the master goes on.
func TestFullPoolBesideASilentClient(t *testing.T) {
	b := newBed(t, shortTimes, func(c *Config) {
		c.ClientSuspicionTTL, c.LeaseTTL, c.HighWatermark, c.EvictionRatio = time.Hour, time.Hour, 0.5, 0.1
	})
	silent, other := b.client(wire.V13), b.client(wire.V13)
	silent.mount("silent", 1<<44, 1000)
	putOn(t, other, "hidden", "silent")
	waitFor(t, "the suspicion", func() bool { return b.stageOf(silent) == catalog.StageSuspected })
	other.mount("kept", 1<<45, 1000)
	for _, key := range []string{"a", "b"} {
		other.put(key, 400)
		expect(t, "get of "+key, other.get(key).Err, 0)
	}
	for range 3 {
		attempts := b.service.Stats().EvictionAttempts
		waitFor(t, "another round of the eviction", func() bool {
			other.ping()
			return b.service.Stats().EvictionAttempts > attempts
		})
	}
	expect(t, "the hidden object", other.get("hidden").Err, wire.ErrReplicaIsNotReady)
	expect(t, "the leased object", other.get("a").Err, 0)
}
