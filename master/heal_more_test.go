package master

import (
	"testing"
	"time"
)

// TestHealingOfMoreThanOne misses two copies while there is one machine that takes any: the other copy is made when there is
// another one, though no segment came or went meanwhile.
func TestHealingOfMoreThanOne(t *testing.T) {
	w := newHealWorld(t, 3, mib)
	w.mustPut("k", 1000, 3, false, 0, 1, 2)
	w.unmount(w.hosts[1])
	w.pass(time.Second)
	w.mount(w.hosts[1], mib)
	for range 5 { // longer each time until it is trusted
		w.unmount(w.hosts[2])
		w.pass(time.Second)
		w.mount(w.hosts[2], mib)
		w.pass(time.Second)
	}
	w.pass(40 * time.Second)
	expect(t, "copies while the third machine is not trusted", w.live()["k"], 2)
	w.pass(5 * time.Minute)
	expect(t, "copies", w.live()["k"], 3)
}
