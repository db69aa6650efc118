package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels in the place of a workload's name. No rule is called so.
const (
	NoWorkload = "none"      // what no rule fits
	Watermark  = "watermark" // not a put, but a pool that was fuller than the watermark
)

// BundleState is what there is of bundles in one state.
type BundleState struct {
	Workload string // in Bundles.ByWorkload only; "" for what no rule fits
	State    string // label value, as PUBLISHED
	Bundles  uint64
	Bytes    uint64 // of all copies of what is left of them
}

// Bundles are the figures about bundles at a scrape.
type Bundles struct {
	States         []BundleState
	ByWorkload     []BundleState
	Published      uint64 // bundles whose manifest was completed
	Orphans        uint64 // bundles given up: their writer died, or nothing happened to them for too long
	CollectedBytes uint64 // of the copies that went with them
	EvictedUnread  uint64 // published bundles that went before anybody read them
	Retired        uint64 // published bundles that went by a rule of retention
	LateWrites     uint64 // writes refused because their bundle had been given up
	Verified       uint64 // manifests that were looked at, and all that they name was there
	Missed         uint64 // manifests that name what was not there
	Unseen         uint64 // manifests that were not looked at: their owner keeps no stream, or they could not be read
	Times          []BundleTimes
}

// BundleTimes are how long the bundles of a workload took, by buckets of DurationBuckets.
type BundleTimes struct {
	Workload string // "" for what no rule fits
	Publish  Durations
	Handoff  Durations
}

// Durations is a histogram: how many were at most as long as each bound, one more count for all that were longer, and the
// sum of all.
type Durations struct {
	Counts [len(DurationBuckets) + 1]uint64
	SumMs  uint64
}

// DurationBuckets are the bounds of how long bundles take, in milliseconds: a bundle of a few MB is written in tens of
// milliseconds; a training step, after which it is read, takes seconds to many minutes.
var DurationBuckets = [...]uint64{10, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000}

// Observe counts one duration.
func (d *Durations) Observe(ms uint64) {
	i := 0
	for i < len(DurationBuckets) && ms > DurationBuckets[i] {
		i++
	}
	d.Counts[i]++
	d.SumMs += ms
}

// Workload is what a workload has and what became of it.
type Workload struct {
	Name string // "" for what no rule fits

	SoftBytes, HardBytes, ReservedBytes uint64 // of its rule; 0 is none

	Keys              uint64
	Bytes             uint64
	EvictedKeys       uint64
	EvictedBytes      uint64
	EvictedUnreadKeys uint64
	ExpiredKeys       uint64
	ExpiredBytes      uint64

	Refusals   []Refusal // of its own puts
	EvictedFor []EvictedFor
}

// EvictedFor is what a workload lost for the sake of another, or of itself.
type EvictedFor struct {
	Workload string // "" for puts that no rule fits, or Watermark
	Bytes    uint64
}

// workloadRow is one series with a workload as its only label.
type workloadRow struct {
	name  string
	kind  kind
	help  string
	value func(*Workload) uint64
}

var workloadRows = []workloadRow{
	{"mooncake_go_workload_keys", gauge, "Objects of the workload, half written ones included.", func(w *Workload) uint64 { return w.Keys }},
	{"mooncake_go_workload_bytes", gauge, "Bytes of all copies of the workload's objects.", func(w *Workload) uint64 { return w.Bytes }},
	{"mooncake_go_workload_soft_bytes", gauge, "The workload's share, above which it loses objects first; 0 is none.", func(w *Workload) uint64 { return w.SoftBytes }},
	{"mooncake_go_workload_hard_bytes", gauge, "The most that the workload may have; 0 is no limit.", func(w *Workload) uint64 { return w.HardBytes }},
	{"mooncake_go_workload_reserved_bytes", gauge, "Room that no other workload gets.", func(w *Workload) uint64 { return w.ReservedBytes }},
	{"mooncake_go_workload_evicted_keys_total", counter, "Objects of the workload that were evicted.", func(w *Workload) uint64 { return w.EvictedKeys }},
	{"mooncake_go_workload_evicted_bytes_total", counter, "Bytes of the copies of the workload's objects that were evicted.", func(w *Workload) uint64 { return w.EvictedBytes }},
	{"mooncake_go_workload_evicted_unread_keys_total", counter, "Objects evicted of bundles of the workload that nobody had read.", func(w *Workload) uint64 { return w.EvictedUnreadKeys }},
	{"mooncake_go_workload_expired_keys_total", counter, "Objects of the workload whose time to live was over.", func(w *Workload) uint64 { return w.ExpiredKeys }},
	{"mooncake_go_workload_expired_bytes_total", counter, "Bytes of the copies of objects whose time to live was over.", func(w *Workload) uint64 { return w.ExpiredBytes }},
}

