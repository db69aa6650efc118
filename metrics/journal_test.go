package metrics

import (
	"strings"
	"testing"
	"time"
)

// TestJournalSeries prints every figure of a journal under its own name, and none without a journal.
func TestJournalSeries(t *testing.T) {
	src := &fakeSource{}
	if text := render(t, NewRegistry(src, NewCalls(), Build{})); strings.Contains(text, "mooncake_go_journal") {
		t.Error("a master without a journal has series of one")
	}
	src.stats.Journal = &Journal{
		Records: 1, Bytes: 2, WriteMicros: 3_000_000, Syncs: 4, SyncMicros: 5_000_000, Snapshots: 6, SnapshotErrors: 7, SnapshotBytes: 8, DiskBytes: 9,
		DamagedBlocks: 10, DamagedBytes: 11, LostRecords: 12, Failed: true, Dropped: []Drop{{"range_granted", 13}, {"range_taken", 14}},
	}
	text := render(t, NewRegistry(src, NewCalls(), Build{}))
	got := samples(t, text)
	for name, want := range map[string]string{
		"records_total": "1", "bytes_total": "2", "write_seconds_total": "3", "syncs_total": "4", "sync_seconds_total": "5",
		"snapshots_total": "6", "snapshot_failures_total": "7", "snapshot_bytes": "8", "disk_bytes": "9", "damaged_blocks": "10",
		"damaged_bytes": "11", "lost_records": "12", "failed": "1",
		`dropped_objects{reason="range_granted"}`: "13", `dropped_objects{reason="range_taken"}`: "14",
	} {
		if got["mooncake_go_journal_"+name] != want {
			t.Errorf("%s is %q, want %s", name, got["mooncake_go_journal_"+name], want)
		}
	}
	if _, has := got[journalAge]; has {
		t.Error("an age without a snapshot")
	}
	src.stats.Journal.SnapshotAt = time.Unix(1000, 0)
	r := newCollector(src, NewCalls(), Build{})
	r.journal.now = func() time.Time { return time.Unix(1042, 0) }
	registry := &Registry{registry: newPlainRegistry(r)}
	if got := samples(t, render(t, registry))[journalAge]; got != "42" {
		t.Errorf("the age is %q", got)
	}
}
