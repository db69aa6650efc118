package segment

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// hints is the gRPC port of a master as far as a daemon knows it. The test holds each stream, and says how it ends.
type hints struct {
	mooncakev1.UnimplementedSegmentsServer
	port    int
	address string
	streams chan *hintStream
	refuse  func(context.Context) error
	objects sumObjects
}

// hintStream is one stream of a daemon.
type hintStream struct {
	mooncakev1.Segments_AttachServer
	hello *mooncakev1.Hello
	end   chan error
}

func newHints(t *testing.T, options ...grpc.ServerOption) *hints {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hints{port: ln.Addr().(*net.TCPAddr).Port, address: ln.Addr().String(), streams: make(chan *hintStream), refuse: func(context.Context) error { return nil }}
	srv := grpc.NewServer(options...)
	mooncakev1.RegisterSegmentsServer(srv, h)
	mooncakev1.RegisterObjectsServer(srv, &h.objects)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(ln) }()
	t.Cleanup(func() { srv.Stop(); <-done })
	return h
}

func (h *hints) Attach(stream mooncakev1.Segments_AttachServer) error {
	if err := h.refuse(stream.Context()); err != nil {
		return err
	}
	q, err := stream.Recv()
	if err != nil {
		return err
	}
	s := &hintStream{stream, q.GetHello(), make(chan error, 1)}
	select {
	case h.streams <- s:
	case <-stream.Context().Done():
		return nil
	}
	select {
	case err := <-s.end:
		return err
	case <-stream.Context().Done():
		return nil
	}
}

// next waits for a daemon's stream, of this client.
func (h *hints) next(t *testing.T, client wire.UUID) *hintStream {
	t.Helper()
	select {
	case s := <-h.streams:
		if id := s.hello.GetClient(); id.GetHigh() != client.Hi || id.GetLow() != client.Lo {
			t.Fatalf("client %v, want %v", id, client)
		}
		return s
	case <-time.After(patience):
		t.Fatal("the daemon does not attach")
		return nil
	}
}

// read asks for bytes and waits for the answer.
func (s *hintStream) read(t *testing.T, q *mooncakev1.ReadRequest) *mooncakev1.ReadReply {
	t.Helper()
	if err := s.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_Read{Read: q}}); err != nil {
		t.Fatal(err)
	}
	reply, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if reply.GetRead().GetNumber() != q.GetNumber() {
		t.Errorf("the answer to %d has the number %d", q.GetNumber(), reply.GetRead().GetNumber())
	}
	return reply.GetRead()
}

func attachConfig(t *testing.T, m *fakeMaster, h *hints) *Config {
	t.Helper()
	c := daemonConfig(t, m)
	c.MasterGRPCPort, c.FetchEvery, c.SegmentBytes = h.port, time.Hour, 4<<20
	return c
}

// TestAttachReads gives bytes of the segment, and only those, a bounded number at a time.
func TestAttachReads(t *testing.T) {
	m, h := newFakeMaster(t), newHints(t)
	d := run(t, attachConfig(t, m, h))
	s := h.next(t, d.clientID)
	base, size := d.state.Base, d.state.Size
	for i := range d.arena.Bytes() {
		d.arena.Bytes()[i] = byte(i % 251)
	}
	const most = limits.AttachReadBytes
	for i, c := range []struct {
		address, size uint64
		given         bool
	}{
		{base, 1, true},
		{base + 7, most, true},
		{base + size - most, most, true},
		{base + size - 1, 1, true},
		{base + size, 0, true},
		{base, 0, true},
		{base, most + 1, false},
		{base, size, false},
		{base - 1, 1, false},
		{0, 1, false},
		{0, 0, false},
		{base + size, 1, false},
		{base + size - 1, 2, false},
		{base + size + 1, 0, false},
		{^uint64(0), 1, false},
		{base, ^uint64(0), false},
		{base + 1, ^uint64(0), false},
		{^uint64(0), ^uint64(0), false},
	} {
		got := s.read(t, &mooncakev1.ReadRequest{Number: uint64(i + 1), Address: c.address, Size: c.size})
		switch {
		case c.given != (got.GetFailure() == ""):
			t.Errorf("%d bytes at base%+d: %q", c.size, int64(c.address-base), got.GetFailure())
		case !c.given && len(got.GetData()) > 0:
			t.Errorf("%d bytes at base%+d were refused and came", c.size, int64(c.address-base))
		case c.given && !bytes.Equal(got.GetData(), d.arena.Bytes()[c.address-base:][:c.size]):
			t.Errorf("%d bytes at base%+d: others came", c.size, int64(c.address-base))
		}
	}
}

