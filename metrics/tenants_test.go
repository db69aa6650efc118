package metrics

import (
	"math"
	"strings"
	"testing"
)

// TestTenantSeries prints what tenants may have and have, and nothing where they are not told apart.
func TestTenantSeries(t *testing.T) {
	src := &fakeSource{}
	text := func() string {
		t.Helper()
		var b strings.Builder
		if err := NewRegistry(src, NewCalls(), Build{}).WriteText(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if got := text(); strings.Contains(got, "tenant") {
		t.Errorf("series of tenants that are not told apart:\n%s", got)
	}
	src.tenants = Tenants{On: true, CapacityBytes: 9, Each: []Tenant{
		{Name: "a", RequestedBytes: math.MaxInt64, EffectiveBytes: 8, ChargedBytes: 7, Policy: true, Rejected: 3, EvictedBytes: 2},
		{Name: "b\n", RequestedBytes: math.MaxInt64, EffectiveBytes: 1, ChargedBytes: 5, Over: true, Closed: true},
	}}
	got := text()
	for _, line := range []string{
		`mooncake_tenant_quota_requested_bytes{tenant_id="a"} 9.223372036854776e+18`,
		`mooncake_tenant_quota_effective_bytes{tenant_id="a"} 8`,
		`mooncake_tenant_quota_charged_bytes{tenant_id="a"} 7`,
		`mooncake_tenant_quota_explicit_policy{tenant_id="a"} 1`,
		`mooncake_tenant_quota_over_quota{tenant_id="b\n"} 1`,
		`mooncake_tenant_quota_admission_closed{tenant_id="b\n"} 1`,
		`mooncake_tenant_quota_reject_total{reason="quota_exceeded",tenant_id="a"} 3`,
		`mooncake_tenant_evict_bytes_total{tenant_id="a"} 2`,
		`mooncake_tenant_quota_allocatable_capacity_bytes 9`,
		`mooncake_tenant_quota_effective_bytes_sum 9`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
}
