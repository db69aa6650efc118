package catalog

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mooncake/internal/limits"
	"pgregory.net/rapid"
)

func TestCheckWorkloads(t *testing.T) {
	long := strings.Repeat("x", limits.WorkloadTextBytes+1)
	var many []Workload
	for i := range limits.Workloads + 1 {
		many = append(many, Workload{Name: fmt.Sprint(i), Prefixes: []string{fmt.Sprint(i, "/")}})
	}
	kv := Workload{Name: "kv", Prefixes: []string{"k"}}
	for _, c := range []struct {
		list []Workload
		want string
	}{
		{nil, ""},
		{[]Workload{kv}, ""},
		{many[1:], ""},
		{many, "65 workloads, at most 64"},
		{[]Workload{{Prefixes: []string{"k"}}}, "has no name"},
		{[]Workload{{Name: long, Prefixes: []string{"k"}}}, "513 bytes, at most 64"},
		{[]Workload{{Name: "a"}}, `"a": neither prefixes nor tenants`},
		{[]Workload{{Name: "a", Prefixes: []string{long}}}, "a prefix has 513 bytes"},
		{[]Workload{{Name: "a", Tenants: []string{long}}}, "a tenant's name has 513 bytes"},
		{[]Workload{{Name: "a", Tenants: []string{""}}}, "a tenant's name has 0 bytes"},
		{[]Workload{{Name: "a", Prefixes: make([]string, 65)}}, "65 prefixes and 0 tenants"},
		{[]Workload{kv, kv}, `two workloads are named "kv"`},
		{[]Workload{kv, {Name: "b", Prefixes: []string{"k"}}}, `prefix "k" is a rule of workload "kv" already`},
		{[]Workload{{Name: "a", Prefixes: []string{"k", "k"}}}, `prefix "k" is a rule of workload "a" already`},
		{[]Workload{{Name: "a", Tenants: []string{"t"}}, {Name: "b", Tenants: []string{"t"}}}, `tenant "t" is a rule of workload "a" already`},
		{[]Workload{{Name: "a", Tenants: []string{"t"}, HardBytes: 1, SoftBytes: 2}}, "soft limit of 2 bytes above the hard limit of 1"},
		{[]Workload{{Name: "a", Tenants: []string{"t"}, HardBytes: 1, ReservedBytes: 2}}, "reservation of 2 bytes above the hard limit of 1"},
		{[]Workload{{Name: "a", Tenants: []string{"t"}, TTLMs: -1}}, "a TTL of -1 ms"},
		{[]Workload{{Name: "a", Tenants: []string{"t"}, Evict: 9}}, "unknown kind"},
		{[]Workload{{Name: "a", Tenants: []string{"t"}, Unread: 9}}, "unknown kind"},
	} {
		err := CheckWorkloads(c.list)
		switch {
		case c.want == "" && err != nil, c.want != "" && !errors.Is(err, ErrInvalidParams):
			t.Errorf("%q: %v", c.want, err)
		case c.want != "" && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%q: %v", c.want, err)
		}
	}
}

func TestKindsReadBack(t *testing.T) {
	for _, k := range []EvictKind{EvictLRU, EvictNever, EvictBundle} {
		var back EvictKind
		if text, _ := k.MarshalText(); back.UnmarshalText(text) != nil || back != k {
			t.Errorf("%v reads back as %v", k, back)
		}
	}
	for _, k := range []UnreadKind{UnreadDrop, UnreadKeep} {
		var back UnreadKind
		if text, _ := k.MarshalText(); back.UnmarshalText(text) != nil || back != k {
			t.Errorf("%v reads back as %v", k, back)
		}
	}
	evict, unread := EvictNever, UnreadKeep
	if evict.UnmarshalText(nil) != nil || unread.UnmarshalText(nil) != nil || evict != EvictLRU || unread != UnreadDrop {
		t.Errorf("nothing reads as %v and %v", evict, unread)
	}
	if evict.UnmarshalText([]byte("LRU")) == nil || unread.UnmarshalText([]byte("no")) == nil {
		t.Error("nonsense was read")
	}
}

