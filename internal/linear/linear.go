package linear

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind is what a client asked for.
type Kind uint8

// The kinds of calls.
const (
	Put    Kind = iota + 1 // makes an object where none is
	Get                    // reads it
	Exist                  // asks whether there is one
	Remove                 // ends it
	Upsert                 // makes an object, in place of what there is
)

// String names the call.
func (k Kind) String() string {
	return [...]string{"?", "put", "get", "exist", "remove", "upsert"}[min(int(k), 5)]
}

// Outcome is what a client was told.
type Outcome uint8

// The outcomes. A call that was refused, or failed for certain, has none: it says nothing and is not added.
const (
	Done    Outcome = iota + 1 // a put, an upsert or a removal took effect; a read found Value, or for Exist any object
	Absent                     // there is no object
	Present                    // there is one, and for that reason nothing was done
	Unknown                    // nobody answered a put, an upsert or a removal
	Cleared                    // a removal left nothing: neither an object nor what was only begun
	Either                     // a put took effect, or there was an object already: published clients tell no difference
)

// String names the outcome.
func (o Outcome) String() string {
	return [...]string{"?", "done", "absent", "present", "unknown", "cleared", "either"}[min(int(o), 6)]
}

// Op is one call. Times are on one clock, in any unit.
type Op struct {
	Client       int
	Key          string
	Kind         Kind
	Value        uint64 // of a put or an upsert, another for each; of a read, what was found
	Outcome      Outcome
	Call, Return int64
	// Place is which leader was asked, as far as that is known. A removal that nobody answers hides the object from the readers of that leader only:
	// while he leads they may miss what another leader still has.
	Place string
}

// String is one line about the call.
func (o Op) String() string {
	return fmt.Sprintf("%d..%d client %d at %s: %s %s %d: %s", o.Call, o.Return, o.Client, o.Place, o.Kind, o.Key, o.Value, o.Outcome)
}

// History collects calls. Its methods may be called from any goroutine.
type History struct {
	mu  sync.Mutex
	ops []Op
}

// Add notes a call.
func (h *History) Add(o Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, o)
}

// Of returns the calls about a key, in the order of their begin.
func (h *History) Of(key string) (ops []Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		if o.Key == key {
			ops = append(ops, o)
		}
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// Len counts the calls.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ops)
}

// keys lists every key.
func (h *History) keys() (keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		keys = append(keys, o.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Check returns the keys whose history no store that loses nothing can have. An error says that a key could not be judged
// within the limit, or that the history itself makes no sense.
func (h *History) Check(limit time.Duration) (bad []string, err error) {
	for _, key := range h.keys() {
		ops, err := events(h.Of(key))
		if err != nil {
			return bad, err
		}
		switch porcupine.CheckOperationsTimeout(model, ops, limit) {
		case porcupine.Illegal:
			bad = append(bad, key)
		case porcupine.Unknown:
			return bad, fmt.Errorf("the %d calls about %q could not be judged within %v", len(ops), key, limit)
		}
	}
	return bad, nil
}

// Text writes the calls about a key down, one a line, up to the first answer that cannot be.
func (h *History) Text(key string) string {
	var b strings.Builder
	all := h.Of(key)
	byReturn := slices.Clone(all)
	slices.SortStableFunc(byReturn, func(a, b Op) int { return cmp.Compare(a.Return, b.Return) })
	for _, last := range byReturn {
		ops, err := events(until(all, last.Return))
		if err == nil && porcupine.CheckOperations(model, ops) {
			continue
		}
		for _, o := range all {
			if o.Call <= last.Return {
				fmt.Fprintln(&b, o)
			}
		}
		fmt.Fprintln(&b, "cannot be:", last)
		return b.String()
	}
	for _, o := range all {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}

// until gives what was known at a time.
func until(all []Op, at int64) (ops []Op) {
	for _, o := range all {
		switch {
		case o.Call > at:
		case o.Return <= at:
			ops = append(ops, o)
		case o.Kind == Put || o.Kind == Upsert || o.Kind == Remove && o.Outcome != Absent && o.Outcome != Present:
			o.Outcome, o.Return = Unknown, at
			ops = append(ops, o)
		}
	}
	return ops
}

// events gives what porcupine has to judge: all calls but those that a removal under way excuses.
func events(ops []Op) (out []porcupine.Operation, err error) {
	end := int64(0)
	for _, o := range ops {
		end = max(end, o.Call, o.Return)
	}
	for _, o := range ops {
		if o.Kind < Put || o.Kind > Upsert || o.Outcome < Done || o.Outcome > Either {
			return nil, fmt.Errorf("no such call or outcome: %v", o)
		}
		if o.Outcome == Absent && excused(&o, ops) {
			continue
		}
		last := o.Return
		if o.Outcome == Unknown {
			last = end + 1
		}
		if last < o.Call {
			return nil, fmt.Errorf("a call that ends before it begins: %v", o)
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Output: o.Outcome, Return: last})
	}
	return out, nil
}

// excused tells whether a read may have missed the object because of a removal at the same leader that was never
// acknowledged, and may be undone by the end of that leader.
func excused(read *Op, ops []Op) bool {
	if read.Kind != Get && read.Kind != Exist {
		return false
	}
	for i := range ops {
		if o := &ops[i]; o.Kind == Remove && o.Outcome == Unknown && o.Place == read.Place && o.Call <= read.Return {
			return true
		}
	}
	return false
}

// model is one key. Its state is the value of the object; 0 is none.
var model = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		now, o := state.(uint64), input.(Op)
		switch {
		case o.Kind == Upsert && (o.Outcome == Done || o.Outcome == Unknown):
			return true, o.Value
		case o.Kind == Put && o.Outcome == Done:
			return now == 0, o.Value
		case o.Kind == Put && (o.Outcome == Unknown || o.Outcome == Either):
			if now == 0 {
				return true, o.Value
			}
			return true, now
		case o.Kind == Remove && o.Outcome == Done:
			return now != 0, uint64(0)
		case o.Kind == Remove && (o.Outcome == Unknown || o.Outcome == Cleared):
			return true, uint64(0)
		case o.Outcome == Absent:
			return now == 0, now
		case o.Kind == Get && o.Outcome == Done:
			return now == o.Value, now
		case o.Outcome == Present, o.Kind == Exist && o.Outcome == Done:
			return now != 0, now
		}
		return false, now
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(input, _ any) string { return input.(Op).String() },
}
