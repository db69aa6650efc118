package master

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// putTwice stores an object on two segments.
func (p *peer) putTwice(key string, size uint64, segments ...string) {
	p.t.Helper()
	cfg := wire.ReplicateConfig{ReplicaNum: 2, PreferredSegments: segments}
	if rep := invoke(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id, Key: key, Size: size, Config: cfg}); rep.Err != 0 {
		p.t.Fatalf("put start of %s: %v", key, rep.Err)
	}
	expect(p.t, "put end", p.putEnd(key), 0)
}

// leave takes a segment away, as a client that ends does.
func (p *peer) leave(seg wire.Segment) {
	p.t.Helper()
	expect(p.t, "unmount", invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg.ID, ClientID: p.id}).Err, 0)
}

func (b *bed) healing() HealInfo { return b.service.Healing() }

// hostsOf lists where the copies of an object lie, each host as often as it has one.
func hostsOf(list []wire.ReplicaDescriptor) (hosts []string) {
	for i := range list {
		hosts = append(hosts, list[i].DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint)
	}
	slices.Sort(hosts)
	return hosts
}

// TestHealing takes one of three segments away: what had a copy there gets another one, on a host without.
func TestHealing(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q, r := b.client(p.d), b.client(p.d)
		doomed := p.mount("a", 1<<44, mib)
		q.mount("b", 1<<45, mib)
		r.mount("c", 1<<46, mib)
		var keys []string
		for i := range 30 {
			keys = append(keys, fmt.Sprintf("k%d", i))
			q.putTwice(keys[i], 1000)
		}
		q.put("single", 1000)
		p.leave(doomed)
		waitFor(t, "everything has two copies", func() bool {
			q.work()
			r.work()
			return !slices.ContainsFunc(keys, func(key string) bool {
				rep := q.get(key)
				return rep.Err != 0 || len(rep.Value.Replicas) != 2
			})
		})
		for _, key := range keys {
			expect(t, key, fmt.Sprint(hostsOf(q.get(key).Value.Replicas)), "[b:15001 c:15001]")
		}
		waitFor(t, "the end is known", func() bool { i := b.healing(); return i.Copying == 0 && i.Waiting == 0 })
		info := b.healing()
		expect(t, "bytes", info.Bytes, 1000*info.Objects)
		if info.Objects == 0 || info.Objects > 30 || info.Failures != 0 || info.Unhelped != 0 {
			t.Errorf("%+v", info)
		}
		status, page := b.ask(http.MethodGet, "/api/v1/healing", "")
		expect(t, "page", status, http.StatusOK)
		expect(t, "copied objects", page["copied_objects"], any(float64(info.Objects)))
	})
}

// TestHealingWaitsForAHost has two hosts, of which one goes: there is nowhere to copy to until another one comes.
func TestHealingWaitsForAHost(t *testing.T) {
	b := newBed(t)
	p, q, r := b.client(wire.V13), b.client(wire.V13), b.client(wire.V13)
	doomed := p.mount("a", 1<<44, mib)
	q.mount("b", 1<<45, mib)
	q.putTwice("k", 1000)
	p.leave(doomed)
	waitFor(t, "it cannot be helped", func() bool { return b.healing().Unhelped == 1 })
	expect(t, "asked of its owner", len(q.fetchSome(10)), 0)
	r.mount("c", 1<<46, mib)
	waitFor(t, "another copy", func() bool { q.work(); return len(q.get("k").Value.Replicas) == 2 })
	expect(t, "where", fmt.Sprint(hostsOf(q.get("k").Value.Replicas)), "[b:15001 c:15001]")
}

// TestPartialPutIsHealed puts with more copies than there are hosts: the missing one is made when another host comes.
func TestPartialPutIsHealed(t *testing.T) {
	b := newBed(t)
	p, q := b.client(wire.V14), b.client(wire.V14)
	p.mount("a", 1<<44, mib)
	p.putTwice("k", 1000)
	expect(t, "copies", len(p.get("k").Value.Replicas), 1)
	q.mount("b", 1<<45, mib)
	waitFor(t, "another copy", func() bool { p.work(); return len(p.get("k").Value.Replicas) == 2 })
}

