// Package metrics names every series of the master and renders them from live state.
//
// It owns one table of series (name, help, type), the counters of remote calls, and the text format. It refuses to know
// where the figures come from: a [Source] hands them over at the moment of a scrape, so a segment that is gone cannot
// leave a series behind, and nothing has to be kept in step.
//
// The names are those that the published masters print and that dashboards and scripts read, odd ones included
// (mem_cache_nums_, counters without _total). Totals carry no labels and no timestamps; whole numbers are printed as
// such. Series of the published masters that nothing can move here are printed as 0, so that whoever asks for them gets an
// answer; silentGroups has them with the reason, and docs/metrics.md too. Go's own figures are under mooncake_go_.
//
// Invariants:
//
//   - the table has each name once, and the collector fills every row of it at every scrape;
//   - every series of testdata/metrics.tsv moves, or is listed as silent;
//   - counters only grow while the process lives;
//   - Calls may be used from any goroutine and takes no lock for the calls that have series of their own.
//
// Lock order: the lock of the names without series of their own is taken with nothing else held. A Source is asked
// without any lock.
//
//	calls := metrics.NewCalls()
//	registry := metrics.NewRegistry(source, calls, metrics.Build{Version: "2.0.0", Display: "1.0"})
//	calls.Count("PutStart", false)
//	calls.CountBatch("BatchPutEnd", 32, 1)
//	err := registry.WriteText(w)
package metrics