// TestAttachAgain has the daemon come again whenever its stream ends, go where a standby sends it, and fetch tasks when it is
// told of some.
func TestAttachAgain(t *testing.T) {
	m, h, other := newFakeMaster(t), newHints(t), newHints(t)
	d := run(t, attachConfig(t, m, h))
	welcome := func(s *hintStream) {
		t.Helper()
		if err := s.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_Welcome{Welcome: &mooncakev1.Welcome{}}}); err != nil {
			t.Fatal(err)
		}
	}
	first := h.next(t, d.clientID)
	welcome(first)
	waitLog(t, d, "attached to the master")
	m.forget()
	if err := first.Send(&mooncakev1.AttachReply{What: &mooncakev1.AttachReply_TasksWait{TasksWait: &mooncakev1.TasksWait{}}}); err != nil {
		t.Fatal(err)
	}
	m.wait(t, "FetchTasks") // else once an hour
	first.end <- status.Error(codes.Unavailable, "this master stops")

	second := h.next(t, d.clientID)
	welcome(second)
	away, err := status.New(codes.Unavailable, "another leads").WithDetails(&mooncakev1.Redirect{GrpcAddress: other.address})
	if err != nil {
		t.Fatal(err)
	}
	second.end <- away.Err()
	third := other.next(t, d.clientID)
	welcome(third)
	if got := third.read(t, &mooncakev1.ReadRequest{Number: 9, Address: d.state.Base, Size: 3}); len(got.GetData()) != 3 {
		t.Errorf("%+v", got)
	}
	third.end <- nil
	h.next(t, d.clientID)
}

// TestAttachByTLS wants TLS and a token: a daemon without says once, in one line, what is missing; one that has both attaches,
// and looks at the files again for each stream.
func TestAttachByTLS(t *testing.T) {
	own := httptest.NewUnstartedServer(nil)
	own.StartTLS() // for its certificate
	own.Close()
	dir := t.TempDir()
	ca, tokens := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	token := func(text string) {
		t.Helper()
		if err := os.WriteFile(tokens, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h := newHints(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: own.TLS.Certificates, MinVersion: tls.VersionTLS12})))
	h.refuse = func(ctx context.Context) error {
		if md, _ := metadata.FromIncomingContext(ctx); strings.Join(md.Get("authorization"), " ") != "Bearer operate-0123456789" {
			return status.Error(codes.Unauthenticated, "a token of level operate is needed")
		}
		return nil
	}
	m := newFakeMaster(t)
	for _, c := range []struct {
		access StreamAccess
		hint   string
	}{
		{StreamAccess{}, "--master_grpc_ca"},
		{StreamAccess{CA: ca}, "--master_grpc_token_file"},
	} {
		cfg := attachConfig(t, m, h)
		cfg.MasterGRPC = c.access
		d := run(t, cfg)
		waitLog(t, d, "no stream to the master: tasks are fetched at intervals")
		if line := d.log.FilterMessage("no stream to the master: tasks are fetched at intervals").All()[0]; !strings.Contains(line.ContextMap()["hint"].(string), c.hint) {
			t.Errorf("the line says %v, want %s", line.ContextMap(), c.hint)
		}
		d.end(t, nil)
	}
	token("operate-0123456789\n")
	cfg := attachConfig(t, m, h)
	cfg.MasterGRPC = StreamAccess{CA: ca, TokenFile: tokens}
	d := run(t, cfg)
	h.next(t, d.clientID)
	for name, bad := range map[string]StreamAccess{
		"--master_grpc_ca=/no/such/file":          {CA: "/no/such/file"},
		"--master_grpc_ca is missing":             {TokenFile: tokens, Cert: ca, Key: ca},
		"--master_grpc_key is missing":            {CA: ca, Cert: ca},
		"--master_grpc_cert is missing":           {CA: ca, Key: ca},
		"--master_grpc_cert=" + ca:                {CA: ca, Cert: ca, Key: ca},
		"has no certificate in it":                {CA: tokens},
		"--master_grpc_token_file=/no/such/token": {TokenFile: "/no/such/token"},
		"words in it":                             {TokenFile: ca},
	} {
		cfg := attachConfig(t, m, h)
		cfg.MasterGRPC = bad
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with %s", err, name)
		}
		if cfg.MasterGRPCPort = -1; cfg.Validate() != nil {
			t.Errorf("%s, and there is to be no stream", name)
		}
	}
}