// TestHealingOff asks nobody.
func TestHealingOff(t *testing.T) {
	b := newBed(t, func(c *Config) { c.Heal = false })
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	p.putTwice("k", 1000)
	q.mount("b", 1<<45, mib)
	b.service.stepHeal(b.service.clock.Now())
	expect(t, "tasks", len(p.fetchSome(10)), 0)
	expect(t, "looks", b.healing().Looks, uint64(0))
}

// TestHealingIsBounded asks for no more at a time than the bounds say.
func TestHealingIsBounded(t *testing.T) {
	b := newBed(t, func(c *Config) { c.HealTasks = 3 })
	p, q := b.client(wire.V13), b.client(wire.V13)
	p.mount("a", 1<<44, mib)
	for i := range 10 {
		p.putTwice(fmt.Sprintf("k%d", i), 1000)
	}
	q.mount("b", 1<<45, mib)
	waitFor(t, "three are asked for", func() bool { return b.healing().Copying == 3 })
	b.service.stepHeal(b.service.clock.Now())
	expect(t, "waiting", b.healing().Waiting, 7)
	expect(t, "tasks", len(p.fetchSome(100)), 3)
}

// TestHealOrder looks at what comes first: fewest copies, then bundle by bundle.
func TestHealOrder(t *testing.T) {
	h := &healer{found: []catalog.Thin{
		{Key: "b", Copies: 2}, {Key: "z", Copies: 1}, {Key: "a", Copies: 2}, {Key: "c", Copies: 1},
	}}
	h.cut()
	var keys string
	for _, t := range h.found {
		keys += t.Key
	}
	expect(t, "order", keys, "czab")
	h.found = make([]catalog.Thin, limits.HealQueue+5)
	h.cut()
	expect(t, "kept", len(h.found), limits.HealQueue)
	expect(t, "more to do", h.unhelped, 1)
}

// TestHealBudget lets as many bytes through as the bandwidth says, and never more than a second's worth at once.
func TestHealBudget(t *testing.T) {
	h := &healer{bandwidth: 1000}
	for _, c := range []struct{ now, want int64 }{{5000, 1000}, {5500, 1000}, {9000, 1000}} {
		h.fill(catalog.Time(c.now))
		expect(t, "budget", h.budget, c.want)
	}
	h.budget = -700
	h.fill(9500)
	expect(t, "after half a second", h.budget, int64(-200))
}

// TestHealPlaces looks at where copies go.
func TestHealPlaces(t *testing.T) {
	h := &healer{coming: map[string]uint64{"busy": 500}, full: limits.HealFullShare}
	targets := []healTarget{
		{"same", "x", 0, 1000, 1000},
		{"full", "y", 900, 1000, 100},
		{"busy", "z", 0, 1000, 1000},
		{"free", "u", 400, 1000, 600},
		{"free2", "u", 0, 1000, 10},
		{"holes", "v", 0, 1000, 20},
	}
	copies := []catalog.Copy{{Host: "x"}}
	for _, c := range []struct {
		wanted int
		want   string
	}{{2, "[free]"}, {3, "[free busy]"}, {9, "[free busy]"}, {1, "[]"}} {
		expect(t, "places", fmt.Sprint(h.places(&catalog.Thin{Size: 50, Copies: 1, Wanted: c.wanted}, copies, targets)), c.want)
	}
}

// TestHealSettings refuses what means nothing.
func TestHealSettings(t *testing.T) {
	for _, edit := range []func(*Config){
		func(c *Config) { c.HealTasks = 0 }, func(c *Config) { c.HealTasks = limits.HealTasksMax + 1 },
		func(c *Config) { c.HealBandwidth = 1 }, func(c *Config) { c.HealBandwidth = limits.HealBandwidthMax + 1 },
	} {
		cfg := DefaultConfig()
		edit(&cfg)
		if err := cfg.Validate(); err == nil {
			t.Errorf("%d tasks and %d bytes a second are taken", cfg.HealTasks, cfg.HealBandwidth)
		}
	}
}
