package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// attachAs opens a stream and says who it is.
func (c *grpcPeer) attachAs(t *testing.T, id wire.UUID) mooncakev1.Segments_AttachClient {
	t.Helper()
	stream, err := mooncakev1.NewSegmentsClient(c.ClientConn).Attach(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	hello := &mooncakev1.Hello{Client: uuidOut(id.Hi, id.Lo)}
	if err := stream.Send(&mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Hello{Hello: hello}}); err != nil {
		t.Fatal(err)
	}
	return stream
}

// welcomed attaches and waits for the answer.
func (c *grpcPeer) welcomed(t *testing.T, id wire.UUID) mooncakev1.Segments_AttachClient {
	t.Helper()
	stream := c.attachAs(t, id)
	for got := false; !got; {
		reply, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got = reply.GetWelcome() != nil
	}
	return stream
}

func readOf(number uint64, data []byte, failure string) *mooncakev1.AttachRequest {
	return &mooncakev1.AttachRequest{What: &mooncakev1.AttachRequest_Read{Read: &mooncakev1.ReadReply{Number: number, Data: data, Failure: failure}}}
}

// TestAttach opens streams as daemons do: only owners of memory have one, each one at most; it tells of tasks, brings bytes, and
// ends with the master.
func TestAttach(t *testing.T) {
	b := newBed(t, withGRPC)
	p, caller := b.client(wire.V13), b.grpc()
	_, err := caller.attachAs(t, p.id).Recv()
	refusedAs(t, "attach without memory", err, codes.FailedPrecondition)
	rude, err := mooncakev1.NewSegmentsClient(caller.ClientConn).Attach(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := rude.Send(readOf(1, nil, "")); err != nil {
		t.Fatal(err)
	}
	_, err = rude.Recv()
	refusedAs(t, "no hello", err, codes.InvalidArgument)

	p.mount("a", 1<<32, 1<<20)
	first := caller.welcomed(t, p.id)
	second := caller.welcomed(t, p.id)
	for err = nil; err == nil; {
		_, err = first.Recv()
	}
	refusedAs(t, "the earlier stream", err, codes.Aborted)

	next := func() *mooncakev1.AttachReply {
		t.Helper()
		reply, err := second.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	if next().GetTasksWait() == nil { // the one of the beginning
		t.Error("no word of tasks")
	}
	if _, ok := b.service.tasks.add(1, wire.TaskTypeReplicaCopy, p.id, "{}"); !ok || next().GetTasksWait() == nil {
		t.Error("no word of a task")
	}
	for _, c := range []struct {
		answer  []byte
		failure string
		want    error
	}{
		{[]byte("12345678"), "", nil},
		{[]byte("1234567"), "", errReadRefused},
		{nil, "gone", errReadRefused},
	} {
		type outcome struct {
			data []byte
			err  error
		}
		done := make(chan outcome, 1)
		go func() {
			data, err := b.service.attached.read(soon(t), p.id, 1<<32, 8)
			done <- outcome{data, err}
		}()
		q := next().GetRead()
		if q.GetAddress() != 1<<32 || q.GetSize() != 8 {
			t.Errorf("asked for %+v", q)
		}
		_ = second.Send(readOf(q.GetNumber()+100, []byte("12345678"), "")) // to nobody
		if err := second.Send(readOf(q.GetNumber(), c.answer, c.failure)); err != nil {
			t.Fatal(err)
		}
		if got := <-done; !errors.Is(got.err, c.want) || c.want == nil && !bytes.Equal(got.data, c.answer) {
			t.Errorf("answer %q %q: %q, %v", c.answer, c.failure, got.data, got.err)
		}
	}
	if _, err := b.service.attached.read(soon(t), newID(), 0, 8); !errors.Is(err, errNotAttached) {
		t.Errorf("a read of nobody: %v", err)
	}
	gaveUp, cancel := context.WithCancel(context.Background())
	cancel()
	for range 2 * limits.AttachReads { // nobody answers, and each gives up at once: what is on its way is bounded all the same
		if _, err := b.service.attached.read(gaveUp, p.id, 1<<32, 8); err == nil || errors.Is(err, errReadRefused) {
			t.Errorf("a read that was given up: %v", err)
		}
	}
	go b.stop()
	for err = nil; err == nil; {
		_, err = second.Recv()
	}
	refusedAs(t, "at the end", err, codes.Unavailable)
	b.stop()
	if n := len(b.service.attached.list); n > 0 {
		t.Errorf("%d streams are left", n)
	}
}

// grpcFrom connects from another address of this host.
func (b *bed) grpcFrom(address string) *grpcPeer {
	b.t.Helper()
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := grpc.NewClient("127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return from.DialContext(ctx, "tcp", to) }))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return &grpcPeer{ClientConn: conn}
}

// TestAttachOfAStranger has somebody else name the client of a daemon, which is no secret: the daemon keeps its stream, and the
// stranger is asked for nothing. An owner may come from where its segments are.
func TestAttachOfAStranger(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V13)
	p.mount("a", 1<<32, 1<<20)
	owner := b.grpc().welcomed(t, p.id)
	_, err := b.grpcFrom("127.0.0.2").attachAs(t, p.id).Recv()
	refusedAs(t, "a stream in the name of another", err, codes.PermissionDenied)
	done := make(chan []byte, 1)
	go func() {
		data, _ := b.service.attached.read(soon(t), p.id, 1<<32, 4)
		done <- data
	}()
	for q := (*mooncakev1.ReadRequest)(nil); q == nil; {
		reply, err := owner.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if q = reply.GetRead(); q != nil {
			_ = owner.Send(readOf(q.GetNumber(), []byte("mine"), ""))
		}
	}
	if got := <-done; string(got) != "mine" {
		t.Errorf("the owner was asked and %q came", got)
	}
	p.mount("127.0.0.2", 1<<33, 1<<20)
	b.grpcFrom("127.0.0.2").welcomed(t, p.id)
}

// TestGiantAnswer ends the stream of a daemon that sends more than it can have been asked for.
func TestGiantAnswer(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V13)
	p.mount("a", 1<<32, 1<<20)
	stream := b.grpc().welcomed(t, p.id)
	if err := stream.Send(readOf(1, make([]byte, limits.AttachReadBytes+1), "")); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil {
		_, err = stream.Recv()
	}
	refusedAs(t, "an answer to nothing", err, codes.InvalidArgument)
}

// TestVerifiedManifests has the owner give the bytes of manifests: a bundle stays what it is when all that its manifest names
// is there, or when the bytes are none of a manifest, and is damaged when something is missing or of another size.
func TestVerifiedManifests(t *testing.T) {
	b := newBed(t, withGRPC)
	p := b.client(wire.V13)
	p.mount("a", 1<<32, 1<<20)
	stream := b.grpc().welcomed(t, p.id)
	const base = "p/default/0123456789abcdef0123456789abcde"
	for i, c := range []struct {
		chunk   string // that the manifest names
		bytes   int
		garbage bool
		state   catalog.BundleState
	}{
		{"m", 100, false, catalog.BundlePublished},
		{"other", 100, false, catalog.BundleDamaged},
		{"m", 101, false, catalog.BundleDamaged},
		{"m", 100, true, catalog.BundlePublished},
	} {
		id := base + strconv.Itoa(i)
		_, objectID, _ := strings.Cut(id, "/")
		key := id + "/buffer/" + c.chunk
		text := fmt.Sprintf(`{"version":1,"layout":"bundle","object_id":%q,"meta":{"key":"%s/meta","bytes":100,"chunks":[{"key":"%s/meta","bytes":100}]},`+
			`"buffers":{%q:{"key":%q,"bytes":%d,"chunks":[{"key":%q,"bytes":%d}]}}}`, objectID, id, id, c.chunk, key, c.bytes, key, c.bytes)
		if _, err := bundle.ParseManifest(id+"/manifest", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if c.garbage {
			text = strings.Repeat("x", len(text))
		}
		for _, rest := range []string{"/meta", "/buffer/m"} {
			p.putStart(id+rest, 100)
			p.putEnd(id + rest)
		}
		seen := b.service.verifier.verified.Load() + b.service.verifier.damaged.Load() + b.service.verifier.passed.Load()
		p.putStart(id+"/manifest", uint64(len(text)))
		p.putEnd(id + "/manifest")
		var q *mooncakev1.ReadRequest
		for q == nil {
			reply, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			q = reply.GetRead()
		}
		if err := stream.Send(readOf(q.GetNumber(), []byte(text), "")); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "a verdict", func() bool {
			return b.service.verifier.verified.Load()+b.service.verifier.damaged.Load()+b.service.verifier.passed.Load() > seen
		})
		if info, _, _ := b.service.cat.Bundle(b.service.clock.Now(), id); info.State != c.state {
			t.Errorf("%d: %v, want %v", i, info.State, c.state)
		}
		if got, want := b.service.Verified(id), c.state == catalog.BundlePublished && !c.garbage; got != want {
			t.Errorf("%d: verified %v, want %v", i, got, want)
		}
	}
	if f := b.service.BundleFigures(); f.Verified != 1 || f.Missed != 2 || f.Unseen != 1 {
		t.Errorf("figures %+v", f)
	}
	if _, text, _ := adminGet(t, b, bundlesPath); strings.Count(text, `"verified":true`) != 1 {
		t.Errorf("the list is %s", text)
	}
	if v := &b.service.verifier; v.verified.Load() != 1 || v.damaged.Load() != 2 {
		t.Errorf("%d verified, %d damaged", v.verified.Load(), v.damaged.Load())
	}
}

// TestVerifierForgets remembers a bounded number of bundles, the last ones.
func TestVerifierForgets(t *testing.T) {
	var v verifier
	for i := range limits.VerifyRemembered + 2 {
		v.note(strconv.Itoa(i))
		v.note(strconv.Itoa(i))
	}
	if v.knows("0") || v.knows("1") || !v.knows("2") || !v.knows(strconv.Itoa(limits.VerifyRemembered+1)) || len(v.known) != limits.VerifyRemembered {
		t.Errorf("%d are remembered", len(v.known))
	}
}
