package master

import (
	"context"
	"errors"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// sumWork keeps one daemon busy with sums, as long as its stream lasts. One request is on its way at a time, so a daemon that
// is slow is asked for less.
type sumWork struct {
	s      *Service
	a      *attachment
	client catalog.UUID
	d      *sumDaemon
	while  func(do func()) bool // does it as long as this master leads; false: it does not

	urgent []sumJob         // taken from the queue, or found without a sum
	walk   *catalog.SumWalk // for those
	scrub  []sumJob         // found by the scrub
	round  *catalog.SumWalk // the scrub under way
	next   time.Time        // of the scrub
	found  []catalog.SumTask
}

// keepSums returns when the stream has ended, or this master does not lead any more.
func (x segmentsServer) keepSums(ctx context.Context, s *Service, client catalog.UUID, a *attachment) {
	w := sumWork{s: s, a: a, client: client, d: s.integrity.join(client), next: time.Now().Add(limits.ScrubRestMs * time.Millisecond)}
	w.while = func(do func()) (done bool) {
		x.g.source.while(s, func() { do(); done = true })
		return done
	}
	for w.step(ctx) {
	}
	rest := s.integrity.leave(client, w.d)
	for _, list := range [][]sumJob{w.urgent, w.scrub} {
		for i := range list {
			rest = append(rest, list[i].SumTask)
		}
	}
	w.while(func() { s.cat.DropSums(rest) })
}

// step has some copies looked at, or waits until there are such. It is false at the end.
func (w *sumWork) step(ctx context.Context) bool {
	if !w.while(w.fetch) {
		return false
	}
	now := time.Now()
	jobs, piece, scrubbing := &w.urgent, uint64(limits.SumPieceBytes), false
	if len(w.urgent) == 0 && !now.Before(w.next) {
		jobs, piece, scrubbing = &w.scrub, pieceOf(w.s.integrity.pace()), true
	}
	if len(*jobs) == 0 {
		return w.rest(ctx, w.pause(now))
	}
	ranges, bytes := rangesOf(*jobs, piece)
	sums, err := w.a.sum(ctx, ranges)
	if err != nil {
		return w.failed(ctx, jobs)
	}
	if scrubbing {
		w.next = now.Add(restAfter(bytes, w.s.integrity.pace()))
	}
	return w.while(func() { w.heard(jobs, ranges, sums, scrubbing) })
}

// pause is how long there is nothing to do if nobody says so: a walk that found nothing yet goes on at once.
func (w *sumWork) pause(now time.Time) time.Duration {
	switch {
	case w.walk != nil:
		return time.Millisecond
	case w.round != nil || w.s.integrity.scrub > 0:
		return min(max(w.next.Sub(now), time.Millisecond), limits.ScrubRestMs*time.Millisecond)
	}
	return limits.ScrubRestMs * time.Millisecond
}

// rest waits, but not when there is something to do.
func (w *sumWork) rest(ctx context.Context, pause time.Duration) bool {
	late := time.NewTimer(pause)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.a.ended:
		return false
	case <-w.s.quit:
		return false
	case <-w.d.wake:
	case <-late.C:
	}
	return true
}

// failed gives up what a daemon did not look at.
func (w *sumWork) failed(ctx context.Context, jobs *[]sumJob) bool {
	rest := make([]catalog.SumTask, 0, len(*jobs))
	for i := range *jobs {
		rest = append(rest, (*jobs)[i].SumTask)
	}
	*jobs = nil
	x := w.s.integrity
	x.mu.Lock()
	x.info.Failures++
	w.d.missing = true
	x.mu.Unlock()
	if !w.while(func() { w.s.cat.DropSums(rest) }) {
		return false
	}
	after := time.NewTimer(limits.AttachRetryMs * time.Millisecond)
	defer after.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.a.ended:
		return false
	case <-after.C:
	}
	return true
}

