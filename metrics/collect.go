package metrics

import (
	"io"
	"runtime"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build tells which release is running: the protocol's number and the text shown to people.
type Build struct{ Version, Display string }

// Registry renders the series of one master.
type Registry struct {
	registry *prometheus.Registry
}

// NewRegistry returns a registry that renders from source and calls.
func NewRegistry(source Source, calls *Calls, build Build) *Registry {
	return &Registry{registry: newPlainRegistry(newCollector(source, calls, build))}
}

func newPlainRegistry(c *collector) *prometheus.Registry {
	r := prometheus.NewRegistry()
	// Only an invariant can fail here: the table has a name twice, which the tests of this package would show.
	r.MustRegister(c)
	// What Go knows of itself: mooncake_go_goroutines, mooncake_go_memstats_*, mooncake_go_gc_*; and what the system knows of
	// the process: mooncake_go_process_*.
	prometheus.WrapRegistererWithPrefix("mooncake_", r).MustRegister(collectors.NewGoCollector())
	prometheus.WrapRegistererWithPrefix("mooncake_go_", r).MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// WriteText renders all series in the text format of Prometheus.
func (r *Registry) WriteText(w io.Writer) error {
	families, err := r.registry.Gather()
	if err != nil {
		return err
	}
	return writeText(w, families)
}

// collector implements prometheus.Collector: it keeps no value between scrapes.
type collector struct {
	source Source
	calls  *Calls
	build  Build

	rows    []row
	descs   []*prometheus.Desc // of rows
	process []*prometheus.Desc // of processRows
	ha      []*prometheus.Desc // of haRows

	segmentAllocated, segmentCapacity, valueSize   *prometheus.Desc
	otherRequests, otherFailures, buildInformation *prometheus.Desc
	putRefusals, refusedCalls, strange             *prometheus.Desc
	published                                      []*prometheus.Desc // of publishedHA
	snapshotTimes                                  *prometheus.Desc
	silent                                         []silentRow
	silentHistograms                               map[string]*prometheus.Desc
	parts                                          *bundleCollector
	journal                                        *journalCollector
	tenants                                        *tenantCollector
}

func newCollector(source Source, calls *Calls, build Build) *collector {
	c := &collector{
		source: source, calls: calls, build: build, rows: append(callRows(), totals...),
		parts: newBundleCollector(), journal: newJournalCollector(), tenants: newTenantCollector(),
	}
	for _, r := range c.rows {
		c.descs = append(c.descs, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	for _, r := range processRows {
		c.process = append(c.process, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	c.ha = haDescs()
	c.segmentAllocated = prometheus.NewDesc(segmentAllocated, segmentAllocHelp, []string{"segment"}, nil)
	c.segmentCapacity = prometheus.NewDesc(segmentCapacity, segmentCapHelp, []string{"segment"}, nil)
	c.valueSize = prometheus.NewDesc(valueSize, valueSizeHelp, nil, nil)
	c.otherRequests = prometheus.NewDesc(otherRequests, otherRequestsHelp, []string{"call"}, nil)
	c.otherFailures = prometheus.NewDesc(otherFailures, otherFailuresHelp, []string{"call"}, nil)
	c.putRefusals = prometheus.NewDesc(refusals, refusalsHelp, []string{"reason"}, nil)
	c.strange = newStrangeDesc()
	c.refusedCalls = prometheus.NewDesc(refusedCalls, refusedCallsHelp, []string{"code"}, nil)
	c.published, c.snapshotTimes = publishedDescs()
	c.silent, c.silentHistograms = silentSeries()
	c.buildInformation = prometheus.NewDesc(buildInfo, buildInfoHelp, []string{"display_version", "version"}, nil)
	return c
}

// Describe names every series that Collect may send.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
	for _, d := range slices.Concat(c.process, c.ha, c.published) {
		out <- d
	}
	for _, r := range c.silent {
		out <- r.desc
	}
	for _, d := range c.silentHistograms {
		out <- d
	}
	for _, d := range []*prometheus.Desc{
		c.segmentAllocated, c.segmentCapacity, c.valueSize, c.otherRequests, c.otherFailures, c.putRefusals, c.refusedCalls, c.strange,
		c.buildInformation, c.snapshotTimes,
	} {
		out <- d
	}
	c.parts.describe(out)
	c.journal.describe(out)
	c.tenants.describe(out)
}

// Collect asks the source and sends what it says.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := &snapshot{
		Stats: c.source.Stats(), segments: c.source.Segments(), calls: c.calls,
		lookups: c.calls.lookups.Load(), hits: c.calls.hits.Load(), hitBytes: c.calls.hitBytes.Load(),
		diskHits: c.calls.diskHits.Load(), diskHitBytes: c.calls.diskHitBytes.Load(),
		goroutines: uint64(runtime.NumGoroutine()),
	}
	for i, r := range c.rows {
		out <- constant(c.descs[i], r.kind, r.value(s))
	}
	var known bool
	if s.process, known = readProcessMemory(); known {
		for i, r := range processRows {
			out <- constant(c.process[i], r.kind, r.value(s))
		}
	}
	if s.HA != nil {
		for i, r := range haRows {
			out <- constantFloat(c.ha[i], r.kind, r.value(s.HA))
		}
	}
	c.collectPublished(s, out)
	c.collectSilent(out)
	c.journal.collect(s.Journal, out)
	c.collectSegments(s, out)
	c.collectSizes(out)
	for _, o := range c.calls.otherCalls() {
		out <- constant(c.otherRequests, counter, o.Requests, o.name)
		out <- constant(c.otherFailures, counter, o.Failures, o.name)
	}
	c.collectStrange(out)
	for code, n := range c.calls.refusals() {
		out <- constant(c.refusedCalls, counter, n, code)
	}
	for _, r := range s.Refusals {
		out <- constant(c.putRefusals, counter, r.Puts, r.Reason)
	}
	bundles := c.source.BundleFigures()
	c.parts.collect(&bundles, c.source.WorkloadFigures(), out)
	tenants := c.source.TenantFigures()
	c.tenants.collect(&tenants, out)
	out <- constant(c.buildInformation, gauge, 1, c.build.Display, c.build.Version)
}

// collectSegments sums segments of one name: names need not be unique, series must be.
func (c *collector) collectSegments(s *snapshot, out chan<- prometheus.Metric) {
	sums := make(map[string]Segment, len(s.segments))
	for _, g := range s.segments {
		name := labelText(g.Name)
		sum := sums[name]
		sum.AllocatedBytes += g.AllocatedBytes
		sum.CapacityBytes += g.CapacityBytes
		sums[name] = sum
	}
	for name, sum := range sums {
		out <- constant(c.segmentAllocated, gauge, sum.AllocatedBytes, name)
		out <- constant(c.segmentCapacity, gauge, sum.CapacityBytes, name)
	}
}

func (c *collector) collectSizes(out chan<- prometheus.Metric) {
	buckets := make(map[float64]uint64, len(sizeBuckets))
	var count uint64
	for i, bound := range sizeBuckets {
		count += c.calls.sizeCounts[i].Load()
		buckets[float64(bound)] = count
	}
	count += c.calls.sizeCounts[len(sizeBuckets)].Load()
	out <- prometheus.MustNewConstHistogram(c.valueSize, count, float64(c.calls.sizeSum.Load()), buckets)
}

func constant(d *prometheus.Desc, k kind, value uint64, labels ...string) prometheus.Metric {
	return constantFloat(d, k, float64(value), labels...)
}

func constantFloat(d *prometheus.Desc, k kind, value float64, labels ...string) prometheus.Metric {
	valueType := prometheus.GaugeValue
	if k == counter {
		valueType = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(d, valueType, value, labels...)
}
