package master

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/replication"
	"mooncake/wire"
)

// TestTakesUpItsJournal ends a master and starts another on its directory: objects, removals and segments are as they
// were, owners are asked to remount, and nothing is given out twice.
func TestTakesUpItsJournal(t *testing.T) {
	dir := t.TempDir()
	durable := func(c *Config) { c.DataDir, c.JournalSync = dir, "never" }
	b := newBed(t, durable)
	owner := b.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	writer := b.client(wire.V14)
	for _, key := range []string{"a", "b", "c"} {
		writer.put(key, 20*mib)
	}
	expect(t, "remove", writer.remove("b", true), 0)
	half := invoke(writer, &wire.PutStart, &wire.PutStartRequest{ClientID: writer.id, Key: "half", Size: 9, Config: oneCopy()})
	expect(t, "a put that is never finished", half.Err, 0)
	at := map[string]uint64{}
	for _, key := range []string{"a", "c"} {
		got := writer.get(key)
		expect(t, "get "+key, got.Err, 0)
		at[key] = got.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.BufferAddress
	}
	b.stop()

	b = newBed(t, durable)
	reader := b.client(wire.V13)
	for _, key := range []string{"a", "c"} {
		got := reader.get(key)
		expect(t, "get "+key+" after the start", got.Err, 0)
		expect(t, "address of "+key, got.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.BufferAddress, at[key])
	}
	expect(t, "what was removed", reader.get("b").Err, wire.ErrObjectNotFound)
	expect(t, "what was not finished", reader.get("half").Err, wire.ErrReplicaIsNotReady)
	again := b.client(wire.V13)
	again.id = owner.id
	ping := invoke(again, &wire.Ping, &wire.PingRequest{ClientID: again.id})
	expect(t, "ping of an owner", ping.Value.ClientStatus, wire.ClientStatusNeedRemount)
	s := b.service.Stats()
	expect(t, "bytes", s.AllocatedBytes, 40*mib+9)
	expect(t, "keys", s.Keys, 3)
	reader.put("d", 10*mib)
	got := reader.get("d")
	fresh := got.Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.BufferAddress
	for key, old := range at {
		if fresh < old+20*mib && old < fresh+10*mib {
			t.Errorf("a new object lies over %s", key)
		}
	}
}

// heldJournal is a journal that writes when a test says so.
type heldJournal struct {
	mu     sync.Mutex
	last   uint64
	done   uint64
	change chan struct{}
	err    error
	failed chan struct{}
	after  []func()
	settle func(uint64)
	full   bool // it takes nothing more
}

func newHeldJournal() *heldJournal {
	return &heldJournal{change: make(chan struct{}), failed: make(chan struct{})}
}

func (j *heldJournal) Append([]catalog.Change) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.last++
	return j.last
}

func (j *heldJournal) AppendNote(replication.Note) {}

func (j *heldJournal) AppendName(replication.NameChange) uint64 { return j.Append(nil) }

func (j *heldJournal) Last() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

func (j *heldJournal) WaitDurable(number uint64) error {
	for {
		j.mu.Lock()
		done, err, change := j.done >= number, j.err, j.change
		j.mu.Unlock()
		if done || err != nil {
			return err
		}
		<-change
	}
}

func (j *heldJournal) After(number uint64, do func()) {
	j.mu.Lock()
	if j.done < number {
		j.after = append(j.after, do)
		j.mu.Unlock()
		return
	}
	j.mu.Unlock()
	do()
}

func (j *heldJournal) Room(context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.full {
		return context.DeadlineExceeded
	}
	return j.err
}

func (j *heldJournal) Durable() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.done
}

func (j *heldJournal) Wait(_ context.Context, number uint64) error { return j.WaitDurable(number) }

func (j *heldJournal) OnDurable(f func(number uint64)) { j.settle = f }
func (j *heldJournal) Failed() <-chan struct{}         { return j.failed }
func (j *heldJournal) Close() error                    { return nil }

func (j *heldJournal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

func (j *heldJournal) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// write makes everything up to now durable.
func (j *heldJournal) write() { j.writeUpTo(j.Last()) }

func (j *heldJournal) writeUpTo(number uint64) {
	j.settle(number)
	j.mu.Lock()
	j.done = number
	after := j.after
	j.after = nil
	close(j.change)
	j.change = make(chan struct{})
	j.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// fail makes the journal unusable.
func (j *heldJournal) fail() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.err = errors.New("the disk is gone")
	close(j.failed)
	close(j.change)
	j.change = make(chan struct{})
}

func answered(do func()) chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	return done
}

