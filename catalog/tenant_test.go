package catalog

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func init() {
	deeds["quotas"] = (*play).setQuotas
	deeds["closetenant"] = (*play).closeTenant
	deeds["tenants"] = (*play).tenants
}

// quotas NAME=BYTES ...: all there are; evict lets puts beyond them evict, mark= sets the background's watermark
func (p *play) setQuotas(a args) string {
	p.cfg.TenantsEvictOnPut = a.has("evict")
	list := map[string]uint64{}
	for name, v := range a.named {
		if name == "mark" {
			_, _ = fmt.Sscan(v, &p.cfg.TenantWatermark)
			continue
		}
		list[name] = p.bytes(v)
	}
	c := p.catalog()
	c.cfg = p.cfg
	c.SetTenantQuotas(list)
	return "ok"
}

func (p *play) closeTenant(a args) string { return outcome(p.catalog().CloseTenant(a.word(0))) }

func (p *play) tenants(args) string {
	stats, capacity := p.catalog().TenantStats()
	var list []string
	for i := range stats {
		s := &stats[i]
		text := fmt.Sprintf("%s %d of %d, asked %d, %d objects", s.Name, s.Charged, s.Effective, s.Requested, s.Objects)
		if s.Rejected > 0 {
			text += fmt.Sprintf(", %d refused", s.Rejected)
		}
		if s.Evicted > 0 {
			text += fmt.Sprintf(", %d evicted", s.Evicted)
		}
		for word, set := range map[string]bool{" over": s.Over(), " closed": s.Closed} {
			if set {
				text += word
			}
		}
		list = append(list, text)
	}
	return fmt.Sprintf("%s; capacity %d", strings.Join(list, "; "), capacity)
}

// TestTenantKeys takes tenants and keys apart again, and never gives two of them one key.
func TestTenantKeys(t *testing.T) {
	seen := map[string][2]string{}
	for _, tenant := range []string{"default", "a", "b", "a-b"} {
		for _, key := range []string{"k", "\x00k", "\x00a\x00k", "\x00default\x00\x00k", "a\x00k", "\x00"} {
			kept := TenantKey(tenant, key)
			gotTenant, gotKey := SplitTenantKey(kept)
			if gotTenant != tenant || gotKey != key {
				t.Errorf("%q of %q is kept as %q and comes back as %q of %q", key, tenant, kept, gotKey, gotTenant)
			}
			if other, ok := seen[kept]; ok {
				t.Errorf("%q of %q and %q are all kept as %q", key, tenant, other, kept)
			}
			seen[kept] = [2]string{tenant, key}
		}
	}
	if got := TenantKey("a", ""); got != "" {
		t.Errorf("no key is kept as %q", got)
	}
	for name, want := range map[string]string{"": "default", "a": "a", "_a": "", "a\x1f": "", "a\x7f": "", "ä /": "ä /", strings.Repeat("x", 1000): ""} {
		if got, ok := TenantName(name); got != want || ok != (want != "") {
			t.Errorf("tenant %.20q: %q, %v", name, got, ok)
		}
	}
}

// TestSharesAddUp shares any pool out by any policy: nobody gets more than he asked for, together they get all there is, and
// nobody loses to others by more than rounding.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(testConfig())
		defer c.Close()
		asked := map[string]uint64{}
		for i, n := range rapid.SliceOfN(rapid.Uint64Range(1, math.MaxInt64), 1, 8).Draw(t, "quotas") {
			if rapid.Bool().Draw(t, "small") {
				n = n%1000 + 1
			}
			asked[fmt.Sprint(i)] = n
		}
		c.SetTenantQuotas(asked)
		size := rapid.Uint64Range(1, 1<<20).Draw(t, "pool")
		if err := c.MountSegment(1, UUID{1, 1}, Segment{ID: UUID{1, 2}, Name: "s", Base: 1, Size: size}); err != nil {
			t.Fatal(err)
		}
		stats, capacity := c.TenantStats()
		given, wanted := 0.0, 0.0
		for i := range stats {
			s := &stats[i]
			if s.Effective > s.Requested || s.Requested != asked[s.Name] {
				t.Fatalf("%+v, asked for %d", s, asked[s.Name])
			}
			given += float64(s.Effective)
			wanted += float64(s.Requested)
		}
		if capacity != size || given != min(wanted, float64(size)) {
			t.Fatalf("%v of %d are given out, %v asked for: %+v", given, size, wanted, stats)
		}
		for i := range stats {
			s := &stats[i]
			if fair := min(1, float64(size)/wanted) * float64(s.Requested); math.Abs(fair-float64(s.Effective)) > 1+fair*1e-9 {
				t.Fatalf("%+v: %v would be fair", s, fair)
			}
		}
	})
}