// fetch takes what is to be looked at next.
func (w *sumWork) fetch() {
	x := w.s.integrity
	x.mu.Lock()
	if len(w.urgent) == 0 {
		w.urgent, w.d.queue = w.d.queue, nil
	}
	if w.walk == nil && w.d.missing {
		w.walk, w.d.missing = new(catalog.SumWalk), false
	}
	if w.d.scrubNow {
		w.d.scrubNow = false
		w.round, w.next = new(catalog.SumWalk), time.Time{}
		w.d.bytes = 0
	}
	x.mu.Unlock()
	if len(w.urgent) == 0 && w.walk != nil {
		more := false
		if w.urgent, more = w.slice(w.walk, true, limits.SumPieceBytes, w.urgent); !more {
			w.walk = nil
		}
	}
	if len(w.urgent) > 0 || len(w.scrub) > 0 || x.scrub == 0 && w.round == nil || time.Now().Before(w.next) {
		return
	}
	if w.round == nil {
		w.round = new(catalog.SumWalk)
	}
	more := false
	if w.scrub, more = w.slice(w.round, false, pieceOf(x.pace()), w.scrub); !more && len(w.scrub) == 0 {
		w.round, w.next = nil, time.Now().Add(limits.ScrubRestMs*time.Millisecond)
		x.mu.Lock()
		w.d.rounds++
		w.d.bytes = 0
		x.mu.Unlock()
	}
}

// slice goes on with a walk until something is found, or a bound of work is reached.
func (w *sumWork) slice(walk *catalog.SumWalk, missing bool, bytes uint64, jobs []sumJob) ([]sumJob, bool) {
	more := true
	for range limits.SumSlices {
		w.found, more = w.s.cat.SumSlice(walk, w.client, missing, bytes, w.found[:0])
		for i := range w.found {
			jobs = append(jobs, sumJob{SumTask: w.found[i]})
		}
		if !more || len(jobs) > 0 {
			break
		}
	}
	return jobs, more
}

// rangesOf cuts a request out of the front of a queue. The last object in it may be there in part only.
func rangesOf(jobs []sumJob, bytes uint64) (ranges []*mooncakev1.SumRange, total uint64) {
	for i := 0; i < len(jobs) && i < limits.SumRanges && total < bytes; i++ {
		j := &jobs[i]
		size := min(j.Size-j.at, bytes-total)
		ranges = append(ranges, &mooncakev1.SumRange{Address: j.Segment.Base + j.Offset + j.at, Size: size, Before: j.crc})
		total += size
	}
	return ranges, total
}

// heard takes up an answer: objects that are complete are judged, the last one may go on.
func (w *sumWork) heard(jobs *[]sumJob, ranges []*mooncakev1.SumRange, sums []uint32, scrubbing bool) {
	var results []catalog.SumResult
	bytes := uint64(0)
	for i, r := range ranges {
		j := &(*jobs)[i]
		j.at, j.crc = j.at+r.Size, sums[i]
		bytes += r.Size
		if j.at == j.Size {
			results = append(results, catalog.SumResult{SumTask: j.SumTask, Found: j.crc, Sure: j.sure})
		}
	}
	done := len(results)
	if done == len(*jobs) {
		*jobs = nil
	} else {
		*jobs = (*jobs)[done:]
	}
	if scrubbing {
		x := w.s.integrity
		x.mu.Lock()
		w.d.bytes += bytes
		x.mu.Unlock()
	}
	if done > 0 {
		w.s.judgeSums(results)
	}
}

// The ways in which nobody finds sums.
var errSumsRefused = errors.New("the owner of the segment has not found the sums")

// sum asks a daemon for sums and waits for them.
func (a *attachment) sum(ctx context.Context, ranges []*mooncakev1.SumRange) ([]uint32, error) {
	a.mu.Lock()
	a.number++
	number := a.number
	answer := make(chan []uint32, 1)
	a.awaited = awaitedSums{number, len(ranges), answer}
	a.mu.Unlock()
	late := time.NewTimer(limits.SumWaitMs * time.Millisecond)
	defer late.Stop()
	select {
	case a.sums <- &mooncakev1.SumRequest{Number: number, Ranges: ranges}:
	case <-a.ended:
		return nil, errNotAttached
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, errSumsRefused
	}
	select {
	case sums := <-answer:
		if sums == nil {
			return nil, errSumsRefused
		}
		return sums, nil
	case <-a.ended:
		return nil, errNotAttached
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, errSumsRefused
	}
}

// awaitedSums is the request for sums that is on its way.
type awaitedSums struct {
	number uint64
	ranges int
	answer chan []uint32 // has room for the answer; nil is a failure
}

// summed passes on what the daemon found. An answer that nobody waits for any more is dropped.
func (a *attachment) summed(r *mooncakev1.SumReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited.number != r.GetNumber() || a.awaited.answer == nil {
		return
	}
	sums := r.GetSums()
	if r.GetFailure() != "" || len(sums) != a.awaited.ranges {
		sums = nil
	}
	a.awaited.answer <- sums
	a.awaited = awaitedSums{}
}
