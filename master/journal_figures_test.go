package master

import (
	"net/http"
	"strings"
	"testing"

	"mooncake/wire"
)

// TestJournalFigures reads on the admin port what the journal costs, and that a master without one says nothing of it.
func TestJournalFigures(t *testing.T) {
	dir := t.TempDir()
	b := newBed(t, func(c *Config) { c.DataDir = dir })
	owner := b.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	owner.put("k", mib)
	f := b.service.Stats().Journal
	if f == nil || f.Records < 3 || f.Bytes == 0 || f.Syncs < f.Records || f.DiskBytes == 0 || f.Failed {
		t.Fatalf("%+v", f)
	}
	status, text, _ := adminGet(t, b, "/metrics")
	for _, want := range []string{
		"\nmooncake_go_journal_failed 0\n", "\nmooncake_go_journal_damaged_blocks 0\n", "\nmooncake_go_journal_snapshots_total 0\n",
		"\nmooncake_go_journal_dropped_objects{reason=\"range_granted\"} 0\n", "\nmooncake_go_journal_dropped_objects{reason=\"range_taken\"} 0\n",
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("status %d, no %q", status, want)
		}
	}
	plain := newBed(t)
	if _, text, _ := adminGet(t, plain, "/metrics"); strings.Contains(text, "mooncake_go_journal") {
		t.Error("a master without a journal has series of one")
	}
}
