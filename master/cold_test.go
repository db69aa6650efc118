package master

import (
	"fmt"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// newHotWorld copies what is read eight times in ten seconds.
func newHotWorld(t *testing.T, most int) *healWorld {
	t.Helper()
	w := newHealWorld(t, 4, mib, func(c *Config) {
		c.DynamicMode, c.HeatWindow, c.AdmissionQPS, c.MaxMemoryReplicas = dynamicEnforce, 10*time.Second, 0.8, most
	})
	w.pass(limits.HealTrimAfterMs * time.Millisecond) // segments that have been there for a while
	return w
}

// read reads a key so often a second, for some seconds.
func (w *healWorld) read(key string, aSecond, seconds int) {
	w.t.Helper()
	for range seconds {
		for range aSecond {
			_, replicas, err := w.s.cat.Get(w.now, key, nil)
			if err != nil {
				w.t.Fatal(err)
			}
			w.s.heat.read(w.now, "", key, key, len(replicas))
		}
		w.pass(time.Second)
	}
}

// TestHotObjectsCoolDown reads one object much: it gets a copy on another machine, keeps it as long as it is read half as much,
// and loses it when it is not.
func TestHotObjectsCoolDown(t *testing.T) {
	w := newHotWorld(t, 2)
	w.mustPut("k", 1000, 1, false, 0)
	w.mustPut("quiet", 1000, 1, false, 0)
	w.read("k", 2, 30)
	expect(t, "copies when it is hot", w.live()["k"], 2)
	if at := w.hostsOf("k"); at[1] == at[3] {
		t.Errorf("both copies on %s", at)
	}
	expect(t, "hot objects", w.s.Healing().Hot, int64(1))
	w.read("k", 1, 120)
	expect(t, "copies while it is read", w.live()["k"], 2)
	w.pass(15 * time.Second)
	expect(t, "copies after a pause", w.live()["k"], 2)
	w.pass(2 * time.Minute)
	expect(t, "copies when it is cold", w.live()["k"], 1)
	expect(t, "copies of the other", w.live()["quiet"], 1)
	info := w.s.Healing()
	if info.Hot != 0 || info.Made != 1 || info.Dropped != 1 || info.Trimmed != 0 {
		t.Errorf("%+v", info)
	}
	w.read("k", 2, 100)
	expect(t, "copies when it is hot again", w.live()["k"], 2)
}

// TestHotCopiesAreBounded reads more than ever: there are as many copies as the flag says, and when it is cold as many as it was
// put with. The healing takes none of them away meanwhile.
func TestHotCopiesAreBounded(t *testing.T) {
	w := newHotWorld(t, 3)
	w.mustPut("k", 1000, 2, false, 0, 1)
	w.read("k", 5, 300)
	expect(t, "copies when it is hot", w.live()["k"], 3)
	info := w.s.Healing()
	if info.Trimmed != 0 || info.Made != 1 {
		t.Errorf("%+v", info)
	}
	w.pass(3 * time.Minute)
	expect(t, "copies when it is cold", w.live()["k"], 2)
}

// TestHotCopiesOfOthers has copies on demand of objects that are leased all the time, hard pinned, written anew and removed.
func TestHotCopiesOfOthers(t *testing.T) {
	w := newHotWorld(t, 2)
	w.mustPut("pinned", 1000, 1, true, 0)
	w.mustPut("leased", 1000, 1, false, 0)
	w.mustPut("gone", 1000, 1, false, 0)
	for range 30 {
		for _, key := range []string{"pinned", "leased", "gone"} {
			for range 2 {
				_, replicas, err := w.s.cat.Get(w.now, key, nil)
				if err != nil {
					t.Fatal(err)
				}
				w.s.heat.read(w.now, "", key, key, len(replicas))
			}
		}
		w.pass(time.Second)
	}
	for key, n := range w.live() {
		expect(t, "copies of "+key, n, 2)
	}
	if err := w.s.cat.Remove(w.now, "gone", true); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		if _, _, err := w.s.cat.Get(w.now, "leased", nil); err != nil { // but for the heat: a lease is not more than one read
			t.Fatal(err)
		}
		w.pass(4 * time.Second)
	}
	expect(t, "copies of the leased one", w.live()["leased"], 2)
	expect(t, "copies of the pinned one", w.live()["pinned"], 2)
	w.pass(2 * time.Minute)
	expect(t, "copies when the lease is over", w.live()["leased"], 1)
	expect(t, "copies of the pinned one", w.live()["pinned"], 2)
	expect(t, "remembered", w.s.Healing().Hot, int64(0))
}

// TestHeatIsBounded makes no copies that could not be taken away again.
func TestHeatIsBounded(t *testing.T) {
	w := newHotWorld(t, 2)
	w.mustPut("k", 1000, 1, false, 0)
	w.s.heat.grown.Store(limits.HeatGrown)
	w.read("k", 3, 30)
	expect(t, "copies", w.live()["k"], 1)
}

// TestHeatWindows looks at how reads are judged: fewer than half of what makes hot, three whole windows in a row.
func TestHeatWindows(t *testing.T) {
	h := newHeat(&Config{DynamicMode: dynamicEnforce, HeatWindow: 10 * time.Second, AdmissionQPS: 0.8, MaxMemoryReplicas: 2})
	now, colds := catalog.Time(1_000_000), ""
	h.grew("k", 7)
	for _, reads := range []int{0, 3, 4, 3, 3, 3, 0} { // the first window had begun before
		colds += fmt.Sprint(len(h.cooled(now)))
		expect(t, "once a window", len(h.cooled(now+9999)), 0)
		for range reads {
			h.read(now, "", "k", "k", 2)
		}
		now += 10_000
	}
	expect(t, "cold", colds, "0000001")
	h.shrink("k", 0)
	h.shrink("k", 0)
	expect(t, "remembered", h.grown.Load(), int64(0))
	off := newHeat(&Config{DynamicMode: dynamicOff})
	off.grew("k", 7)
	expect(t, "remembered without copies on demand", off.grewOf("k"), false)
}
