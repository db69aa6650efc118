package master

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
	"mooncake/metrics"
	"mooncake/wire"
)

// callLog remembers what went wrong with calls, for people: which were refused, and which took long. A process has one, over
// all its terms. Its locks are leaves.
type callLog struct {
	log   *zap.Logger
	calls *metrics.Calls
	now   func() time.Time

	threshold time.Duration // from which a call is slow; 0: none is

	mu    sync.Mutex
	kinds map[refusalKind]*refusalRun

	slowMu sync.Mutex
	slow   []SlowCall // a ring
	seen   uint64     // slow calls ever
}

// refusalKind is a call and the code that it was answered with.
type refusalKind struct {
	call wire.CallID
	code string
}

// refusalRun is a row of refusals of one kind. It begins with a few lines and goes on with sums, ever more seldom.
type refusalRun struct {
	since  time.Time
	window time.Duration
	told   int
	count  uint64  // not told of yet
	first  refusal // of those
}

// refusal is one of them.
type refusal struct{ client, from, key string }

// SlowCall is one call that took long.
type SlowCall struct {
	At     time.Time
	Call   string
	Took   time.Duration // in the handler: neither the way here nor the wait for disk or etcd is in it
	Client string
	From   string
	Key    string // the first, shortened
	Keys   int
}

func newCallLog(log *zap.Logger, calls *metrics.Calls, threshold time.Duration) *callLog {
	return &callLog{log: log, calls: calls, now: time.Now, threshold: threshold, kinds: map[refusalKind]*refusalRun{}}
}

// outcome is the part of a reply that says whether a call, or an item of it, was refused, and why.
type outcome interface {
	Refused() (code string, refused bool)
}

// outcomesOf returns a function that goes through the refused items of replies of one type and tells whether there are any;
// nil if such replies have none. Without visit it only tells.
func outcomesOf[Rep any]() func(rep *Rep, visit func(item int, code string)) (refused bool) {
	switch any((*Rep)(nil)).(type) {
	case outcome:
		return func(rep *Rep, visit func(int, string)) bool {
			code, refused := any(rep).(outcome).Refused()
			if refused && visit != nil {
				visit(0, code)
			}
			return refused
		}
	case *[]wire.Exp[wire.Void, wire.ErrorCode]:
		return refusedItems[Rep, wire.Void]
	case *[]wire.Exp[bool, wire.ErrorCode]:
		return refusedItems[Rep, bool]
	case *[]wire.Exp[[]wire.ReplicaDescriptor, wire.ErrorCode]:
		return refusedItems[Rep, []wire.ReplicaDescriptor]
	case *[]wire.Exp[wire.GetReplicaListResponse, wire.ErrorCode]:
		return refusedItems[Rep, wire.GetReplicaListResponse]
	}
	return nil
}

func refusedItems[Rep, T any](rep *Rep, visit func(item int, code string)) (refused bool) {
	list, ok := any(rep).(*[]wire.Exp[T, wire.ErrorCode])
	if !ok {
		return false
	}
	for i := range *list {
		code := (*list)[i].Err
		if code == 0 {
			continue
		}
		if refused = true; visit == nil {
			break
		}
		visit(i, code.String())
	}
	return refused
}