// TestMatch compares the matcher with a naive search.
func TestMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab/]{0,6}`)
		m := &model{}
		used := map[string]bool{}
		var match matcher
		for i := range rapid.IntRange(0, 8).Draw(t, "workloads") {
			w := Workload{Name: fmt.Sprint(i)}
			for range rapid.IntRange(0, 3).Draw(t, "prefixes") {
				if p := text.Draw(t, "prefix"); !used[p] {
					used[p] = true
					w.Prefixes = append(w.Prefixes, p)
				}
			}
			if tenant := rapid.SampledFrom([]string{"", "default", "red"}).Draw(t, "tenant"); tenant != "" && !used[tenant+" tenant"] {
				used[tenant+" tenant"] = true
				w.Tenants = []string{tenant}
			}
			m.rules = append(m.rules, w)
			match.add(&w, uint8(i+1))
		}
		match.finish()
		for range 20 {
			key, tenant := text.Draw(t, "key"), rapid.SampledFrom([]string{"", "default", "red", "blue"}).Draw(t, "of")
			want, got := m.rule(&modelObject{key: key, tenant: tenant}).Name, ""
			if share := match.match(key, tenant); share > 0 {
				got = m.rules[share-1].Name
			}
			if got != want {
				t.Fatalf("%q of %q is of workload %q, the model says %q: %+v", key, tenant, got, want, m.rules)
			}
		}
	})
}

// TestManyRules changes rules more often than objects are accounted for anew, with more names than there are numbers.
func TestManyRules(t *testing.T) {
	r := newTest(t, testConfig())
	if err := r.MountSegment(0, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		key := fmt.Sprintf("%c/%d", 'a'+i%4, i)
		if _, err := r.PutStart(1, bob, key, 100, one(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		var list []Workload
		for k := range limits.Workloads {
			list = append(list, Workload{Name: fmt.Sprint(i, "-", k), Prefixes: []string{fmt.Sprintf("%c/%d", 'a'+k%4, k/4)}})
		}
		// Without the slices that SetWorkloads does: as if the leader changed in between.
		r.mu.Lock()
		r.begin()
		r.note(ChangeWorkloads, 1).Workloads = list
		r.commit()
		r.mu.Unlock()
		if n := len(r.s.shares.list); n > limits.SharesMax {
			t.Fatalf("%d shares", n)
		}
	}
	r.Sweep(2)
	kept := 0
	for i := range r.s.shares.list {
		if r.s.shares.list[i].kept {
			kept++
		}
	}
	if kept != limits.Workloads || len(r.s.shares.byName) != limits.Workloads {
		t.Errorf("%d shares are kept, %d names", kept, len(r.s.shares.byName))
	}
}

// TestOthersGetOn accounts 3,000 objects for anew until puts came in between.
func TestOthersGetOn(t *testing.T) {
	r := newTest(t, testConfig())
	if err := r.MountSegment(0, alice, segmentNo(1, 1<<30)); err != nil {
		t.Fatal(err)
	}
	const objects = 3000
	for i := range objects {
		if _, err := r.PutStart(1, bob, fmt.Sprint("k", i), 16, one(), nil); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var between atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r.mu.Lock()
			moving := r.s.shares.moving && r.s.shares.at != cursor{}
			r.mu.Unlock()
			key := fmt.Sprint("new", i%100)
			if moving {
				between.Add(1)
				_ = r.Remove(1, key, true)
				_, _ = r.PutStart(1, bob, key, 16, one(), nil)
			}
		}
	})
	last := ""
	for i := 0; between.Load() == 0; i++ {
		last = fmt.Sprint(i)
		if err := r.SetWorkloads(1, []Workload{{Name: last, Prefixes: []string{"k"}}}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if st := r.WorkloadStats(); st[0].Name != last || st[0].Keys != objects || st[0].Bytes != objects*16 {
		t.Errorf("%+v", st)
	}
}

// TestTenantsAreForgotten makes sure that names of tenants go with their objects, and that too long ones count as none.
func TestTenantsAreForgotten(t *testing.T) {
	r := newTest(t, testConfig())
	if err := r.MountSegment(0, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for i := range 50 {
			o := one()
			o.Tenant = fmt.Sprint("tenant ", round, " ", i)
			if i == 0 {
				o.Tenant = strings.Repeat("x", limits.WorkloadTextBytes+1)
			}
			if _, err := r.PutStart(1, bob, fmt.Sprint(i), 16, o, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(r.s.shares.tenantTable.byName); n != 49 {
			t.Errorf("%d names", n)
		}
		for i := range 50 {
			if err := r.Remove(1, fmt.Sprint(i), true); err != nil {
				t.Fatal(err)
			}
		}
		if tt := &r.s.shares.tenantTable; len(tt.byName) != 0 || len(tt.list) != 50 {
			t.Errorf("%d names and %d numbers are left", len(tt.byName), len(tt.list))
		}
	}
}

// TestOutdatedDeadlines replaces one object over and over: what its deadlines take does not grow.
func TestOutdatedDeadlines(t *testing.T) {
	r := newTest(t, testConfig())
	if err := r.MountSegment(0, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := r.SetWorkloads(0, []Workload{{Name: "k", Prefixes: []string{"k"}, TTLMs: 3_600_000}}); err != nil {
		t.Fatal(err)
	}
	for i := range 10 * limits.DeadlineSpare {
		now := Time(i + 1)
		r.Ping(now, alice)
		if _, err := r.UpsertStart(now, bob, "key", 16, one(), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.UpsertEnd(now, bob, "key", 0, false, ReplicaTypeAll); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			r.Sweep(now)
		}
	}
	d := &r.s.shares.list[1].deadlines
	if n := len(d.heap) + len(d.former); n > 2*limits.DeadlineSpare {
		t.Errorf("%d entries for one object", n)
	}
	r.Sweep(10*limits.DeadlineSpare + 3_600_000)
	if r.Exist(10*limits.DeadlineSpare+3_600_000, "key") {
		t.Error("it lives on")
	}
}

// TestLifeUnderReaders is a life of 2 s with a reader every 0.2 s, and a sweep as often.
func TestLifeUnderReaders(t *testing.T) {
	r := newTest(t, testConfig())
	if err := r.MountSegment(0, alice, segmentNo(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := r.SetWorkloads(0, []Workload{{Name: "k", Prefixes: []string{"k"}, TTLMs: 2000}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.PutStart(1000, bob, "key", 16, one(), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.PutEnd(1000, bob, "key", 0, false, ReplicaTypeAll); err != nil {
		t.Fatal(err)
	}
	for now := Time(1000); ; now += 200 {
		r.Sweep(now)
		if _, _, err := r.Get(now, "key", nil); err == nil {
			continue
		}
		if age := now - 1000; age < 2000 || age > 3000 {
			t.Errorf("gone at the age of %d ms", age)
		}
		break
	}
	if st := r.Stats(); st.Keys != 0 || st.AllocatedBytes != 0 || st.QuarantinedBytes != 16 {
		t.Errorf("%+v: what was handed out a moment ago is kept for its reader", st)
	}
}
