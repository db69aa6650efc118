package master

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/descriptor"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// suspicion looks after owners of segments of which there is a sign that they are gone: all their connections closed, or
// others give up writing to their segments. A sign alone decides nothing, for one client with a broken network must not
// take segments from everybody: this process asks the segment's handshake port itself, and only if that does not answer
// the catalog hears of it.
//
// It asks only endpoints that have answered before, at the mount. An endpoint that is no handshake port (with a metadata
// server it may be any name), or that cannot be reached from here, never had an answer to give.
//
// Its lock is a leaf.
type suspicion struct {
	cat    suspectable
	clock  *Clock
	log    *zap.Logger
	ask    func(ctx context.Context, address string) error
	locate func(name string) (address string, known bool) // of a segment in the metadata server of this process
	pinged func(client catalog.UUID) time.Time
	from   func(client catalog.UUID) string // the address that a client calls from
	now    func() time.Time

	greetings chan catalog.UUID
	questions chan question

	mu     sync.Mutex
	owners map[catalog.UUID]*owner
}

// suspectable is the part of the catalog that suspicion needs.
type suspectable interface {
	SegmentsOf(client catalog.UUID) []catalog.SegmentInfo
	Suspect(now catalog.Time, client catalog.UUID) bool
}

// owner is what is remembered of a client with segments.
type owner struct {
	reached map[string]bool // endpoints of its segments that answered once
	mute    map[string]bool // those that did not answer when they were mounted
	greet   greeting
	asked   catalog.Time // when the last question was put
	waiting bool         // a question about it is under way
	revokes int          // writes to its segments given up since
	since   catalog.Time
}

// A greeting asks all endpoints of a client that have not answered yet. A client has one at most that waits or is under
// way: with one for each of its mounts, a client of a thousand segments would be asked half a million times.
type greeting struct {
	waiting bool // it comes
	running bool
	again   bool // more was mounted while it ran
}

// question is one owner to be asked, and when the sign came.
type question struct {
	client catalog.UUID
	at     time.Time
}

func newSuspicion(cat suspectable, clock *Clock, log *zap.Logger) *suspicion {
	client := descriptor.Client{Reply: limits.ProbeGreetMs * time.Millisecond} // the context bounds the single question
	return &suspicion{
		cat: cat, clock: clock, log: log, ask: client.Probe,
		locate:    func(string) (string, bool) { return "", false },
		greetings: make(chan catalog.UUID, limits.ProbesWaiting),
		questions: make(chan question, limits.ProbesWaiting),
		pinged:    func(catalog.UUID) time.Time { return time.Time{} },
		from:      func(catalog.UUID) string { return "" },
		now:       time.Now,
		owners:    map[catalog.UUID]*owner{},
	}
}

// greetAll asks those who mounted until ctx ends. Greetings have places of their own: those that nobody answers take long,
// and many mounts come at once.
func (s *suspicion) greetAll(ctx context.Context) error {
	inPlaces(ctx, s.greetings, func(client catalog.UUID) { s.greet(ctx, client) })
	return nil
}

// answerAll asks those in doubt until ctx ends.
func (s *suspicion) answerAll(ctx context.Context) error {
	inPlaces(ctx, s.questions, func(q question) { s.answer(ctx, q) })
	return nil
}

// inPlaces does the work of a queue, a bounded number at a time, until ctx ends and the last has finished.
func inPlaces[T any](ctx context.Context, queue <-chan T, do func(T)) {
	var working sync.WaitGroup
	defer working.Wait()
	places := make(chan struct{}, limits.ProbesAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case item := <-queue:
			working.Go(func() {
				defer func() { <-places }()
				do(item)
			})
		}
	}
}

// mounted asks a client that brought a segment, to learn whether it can be asked.
func (s *suspicion) mounted(client catalog.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners[client] == nil {
		if len(s.owners) >= limits.CatalogSegmentsMax {
			return // each has a segment at least: some of these are about to be forgotten
		}
		s.owners[client] = &owner{reached: map[string]bool{}, mute: map[string]bool{}}
	}
	s.inviteLocked(client)
}

// inviteLocked sees to a greeting that begins after now.
func (s *suspicion) inviteLocked(client catalog.UUID) {
	switch g := &s.owners[client].greet; {
	case g.running:
		g.again = true
	case !g.waiting:
		g.waiting = enqueue(s.greetings, client)
	}
}

// forgetIdle drops a client if it has no segments any more: one that went may be back already.
func (s *suspicion) forgetIdle(client catalog.UUID) {
	if len(s.cat.SegmentsOf(client)) == 0 {
		s.forget(client)
	}
}

func (s *suspicion) forget(client catalog.UUID) {
	s.mu.Lock()
	delete(s.owners, client)
	s.mu.Unlock()
}

// doubt takes a sign that a client is gone.
func (s *suspicion) doubt(client catalog.UUID, now catalog.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doubtLocked(client, now)
}

func (s *suspicion) doubtLocked(client catalog.UUID, now catalog.Time) {
	o := s.owners[client]
	if o == nil || len(o.reached) == 0 || o.waiting || o.asked != 0 && now-o.asked < limits.ProbeAgainMs {
		return
	}
	if enqueue(s.questions, question{client: client, at: s.now()}) {
		o.waiting, o.asked = true, now
	}
}