// refused takes note of a call, or an item of one, that was answered with a code. req points to the request.
func (l *callLog) refused(p *peerConn, call wire.CallID, code string, req any, item int) {
	l.calls.CountRefusal(code)
	if code == wire.ErrObjectAlreadyExists.String() && strings.HasSuffix(call.Name(), "PutStart") {
		l.calls.CountExists(call == wire.BatchPutStart.ID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kind := refusalKind{call, code}
	run := l.kinds[kind]
	if run == nil {
		if len(l.kinds) >= limits.RefusalKinds {
			return // they are counted by code all the same
		}
		run = &refusalRun{since: l.now(), window: limits.RefusalFoldMs * time.Millisecond}
		l.kinds[kind] = run
	}
	if run.told < limits.RefusalLines {
		run.told++
		r := refusalOf(p, req, item)
		l.log.Info("call refused", l.fields(kind, &r)...)
		return
	}
	if run.count++; run.count == 1 {
		run.first = refusalOf(p, req, item)
	}
}

// fields are those of a line about a refusal.
func (l *callLog) fields(k refusalKind, r *refusal) []zap.Field {
	out := []zap.Field{
		zap.String("action", "refused"), zap.String("call", k.call.Name()), zap.String("code", k.code), zap.String("cause", causes[k.code]),
		zap.String("client", r.client), zap.String("from", r.from),
	}
	if r.key != "" {
		out = append(out, zap.String("key", r.key))
	}
	return out
}

// sweep tells of rows whose window is over. A row without anything new ends.
func (l *callLog) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for kind, run := range l.kinds {
		switch {
		case now.Sub(run.since) < run.window:
		case run.count == 0:
			delete(l.kinds, kind)
		default:
			l.log.Info("calls refused", append(l.fields(kind, &run.first), zap.Uint64("refused", run.count), zap.Duration("since", now.Sub(run.since)))...)
			run.since, run.count, run.window = now, 0, min(2*run.window, limits.RefusalFoldMaxMs*time.Millisecond)
		}
	}
}

// took takes note of how long a call was in its handler.
func (l *callLog) took(p *peerConn, call wire.CallID, took time.Duration, req any) {
	if l.threshold == 0 || took < l.threshold {
		return
	}
	r := refusalOf(p, req, 0)
	c := SlowCall{At: time.Now().Add(-took), Call: call.Name(), Took: took, Client: r.client, From: r.from, Key: r.key, Keys: keysIn(req)}
	l.slowMu.Lock()
	defer l.slowMu.Unlock()
	if l.seen++; len(l.slow) < limits.SlowCalls {
		l.slow = append(l.slow, c)
		return
	}
	l.slow[(l.seen-1)%limits.SlowCalls] = c
}

// slowCalls lists them, the last first.
func (l *callLog) slowCalls() (list []SlowCall, seen uint64) {
	l.slowMu.Lock()
	defer l.slowMu.Unlock()
	list, seen = slices.Clone(l.slow), l.seen
	slices.SortStableFunc(list, func(a, b SlowCall) int { return cmp.Compare(b.At.UnixNano(), a.At.UnixNano()) })
	return list, seen
}

// refusalOf says who called, and about what.
func refusalOf(p *peerConn, req any, item int) (r refusal) {
	r.from, r.client = p.peer.String(), "unknown"
	v := reflect.ValueOf(req).Elem()
	if id, ok := fieldOf(v, "ClientID").(wire.UUID); ok {
		r.client = id.String()
	} else if ids := p.clients(); len(ids) > 0 {
		r.client = ids[len(ids)-1].String()
	}
	switch about := keyField(v).(type) {
	case string:
		r.key = about
	case []string:
		if item < len(about) {
			r.key = about[item]
		}
	case wire.ObjectMeta:
		r.key = about.Key
	case []wire.ObjectMeta:
		if item < len(about) {
			r.key = about[item].Key
		}
	case wire.Segment:
		r.key = about.Name
	}
	r.key = printable(shortened(strings.Clone(r.key)))
	return r
}

// keyField is the field of a request that says what it is about; nil if none does.
func keyField(request reflect.Value) any {
	for _, name := range []string{"Key", "Keys", "Object", "Objects", "Regex", "Segment", "SegmentName"} {
		if f := fieldOf(request, name); f != nil {
			return f
		}
	}
	return nil
}

func fieldOf(request reflect.Value, name string) any {
	if request.Kind() != reflect.Struct {
		return nil
	}
	f := request.FieldByName(name)
	if !f.IsValid() {
		return nil
	}
	return f.Interface()
}

// keysIn is the number of things that a request is about.
func keysIn(req any) int {
	switch about := reflect.ValueOf(keyField(reflect.ValueOf(req).Elem())); about.Kind() {
	case reflect.Invalid:
		return 0
	case reflect.Slice:
		return about.Len()
	}
	return 1
}

// causes say in words why calls are refused with a code.
var causes = map[string]string{
	wire.ErrInvalidParams.String():              "an argument is empty, too large or makes no sense",
	wire.ErrObjectNotFound.String():             "there is no readable object of that key",
	wire.ErrObjectAlreadyExists.String():        "an object of that key is there and stays",
	wire.ErrObjectHasLease.String():             "a reader was told of it less than a lease ago",
	wire.ErrNoAvailableHandle.String():          "no segment has room, and nothing may be evicted; see mooncake_go_put_refusals_total",
	wire.ErrReplicaIsNotReady.String():          "its first write has not ended",
	wire.ErrIllegalClient.String():              "another client began this",
	wire.ErrInvalidWrite.String():               "nothing is being written under that key",
	wire.ErrSegmentNotFound.String():            "there is no such segment, or none that may be used",
	wire.ErrUnavailableInCurrentStatus.String(): "the state of the object, segment or client does not allow it",
	wire.ErrUnavailableInCurrentMode.String():   "this master does not do that, or not with its settings",
	wire.ErrObjectHasReplicationTask.String():   "a copy or move of it is under way",
	wire.ErrObjectReplicaBusy.String():          "a copy or move of it is under way",
	wire.ErrTenantNotRegistered.String():        "the tenant has no quota",
	wire.ErrTenantQuotaExceeded.String():        "the tenant has as much as it may",
	wire.ErrTaskNotFound.String():               "there is no such task any more",
}

// summaryLog writes the line about what is stored and was asked for since the line before.
type summaryLog struct {
	source AdminSource
	log    *zap.Logger
	last   metrics.CallTotals
}

func (l *summaryLog) tell(calls *metrics.Calls) {
	st, standing, now := l.source.Stats(), l.source.Standing(), calls.Totals()
	was := l.last
	l.last = now
	l.log.Info(summaryLine, zap.String("role", standing.Role), zap.String("state", standing.State), zap.Uint64("keys", st.Keys),
		zap.String("used", fmt.Sprintf("%d/%d", st.AllocatedBytes, st.CapacityBytes)), zap.Uint64("segments", st.Segments), zap.Uint64("clients", st.ActiveClients),
		zap.Uint64("calls", now.Calls-was.Calls), zap.Uint64("refused", now.Refused-was.Refused), zap.Uint64("looked_up", now.LookUps-was.LookUps),
		zap.Uint64("found", now.Hits-was.Hits), zap.Uint64("evicted_bytes_ever", st.EvictedBytes))
}
