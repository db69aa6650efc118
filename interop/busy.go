package interop

import (
	"fmt"
	"time"
)

// Flood describes what a client writes by itself, in the background of its process: lane t of Threads writes the objects
// PREFIX/t/0, PREFIX/t/1, … in batches.
type Flood struct {
	Prefix    string
	Threads   int
	Batch     int   // objects of a call; 1 is a plain put
	PaceMs    int   // between the beginnings of two calls of a thread; 0 is as fast as it goes
	SizeBytes int64 // of each object
	PinEvery  int   // every so many calls the objects are hard pinned; 0 never
}

func (f Flood) args(kind string) map[string]any {
	return map[string]any{
		"kind": kind, "name": f.Prefix, "prefix": f.Prefix, "threads": f.Threads, "batch": f.Batch, "pace_ms": f.PaceMs,
		"size": f.SizeBytes, "pin_every": f.PinEvery,
	}
}

// floodValues is how many different values the objects of a lane have.
const floodValues = 251

// Item is an object that the flood writes.
func (f Flood) Item(lane, number int) Item {
	return Item{Key: Key(fmt.Sprintf("%s/%d/%d", f.Prefix, lane, number)), Size: f.SizeBytes, Seed: int64(number%floodValues) + 1}
}

// FloodCall is one call of a flood and its outcome.
type FloodCall struct {
	Lane, Number int // the objects Number*Batch … Number*Batch+Batch-1
	At           time.Time
	Code         int
}

// Flooded is what a flood did.
type Flooded struct {
	Acked, Failed []FloodCall // lane by lane, in order of time
}

// StartFlood begins to write.
func (s *Store) StartFlood(f Flood) error { return s.Do("busy_start", f.args("flood"), nil) }

// FloodState tells how many calls were acknowledged so far, and when the last of them was.
func (s *Store) FloodState(f Flood) (acked int, last time.Time, err error) {
	var reply struct {
		Acked int
		Last  float64
	}
	err = s.Do("busy_state", map[string]any{"name": f.Prefix}, &reply)
	return reply.Acked, unixTime(reply.Last), err
}

// StopFlood ends the writing.
func (s *Store) StopFlood(f Flood) (out Flooded, err error) {
	var reply struct {
		Acked, Failed [][][3]float64
		Errors        []string
	}
	if err := s.Do("busy_stop", map[string]any{"name": f.Prefix}, &reply); err != nil {
		return out, err
	}
	if len(reply.Errors) > 0 {
		return out, fmt.Errorf("%w: %v", ErrWorker, reply.Errors)
	}
	calls := func(lanes [][][3]float64) (all []FloodCall) {
		for lane, list := range lanes {
			for _, c := range list {
				all = append(all, FloodCall{lane, int(c[0]), unixTime(c[1]), int(c[2])})
			}
		}
		return all
	}
	return Flooded{calls(reply.Acked), calls(reply.Failed)}, nil
}

// Followed is what a client saw that looked for the objects of a flood.
type Followed struct {
	Seen   [][]int // numbers of objects by lane, ascending
	Rounds int
	Reads  int      // objects of which the bytes were read and compared
	Shown  int      // puts of the reader, see StartFollowing
	Wrong  []string // the first ones that had other bytes
	Errors []string
}

// StartFollowing looks for what another client's flood writes, and for what it may be about to write. When a read brings
// nothing the reader puts a small object: readers of 12 and of later releases at one address cannot be told apart by what
// they ask, and a leader that is new knows none of them yet. A put shows of which release a client is.
func (s *Store) StartFollowing(f Flood) error {
	args := f.args("follower")
	args["show"] = "shown/" + s.Client.Release.String()
	return s.Do("busy_start", args, nil)
}

// StopFollowing ends that.
func (s *Store) StopFollowing(f Flood) (out Followed, err error) {
	err = s.Do("busy_stop", map[string]any{"name": f.Prefix}, &out)
	return out, err
}

// Reader describes what a client reads by itself, in the background of its process: random ones of known objects.
type Reader struct {
	Name    string
	Items   []Item
	Threads int
	PaceMs  int // between two reads of a thread
}

// Reading is what a reader saw so far.
type Reading struct {
	Good   int         // reads that brought the right bytes
	Oldest time.Time   // every thread has begun a good read at this time or later
	Failed []time.Time // when reads that brought nothing had begun
	Wrong  []string    // the first ones that brought other bytes
}

// StartReader begins to read.
func (s *Store) StartReader(r Reader) error {
	return s.Do("busy_start", map[string]any{"kind": "reader", "name": r.Name, "items": r.Items, "threads": r.Threads, "pace_ms": r.PaceMs}, nil)
}

// LookAtReader tells what a reader saw so far.
func (s *Store) LookAtReader(r Reader) (Reading, error) { return s.reading("busy_look", r) }

// StopReader ends the reading.
func (s *Store) StopReader(r Reader) (Reading, error) { return s.reading("busy_stop", r) }

func (s *Store) reading(op string, r Reader) (out Reading, err error) {
	var reply struct {
		Good          int
		Oldest        float64
		Failed        []float64
		Wrong, Errors []string
	}
	if err := s.Do(op, map[string]any{"name": r.Name}, &reply); err != nil {
		return out, err
	}
	if len(reply.Errors) > 0 {
		return out, fmt.Errorf("%w: %v", ErrWorker, reply.Errors)
	}
	out = Reading{Good: reply.Good, Oldest: unixTime(reply.Oldest), Wrong: reply.Wrong}
	for _, at := range reply.Failed {
		out.Failed = append(out.Failed, unixTime(at))
	}
	return out, nil
}

func unixTime(sec float64) time.Time { return time.Unix(0, int64(sec*1e9)) }
