package metrics

import (
	"fmt"
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ClientBuckets are the bounds of how long calls of a client to its master take, in microseconds.
var ClientBuckets = [...]uint64{
	50, 75, 125, 150, 200, 250, 300, 400, 500, 750, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 15_000, 20_000, 50_000, 100_000, 200_000, 500_000,
	1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000,
}

// ClientCall is what a client counts of one call to its master.
type ClientCall struct {
	Name      string
	Counts    [len(ClientBuckets) + 1]uint64 // how many took at most so long as each bound; one more for the rest
	SumMicros uint64
}

// Client are the figures of a process that is a client of a master, under the names of the published clients.
type Client struct {
	Calls                   []ClientCall
	ReadBytes, WrittenBytes uint64 // moved by this process itself
	HeartbeatOK             bool
	HeartbeatAt             time.Time // of the last ping that was answered or not; zero: there was none
	Build                   Build
}

// clientMode is the label that all series of a client have; the published ones call a process with memory of its own real.
var clientMode = prometheus.Labels{"client_mode": "real"}

// WriteClient renders the figures in the text format of Prometheus.
func WriteClient(w io.Writer, c *Client) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(clientCollector{c}); err != nil {
		return fmt.Errorf("series of a client: %w", err) // a name twice, which the tests would show
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	return writeText(w, families)
}

// clientCollector renders what it was given once.
type clientCollector struct{ c *Client }

// Describe says nothing: a registry that is used once needs no check.
func (clientCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends all figures.
func (k clientCollector) Collect(out chan<- prometheus.Metric) {
	c := k.c
	series := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, clientMode)
	}
	count := series("mooncake_client_rpc_count", "Calls to the master, by name.", "rpc_name")
	latency := series("mooncake_client_rpc_latency", "How long calls to the master took, in microseconds.", "rpc_name")
	for i := range c.Calls {
		call := &c.Calls[i]
		buckets, n := make(map[float64]uint64, len(ClientBuckets)), uint64(0)
		for i, bound := range ClientBuckets {
			n += call.Counts[i]
			buckets[float64(bound)] = n
		}
		n += call.Counts[len(ClientBuckets)]
		out <- constant(count, counter, n, call.Name)
		out <- prometheus.MustNewConstHistogram(latency, n, float64(call.SumMicros), buckets, call.Name)
	}
	out <- constant(series("mooncake_transfer_read_bytes", "Bytes that this process read from segments of others."), counter, c.ReadBytes)
	out <- constant(series("mooncake_transfer_write_bytes", "Bytes that this process wrote to segments of others."), counter, c.WrittenBytes)
	out <- constant(series("mooncake_client_master_heartbeat_status_ok", "1 if the last ping was answered."), gauge, flag(c.HeartbeatOK))
	if !c.HeartbeatAt.IsZero() {
		out <- constantFloat(series("mooncake_client_master_heartbeat_observation_timestamp_seconds", "When the last ping was answered, or was not, in seconds since 1970."),
			gauge, float64(c.HeartbeatAt.UnixMilli())/1000)
	}
	if memory, known := readProcessMemory(); known {
		for _, r := range processRows {
			out <- constant(series(r.name, r.help), r.kind, r.value(&snapshot{process: memory}))
		}
	}
	out <- constant(series("mooncake_build_info", buildInfoHelp, "display_version", "version"), gauge, 1, c.Build.Display, c.Build.Version)
}

// silentClientGroups are the series of published clients that nothing can move in a process that only gives memory. They are not
// printed; docs/segment-daemon.md has the same list.
var silentClientGroups = []struct{ prefix, reason string }{
	{"mooncake_transfer_get_latency", "nobody gets objects through this process"},
	{"mooncake_transfer_put_latency", "nobody puts objects through this process"},
	{"mooncake_transfer_batch_", "nobody gets or puts objects through this process"},
	{"mooncake_transfer_read_operation_", "nobody gets objects through this process"},
	{"mooncake_transfer_write_operation_", "nobody puts objects through this process"},
	{"mooncake_jemalloc_", "memory is Go's, without jemalloc"},
	{"mooncake_ssd_", "it has no disk"},
}
