package replication

import (
	"bytes"
	chain "container/list"
	"encoding/binary"
	"fmt"
	"iter"

	"mooncake/internal/limits"
)

// A Note is something that a master wants to find again, for what can be done without if need be. A later note of the same
// name takes the place of an earlier one.
type Note struct {
	Name  string
	Value []byte
}

// Notes are the newest limits.LogNotes notes. The zero value has none.
type Notes struct {
	at    map[string]*chain.Element
	order chain.List // of Note, oldest first
}

// Add takes a note; beyond the limit the oldest goes.
func (n *Notes) Add(note Note) {
	if n.at == nil {
		n.at = map[string]*chain.Element{}
	}
	if e := n.at[note.Name]; e != nil {
		e.Value = note
		n.order.MoveToBack(e)
		return
	}
	n.at[note.Name] = n.order.PushBack(note)
	if n.order.Len() > limits.LogNotes {
		oldest := n.order.Front()
		delete(n.at, n.order.Remove(oldest).(Note).Name)
	}
}

// Len is how many there are.
func (n *Notes) Len() int { return n.order.Len() }

// All gives them, oldest first.
func (n *Notes) All() iter.Seq[Note] {
	return func(yield func(Note) bool) {
		for e := n.order.Front(); e != nil; e = e.Next() {
			if !yield(e.Value.(Note)) {
				return
			}
		}
	}
}

func (n *Notes) equal(other *Notes) bool {
	if n.Len() != other.Len() {
		return false
	}
	for a, b := n.order.Front(), other.order.Front(); a != nil; a, b = a.Next(), b.Next() {
		if a, b := a.Value.(Note), b.Value.(Note); a.Name != b.Name || !bytes.Equal(a.Value, b.Value) {
			return false
		}
	}
	return true
}

// fits tells what is too large about a note, which a careless caller or another version may have made.
func (n *Note) fits() error {
	if len(n.Name)+len(n.Value) > limits.LogNoteBytes {
		return fmt.Errorf("a note of %d bytes, at most %d", len(n.Name)+len(n.Value), limits.LogNoteBytes)
	}
	return nil
}

func appendNote(dst []byte, n *Note) []byte {
	dst = appendText(append(dst, partNote), n.Name)
	dst = binary.AppendUvarint(dst, uint64(len(n.Value)))
	return append(dst, n.Value...)
}

func (r *reader) note() (n Note) {
	n.Name = r.text()
	n.Value = r.bytes()
	if err := n.fits(); r.err == nil && err != nil {
		r.fail(err)
	}
	return n
}

// AppendNote adds a note to the record that is being collected. Nobody waits for it: it is written with what is. One that is
// too large is left out.
func (c *core) AppendNote(n Note) {
	if n.fits() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.addNote(&n)
	c.appended()
}