// bundleRows are the series of bundles without labels.
var bundleRows = []struct {
	name, help string
	value      func(*Bundles) uint64
}{
	{"master_bundle_orphans_total", "Bundles given up: their writer died, or nothing happened to them for too long.", func(b *Bundles) uint64 { return b.Orphans }},
	{"master_bundle_gc_bytes_total", "Bytes of the copies that went with bundles given up.", func(b *Bundles) uint64 { return b.CollectedBytes }},
	{"mooncake_go_bundles_published_total", "Bundles whose manifest was completed.", func(b *Bundles) uint64 { return b.Published }},
	{"mooncake_go_bundles_evicted_unread_total", "Published bundles that were evicted before anybody read them.", func(b *Bundles) uint64 { return b.EvictedUnread }},
	{"mooncake_go_bundles_retired_total", "Published bundles that went by a rule of retention.", func(b *Bundles) uint64 { return b.Retired }},
	{"mooncake_go_bundle_late_writes_total", "Writes refused because their bundle had been given up.", func(b *Bundles) uint64 { return b.LateWrites }},
	{"mooncake_go_manifests_verified_total", "Manifests of published bundles of which all objects were there.", func(b *Bundles) uint64 { return b.Verified }},
	{"mooncake_go_manifests_damaged_total", "Manifests of published bundles that name objects which were not there.", func(b *Bundles) uint64 { return b.Missed }},
	{"mooncake_go_manifests_unseen_total", "Manifests that were not looked at: nobody gave their bytes, or they are of no known kind.", func(b *Bundles) uint64 { return b.Unseen }},
}

// bundleCollector renders the series of bundles and workloads.
type bundleCollector struct {
	bundles, bytes, publish, handoff *prometheus.Desc
	workloadBundles, workloadBytes   *prometheus.Desc
	refusals, evictedFor             *prometheus.Desc
	totals, rows                     []*prometheus.Desc // of bundleRows, workloadRows
}

func newBundleCollector() *bundleCollector {
	workload := []string{"workload"}
	c := &bundleCollector{
		bundles:         prometheus.NewDesc("master_bundles", "Bundles known, by state.", []string{"state"}, nil),
		bytes:           prometheus.NewDesc("master_bundle_bytes", "Bytes of all copies of what is left of bundles, by state.", []string{"state"}, nil),
		workloadBundles: prometheus.NewDesc("mooncake_go_workload_bundles", "Bundles of the workload, by state.", []string{"state", "workload"}, nil),
		workloadBytes: prometheus.NewDesc("mooncake_go_workload_bundle_bytes", "Bytes of all copies of what is left of the workload's bundles, by state.",
			[]string{"state", "workload"}, nil),
		publish: prometheus.NewDesc("master_bundle_publish_seconds", "From the first write of a bundle to its manifest.", workload, nil),
		handoff: prometheus.NewDesc("master_bundle_handoff_seconds", "From the manifest of a bundle to its first reader.", workload, nil),
		refusals: prometheus.NewDesc("mooncake_go_workload_put_refusals_total",
			"Puts of the workload that were refused for want of room, by what held it.", []string{"reason", "workload"}, nil),
		evictedFor: prometheus.NewDesc("mooncake_go_workload_evicted_for_bytes_total",
			"Bytes that the workload lost, by the workload whose put needed the room.", []string{"for", "workload"}, nil),
	}
	for _, r := range bundleRows {
		c.totals = append(c.totals, prometheus.NewDesc(r.name, r.help, nil, nil))
	}
	for _, r := range workloadRows {
		c.rows = append(c.rows, prometheus.NewDesc(r.name, r.help, workload, nil))
	}
	return c
}

func (c *bundleCollector) describe(out chan<- *prometheus.Desc) {
	own := []*prometheus.Desc{c.bundles, c.bytes, c.publish, c.handoff, c.workloadBundles, c.workloadBytes, c.refusals, c.evictedFor}
	for _, d := range slices.Concat(own, c.totals, c.rows) {
		out <- d
	}
}

func (c *bundleCollector) collect(b *Bundles, workloads []Workload, out chan<- prometheus.Metric) {
	for _, s := range b.States {
		out <- constant(c.bundles, gauge, s.Bundles, s.State)
		out <- constant(c.bytes, gauge, s.Bytes, s.State)
	}
	for _, s := range b.ByWorkload {
		out <- constant(c.workloadBundles, gauge, s.Bundles, s.State, workloadLabel(s.Workload))
		out <- constant(c.workloadBytes, gauge, s.Bytes, s.State, workloadLabel(s.Workload))
	}
	for i, r := range bundleRows {
		out <- constant(c.totals[i], counter, r.value(b))
	}
	for i := range b.Times {
		t := &b.Times[i]
		out <- t.Publish.metric(c.publish, workloadLabel(t.Workload))
		out <- t.Handoff.metric(c.handoff, workloadLabel(t.Workload))
	}
	for i := range workloads {
		w := &workloads[i]
		name := workloadLabel(w.Name)
		for i, r := range workloadRows {
			out <- constant(c.rows[i], r.kind, r.value(w), name)
		}
		for _, r := range w.Refusals {
			out <- constant(c.refusals, counter, r.Puts, r.Reason, name)
		}
		for _, f := range w.EvictedFor {
			out <- constant(c.evictedFor, counter, f.Bytes, workloadLabel(f.Workload), name)
		}
	}
}

// metric renders the histogram in seconds.
func (d *Durations) metric(desc *prometheus.Desc, workload string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(DurationBuckets))
	var count uint64
	for i, bound := range DurationBuckets {
		count += d.Counts[i]
		buckets[float64(bound)/1000] = count
	}
	count += d.Counts[len(DurationBuckets)]
	return prometheus.MustNewConstHistogram(desc, count, float64(d.SumMs)/1000, buckets, workload)
}

func workloadLabel(name string) string {
	if name == "" {
		return NoWorkload
	}
	return labelText(name)
}