// waits looks whether something is answered before the journal is written.
func (j *heldJournal) waits(t *testing.T, what string, done chan struct{}) {
	t.Helper()
	select {
	case <-done:
		t.Errorf("%s was answered before it was durable", what)
	case <-time.After(50 * time.Millisecond): // a reply that does not wait comes at once
	}
}

// ends writes the journal until something is answered: it may take several decisions.
func (j *heldJournal) ends(t *testing.T, what string, done chan struct{}) {
	t.Helper()
	waitFor(t, what+" to be answered", func() bool {
		j.write()
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
}

// TestRepliesWait holds the journal: no call that changes something is answered, and no reader sees what is not durable.
// Others go on.
func TestRepliesWait(t *testing.T) {
	held := newHeldJournal()
	b := newBed(t, func(c *Config) { c.journal = held })
	waits := func(what string, done chan struct{}) { t.Helper(); held.waits(t, what, done) }
	ends := func(what string, done chan struct{}) { t.Helper(); held.ends(t, what, done) }
	owner, writer, reader := b.client(wire.V13), b.client(wire.V13), b.client(wire.V13)
	mount := answered(func() { owner.mount("pool", 1<<44, 64*mib) })
	waits("a mount", mount)
	ends("a mount", mount)
	var start wire.PutStartReply
	put := answered(func() {
		start = invoke(writer, &wire.PutStart, &wire.PutStartRequest{ClientID: writer.id, Key: "k", Size: 9, Config: oneCopy()})
	})
	waits("a put's start", put)
	ends("a put's start", put)
	expect(t, "the put's start", start.Err, 0)
	end := answered(func() { expect(t, "the put's end", writer.putEnd("k"), 0) })
	waits("a put's end", end)
	get := answered(func() { expect(t, "get", reader.get("k").Err, 0) })
	waits("a read of what is not durable", get)
	ends("the put's end", end)
	ends("the read", get)
	expect(t, "a read of what is durable", reader.get("k").Err, 0)
	gone := answered(func() { expect(t, "remove", writer.remove("k", true), 0) })
	waits("a remove", gone)
	expect(t, "a read of what is removed", reader.get("k").Err, wire.ErrObjectNotFound)
	ends("a remove", gone)
}

// TestPagesWait holds the journal: the pages that change objects are answered when that is durable.
func TestPagesWait(t *testing.T) {
	held := newHeldJournal()
	b := newBed(t, func(c *Config) { c.journal = held })
	p := b.client(wire.V13)
	held.ends(t, "an object", answered(func() { p.mount("pool", 1<<44, 64*mib); p.put("k", 9) }))
	for _, page := range []struct{ path, body, want string }{
		{"soft_pin", `{"keys":["k"],"ttl_ms":1000}`, `{"results":[{"key":"k","error_code":0}]}`},
		{"soft_unpin", `{"keys":["k"]}`, `{"results":[{"key":"k","error_code":0}]}`},
		{"remove_all?force=1", "", `{"success":true,"removed_count":1}`},
	} {
		done := answered(func() {
			if status, answer := ask(b.admin, http.MethodPost, "/api/v1/"+page.path, page.body); status != http.StatusOK || answer != page.want {
				t.Errorf("%s: %d %s", page.path, status, answer)
			}
		})
		held.waits(t, page.path, done)
		held.ends(t, page.path, done)
	}
}

// TestStartsInWindows holds the journal: once it has a window, starts in it are answered at once; one of a key that was
// removed a moment ago is not, nor is the news that a key exists. The end of every put waits.
func TestStartsInWindows(t *testing.T) {
	held := newHeldJournal()
	b := newBed(t, func(c *Config) { c.journal = held })
	owner, writer, batcher := b.client(wire.V13), b.client(wire.V13), b.client(wire.V14)
	held.ends(t, "a mount", answered(func() { owner.mount("pool", 1<<44, 1<<30) }))
	held.ends(t, "the first put's start", answered(func() { expect(t, "a put's start", writer.putStart("a", 9).Err, 0) }))
	expect(t, "a start in the window", writer.putStart("b", 9).Err, 0)
	batch := invoke(batcher, &wire.BatchPutStart, &wire.BatchPutStartRequest{ClientID: batcher.id, Keys: []string{"c", "d"}, Sizes: []uint64{9, 9}, Config: oneCopy()})
	for i := range batch {
		expect(t, "a batch of starts in the window", batch[i].Err, 0)
	}
	taken := answered(func() {
		expect(t, "a start of a key that is being written", batcher.putStart("b", 9).Err, wire.ErrObjectAlreadyExists)
	})
	held.waits(t, "the news that a key exists", taken)
	held.ends(t, "the news that a key exists", taken)
	end := answered(func() { expect(t, "a put's end", writer.putEnd("a"), 0) })
	held.waits(t, "a put's end", end)
	held.ends(t, "a put's end", end)
	gone := answered(func() { expect(t, "remove", owner.remove("a", true), 0) })
	held.waits(t, "a remove", gone)
	again := answered(func() { expect(t, "a start of a key that was removed", writer.putStart("a", 9).Err, 0) })
	held.waits(t, "a start of a key that was removed", again)
	held.ends(t, "the remove", gone)
	held.ends(t, "the start", again)
}

// TestAnswersEarly holds the journal of a master that answers early: what a failover may take back is answered at once,
// whatever gives ranges away is not, and readers still see only what is durable.
func TestAnswersEarly(t *testing.T) {
	held := newHeldJournal()
	b := newBed(t, func(c *Config) { c.journal, c.HAAck = held, ackAsync })
	owner, writer, reader := b.client(wire.V13), b.client(wire.V13), b.client(wire.V13)
	mount := answered(func() { owner.mount("pool", 1<<44, 64*mib) })
	held.waits(t, "a mount", mount)
	held.ends(t, "a mount", mount)
	put := answered(func() { expect(t, "a put's start", writer.putStart("k", 9).Err, 0) })
	held.waits(t, "a put's start", put)
	held.ends(t, "a put's start", put)
	expect(t, "a start in the window", writer.putStart("other", 9).Err, 0)
	expect(t, "a put's end", writer.putEnd("k"), 0)
	get := answered(func() { expect(t, "get", reader.get("k").Err, 0) })
	held.waits(t, "a read of what is not durable", get)
	held.ends(t, "the read", get)
	expect(t, "remove", writer.remove("k", true), 0)
	expect(t, "another put's end", writer.putEnd("other"), 0)
	held.mu.Lock()
	held.err = errors.New("the disk is gone")
	held.mu.Unlock()
	if _, _, err := writer.Call(t.Context(), wire.PutEnd.ID.FunctionID(), wire.PutEnd.AppendRequest(nil, wire.V13, &wire.PutEndRequest{ClientID: writer.id})); err == nil {
		t.Error("a call was answered that the log did not take")
	}
}

// TestFullQueue asks for more when too much waits to be written: the answer is a refusal, and nothing was decided.
func TestFullQueue(t *testing.T) {
	held := newHeldJournal()
	b := newBed(t, func(c *Config) { c.journal, c.HAAck = held, ackAsync })
	owner := b.client(wire.V13)
	mount := answered(func() { owner.mount("pool", 1<<44, 64*mib) })
	held.ends(t, "a mount", mount)
	put := answered(func() { expect(t, "a put's start", owner.putStart("k", 9).Err, 0) })
	held.ends(t, "a put's start", put)
	last := held.Last()
	held.mu.Lock()
	held.full = true
	held.mu.Unlock()
	expect(t, "a put's end", owner.putEnd("k"), wire.ErrUnavailableInCurrentMode)
	expect(t, "decisions", held.Last(), last)
	expect(t, "a look-up", owner.get("k").Err, wire.ErrReplicaIsNotReady)
}

// TestEndsWithItsJournal lets the journal fail: nobody gets an answer that is not true, and the master ends and says why.
func TestEndsWithItsJournal(t *testing.T) {
	held := newHeldJournal()
	cfg := DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.RPCPort, cfg.MetricsPort, cfg.GRPCPort = "127.0.0.1", "127.0.0.1", 0, 0, -1
	cfg.journal = held
	srv, err := Listen(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()
	held.fail()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "the disk is gone") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a master without a journal goes on")
	}
}
