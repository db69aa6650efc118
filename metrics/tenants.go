package metrics

import "github.com/prometheus/client_golang/prometheus"

// Tenants are what tenants may have and have; nothing where they are not told apart.
type Tenants struct {
	On            bool
	CapacityBytes uint64 // what quotas are shared out of
	Each          []Tenant
}

// Tenant is one of them.
type Tenant struct {
	Name                                         string
	RequestedBytes, EffectiveBytes, ChargedBytes uint64
	Objects                                      uint64 // unfinished ones included
	Closed, Over, Policy                         bool
	Rejected                                     uint64 // puts beyond the quota
	EvictedBytes                                 uint64 // to keep it within its quota
}

// tenantRow is one series with a tenant as its only label.
var tenantRows = []struct {
	name  string
	kind  kind
	help  string
	value func(*Tenant) uint64
}{
	{"mooncake_tenant_quota_requested_bytes", gauge, "Quota that the policy gives the tenant.", func(t *Tenant) uint64 { return t.RequestedBytes }},
	{"mooncake_tenant_quota_effective_bytes", gauge, "Quota in force, scaled down when the pool is smaller than all quotas.", func(t *Tenant) uint64 { return t.EffectiveBytes }},
	{"mooncake_tenant_quota_charged_bytes", gauge, "Bytes of the tenant's copies in memory, unfinished ones included.", func(t *Tenant) uint64 { return t.ChargedBytes }},
	{"mooncake_tenant_quota_used_bytes", gauge, "The same, as release 0.3.12 calls it.", func(t *Tenant) uint64 { return t.ChargedBytes }},
	{"mooncake_tenant_quota_committed_count", gauge, "The tenant's objects, unfinished ones included.", func(t *Tenant) uint64 { return t.Objects }},
	{"mooncake_tenant_quota_metadata_object_count", gauge, "The same.", func(t *Tenant) uint64 { return t.Objects }},
	{"mooncake_tenant_quota_admission_closed", gauge, "1 if the tenant may write nothing.", func(t *Tenant) uint64 { return one(t.Closed) }},
	{"mooncake_tenant_quota_over_quota", gauge, "1 if the tenant has more than its quota in force.", func(t *Tenant) uint64 { return one(t.Over) }},
	{"mooncake_tenant_quota_explicit_policy", gauge, "1 if there is a policy for the tenant.", func(t *Tenant) uint64 { return one(t.Policy) }},
	{"mooncake_tenant_evict_bytes_total", counter, "Bytes evicted to keep the tenant within its quota.", func(t *Tenant) uint64 { return t.EvictedBytes }},
}

func one(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// tenantCollector renders the series of tenants.
type tenantCollector struct {
	rows                              []*prometheus.Desc // of tenantRows
	rejects                           *prometheus.Desc
	capacity, requested, effectiveSum *prometheus.Desc
}

func newTenantCollector() *tenantCollector {
	c := &tenantCollector{
		rejects:      prometheus.NewDesc("mooncake_tenant_quota_reject_total", "Puts of the tenant that were refused, by reason.", []string{"reason", "tenant_id"}, nil),
		capacity:     prometheus.NewDesc("mooncake_tenant_quota_allocatable_capacity_bytes", "Bytes that quotas are shared out of.", nil, nil),
		requested:    prometheus.NewDesc("mooncake_tenant_quota_requested_bytes_sum", "Sum of all quotas.", nil, nil),
		effectiveSum: prometheus.NewDesc("mooncake_tenant_quota_effective_bytes_sum", "Sum of all quotas in force.", nil, nil),
	}
	for _, r := range tenantRows {
		c.rows = append(c.rows, prometheus.NewDesc(r.name, r.help, []string{"tenant_id"}, nil))
	}
	return c
}

func (c *tenantCollector) describe(out chan<- *prometheus.Desc) {
	for _, d := range append([]*prometheus.Desc{c.rejects, c.capacity, c.requested, c.effectiveSum}, c.rows...) {
		out <- d
	}
}

func (c *tenantCollector) collect(t *Tenants, out chan<- prometheus.Metric) {
	if !t.On {
		return
	}
	requested, effective := 0.0, uint64(0) // the sum of what is asked for may be more than any number of bytes
	for i := range t.Each {
		x := &t.Each[i]
		requested += float64(x.RequestedBytes)
		effective += x.EffectiveBytes
		for i, r := range tenantRows {
			out <- constant(c.rows[i], r.kind, r.value(x), labelText(x.Name))
		}
		if x.Rejected > 0 {
			out <- constant(c.rejects, counter, x.Rejected, "quota_exceeded", labelText(x.Name))
		}
	}
	out <- constant(c.capacity, gauge, t.CapacityBytes)
	out <- prometheus.MustNewConstMetric(c.requested, prometheus.GaugeValue, requested)
	out <- constant(c.effectiveSum, gauge, effective)
}
