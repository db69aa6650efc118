package replication

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mooncake/internal/limits"
)

// TestNotesAreBounded writes more notes than are kept, one of them again and again: the oldest go, in a history, in its
// snapshot, and in what is made from that.
func TestNotesAreBounded(t *testing.T) {
	h := newHistory(catalogConfig(), zap.NewNop())
	defer h.Catalog.Close()
	for i := range limits.LogNotes + 10 {
		e := Entry{Number: uint64(i + 1), Since: uint64(i + 1), Notes: []Note{{Name: fmt.Sprint(i), Value: []byte("v")}, {Name: "0", Value: fmt.Append(nil, i)}}}
		if err := h.apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	if _, kept := h.Notes.at["0"]; !kept || h.Notes.Len() != limits.LogNotes {
		t.Fatalf("%d notes, the one that was renewed among them: %v", h.Notes.Len(), kept)
	}
	if _, kept := h.Notes.at["5"]; kept {
		t.Fatal("the newest went instead of the oldest")
	}
	got := newHistory(catalogConfig(), zap.NewNop())
	defer got.Catalog.Close()
	err := h.snapshot(func(b *batch) error {
		head, payload, ok := recordAt(b.seal(1), 0, 1)
		if !ok {
			t.Fatal("a record that cannot be read")
		}
		e, err := parsePayload(&head, payload)
		if err != nil {
			return err
		}
		return got.apply(&e)
	})
	if err != nil || !h.Notes.equal(got.Notes) {
		t.Fatalf("%d notes after a snapshot, %v", got.Notes.Len(), err)
	}
	h.begin(7)
	if h.Notes.Len() != 0 || h.Notes.equal(got.Notes) {
		t.Fatal("notes from before the beginning")
	}
}

// TestNoteThatIsTooLarge is left out when it is written and is an error when it is read.
func TestNoteThatIsTooLarge(t *testing.T) {
	huge := Note{Name: "n", Value: []byte(strings.Repeat("v", limits.LogNoteBytes))}
	c := newCore()
	c.open.start(1, 1, nil)
	if c.AppendNote(huge); !c.open.empty() {
		t.Error("it was written")
	}
	c.open.addNote(&huge)
	head, payload, ok := recordAt(c.open.seal(1), 0, 1)
	if !ok {
		t.Fatal("a record that cannot be read")
	}
	if _, err := parsePayload(&head, payload); err == nil {
		t.Error("it was read")
	}
}