// revoked notes that a writer gave up writing to the segments of these clients.
func (s *suspicion) revoked(owners []catalog.UUID, now catalog.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range owners {
		o := s.owners[id]
		if o == nil {
			continue
		}
		if now-o.since > limits.RevokeWindowMs {
			o.since, o.revokes = now, 0
		}
		if o.revokes++; o.revokes >= limits.RevokeBurst {
			s.doubtLocked(id, now)
		}
	}
}

// enqueue reports whether there was room.
func enqueue[T any](queue chan<- T, item T) bool {
	select {
	case queue <- item:
		return true
	default:
		return false
	}
}

// answer puts one question and draws the conclusion.
func (s *suspicion) answer(ctx context.Context, q question) {
	endpoints := s.endpoints(q.client)
	err := s.silent(ctx, q.client, endpoints)
	for range limits.ProbeStalls {
		if err == nil || s.now().Sub(q.at) < 2*limits.ProbeMs*time.Millisecond {
			break
		}
		// This process stood still, or had too much to do: the answer may have come and not been seen in time.
		q.at = s.now()
		err = s.silent(ctx, q.client, endpoints)
	}
	s.mu.Lock()
	if o := s.owners[q.client]; o != nil {
		o.waiting, o.revokes = false, 0
	}
	s.mu.Unlock()
	if err == nil || ctx.Err() != nil || s.pinged(q.client).After(q.at) {
		return
	}
	if s.cat.Suspect(s.clock.Now(), q.client) {
		s.log.Warn("client does not answer: nothing new goes to its segments", zap.String("action", "client_suspect"),
			zap.String("client", q.client.String()), zap.Strings("endpoints", endpoints), zap.Error(err))
	}
}

// silent returns why no endpoint of the client answers; nil when one does, or when none can be asked.
func (s *suspicion) silent(ctx context.Context, client catalog.UUID, endpoints []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limits.ProbeMs*time.Millisecond)
	defer cancel()
	for _, e := range endpoints {
		if !s.knows(client, e) {
			continue
		}
		if ctx.Err() != nil {
			return nil // the others took all the time: of this one nothing is known
		}
		if err = s.ask(ctx, s.address(e)); err == nil {
			return nil
		}
	}
	return err
}

// greet learns which endpoints of a client answer.
func (s *suspicion) greet(living context.Context, client catalog.UUID) {
	s.mu.Lock()
	o := s.owners[client]
	if o != nil {
		o.greet = greeting{running: true}
	}
	s.mu.Unlock()
	s.greetEach(living, client)
	s.mu.Lock()
	defer s.mu.Unlock()
	if o == nil || s.owners[client] != o { // it went, and one that came back has a greeting of its own
		return
	}
	again := o.greet.again
	if o.greet = (greeting{}); again {
		s.inviteLocked(client)
	}
}

func (s *suspicion) greetEach(living context.Context, client catalog.UUID) {
	ctx, cancel := context.WithTimeout(living, limits.ProbeGreetMs*time.Millisecond)
	defer cancel()
	for _, e := range s.endpoints(client) {
		if s.knows(client, e) {
			continue
		}
		err := s.ask(ctx, s.address(e))
		if living.Err() != nil {
			return // this process stops: that says nothing of the client
		}
		if s.note(client, e, err == nil) {
			s.log.Warn("the endpoint of a segment does not answer from here: others may not reach it either", zap.String("action", "segment_unverified"),
				zap.String("endpoint", e), zap.String("client", client.String()), zap.String("calls_from", s.from(client)), zap.Error(err))
		}
	}
}

// note keeps whether an endpoint answered; it tells whether it is the first time that it did not.
func (s *suspicion) note(client catalog.UUID, endpoint string, answered bool) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[client]
	switch {
	case o == nil:
		return false
	case answered:
		o.reached[endpoint] = true
		delete(o.mute, endpoint)
		return false
	}
	news = !o.mute[endpoint]
	o.mute[endpoint] = true
	return news
}

// A Verdict says whether the endpoint of a segment answered this process after the mount.
type Verdict uint8

// The verdicts.
const (
	VerdictOpen       Verdict = iota // nobody has asked yet, or it is no address that can be asked
	VerdictVerified                  // it answered
	VerdictUnverified                // it did not
)

// String names it as lists show it.
func (v Verdict) String() string { return [...]string{"unknown", "verified", "unverified"}[v] }

func (s *suspicion) verdict(client catalog.UUID, endpoint string) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := s.owners[client]; {
	case o != nil && o.reached[endpoint]:
		return VerdictVerified
	case o != nil && o.mute[endpoint]:
		return VerdictUnverified
	}
	return VerdictOpen
}

// knows tells whether an endpoint of the client answered once.
func (s *suspicion) knows(client catalog.UUID, endpoint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[client]
	return o != nil && o.reached[endpoint]
}

// address is where the process behind an endpoint listens for handshakes: what the metadata server says, else the
// endpoint itself.
func (s *suspicion) address(endpoint string) string {
	if at, known := s.locate(endpoint); known {
		return at
	}
	return endpoint
}

// endpoints lists the distinct endpoints of the client's segments, as far as they can be asked. A client without segments
// is forgotten.
func (s *suspicion) endpoints(client catalog.UUID) (endpoints []string) {
	mounted := s.cat.SegmentsOf(client)
	if len(mounted) == 0 {
		s.forget(client)
	}
	met := make(map[string]struct{}, len(mounted))
	for i := range mounted {
		e := mounted[i].Endpoint
		if _, again := met[e]; again {
			continue
		}
		met[e] = struct{}{}
		if _, known := s.locate(e); known || hostport.HasPort(e) {
			endpoints = append(endpoints, e)
		}
	}
	return endpoints
}
