package master

import (
	"fmt"
	"testing"

	"mooncake/internal/limits"
	"mooncake/wire"
)

// shareOf is the used share of a segment.
func (b *bed) shareOf(name string) float64 {
	for _, st := range b.service.cat.AllSegments() {
		if st.Name == name {
			return float64(st.Used) / float64(st.Size)
		}
	}
	return -1
}

// TestRebalance adds an empty segment to a full one: objects move until the two are close, and then no more.
func TestRebalance(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		expect(t, "moves without the flag", b.service.healer.moves.on, false)
	})
	b := newBed(t, func(c *Config) { c.Rebalance = true })
	p, q := b.client(wire.V13), b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	for i := range 80 {
		p.put(fmt.Sprintf("k%d", i), 10_000)
	}
	q.mount("b", 1<<45, mib)
	waitFor(t, "the two are close", func() bool {
		p.work()
		q.work()
		return b.shareOf("a")-b.shareOf("b") < 2*limits.RebalanceStop && b.healing().Moving == 0
	})
	info := b.healing()
	if info.Moved < 20 || info.MovedBytes != 10_000*info.Moved || info.FailedMoves != 0 || b.shareOf("b") > b.shareOf("a")+limits.RebalanceStop {
		t.Errorf("%+v; %.2f and %.2f", info, b.shareOf("a"), b.shareOf("b"))
	}
	for i := range 80 {
		if rep := p.get(fmt.Sprintf("k%d", i)); rep.Err != 0 || len(rep.Value.Replicas) != 1 {
			t.Fatalf("k%d: %+v", i, rep)
		}
	}
}

// TestRebalanceKeepsHostsApart has objects with a copy on the host of the empty segment: they stay where they are.
func TestRebalanceKeepsHostsApart(t *testing.T) {
	b := newBed(t)
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, 64*mib)
	for i := range 50 {
		p.putTwice(fmt.Sprintf("k%d", i), 10_000)
	}
	from, to := &healTarget{"a", "a", 500_000, mib, mib}, &healTarget{"b", "b", 500_000, 64 * mib, mib}
	if _, ok := b.service.askToBalance("k1", from, to); ok {
		t.Error("both copies are to be on one host")
	}
	expect(t, "tasks", len(p.fetchSome(10)), 0)
}

// TestRebalancePair looks at which segments are taken, with what is under way.
func TestRebalancePair(t *testing.T) {
	b := balancer{shift: map[string]int64{}}
	list := []healTarget{{"half", "h", 500, 1000, 0}, {"full", "f", 900, 1000, 0}, {"empty", "e", 100, 1000, 0}}
	for _, want := range []string{"full empty 0.80", "full empty 0.20", "empty full 0.40"} {
		from, to, apart := b.pair(list)
		expect(t, "pair", fmt.Sprintf("%s %s %.2f", from.name, to.name, apart), want)
		b.moved("full", -300)
		b.moved("empty", 300)
	}
	if _, _, apart := b.pair(nil); apart != 0 {
		t.Error("no segments, and yet they are apart")
	}
	if b.moved("full", 900); len(b.shift) != 1 {
		t.Errorf("%v is kept", b.shift)
	}
}
