package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"mooncake/api/framed"
	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/wire/rpc"
)

// TestGRPCOnly repeats by gRPC what the other tests do in frames.
func TestGRPCOnly(t *testing.T) {
	only := Config{GRPCOnly: true}
	t.Run("objects", func(t *testing.T) { objectsBy(t, only) })
	t.Run("batch", func(t *testing.T) { batchBy(t, only) })
	t.Run("rollout", func(t *testing.T) { rolloutBy(t, only) })
}

// TestWhichRoad counts the calls that went in frames.
func TestWhichRoad(t *testing.T) {
	p, ctx := newPool(t, 1), soon(t)
	for name, x := range map[string]struct {
		cfg    Config
		frames bool
	}{
		"plain": {Config{}, true}, "gRPC only": {Config{GRPCOnly: true}, false}, "with a token": {Config{Credentials: Token("0123456789abcdef")}, false},
	} {
		c := p.client(x.cfg)
		if err := c.Put(ctx, name, []byte("x"), PutOptions{}); err != nil {
			t.Error(err)
		}
		if got, err := c.Get(ctx, name); err != nil || string(got) != "x" {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if s := c.Stats(); (s.FramedCalls > 0) != x.frames || x.frames && s.FramedCalls != s.MasterCalls {
			t.Errorf("%s: %+v", name, s)
		}
		for range c.List(ctx, "") { // that one always goes by gRPC
		}
		if s := c.Stats(); x.frames && s.FramedCalls >= s.MasterCalls {
			t.Errorf("%s, a list: %+v", name, s)
		}
	}
	c := p.client(Config{TLS: insecure.NewCredentials()})
	if _, err := c.Exists(ctx, "k"); err != nil || c.Stats().FramedCalls != 0 {
		t.Errorf("with credentials of its own: %v, %+v", err, c.Stats())
	}
	c = p.client(Config{})
	err := c.Ask(metadata.AppendToOutgoingContext(ctx, "who", "me"), func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := mooncakev1.NewObjectsClient(conn).Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"k"}})
		return err
	})
	if err != nil || c.Stats().FramedCalls != 0 {
		t.Errorf("with metadata: %v, %+v", err, c.Stats())
	}
	err = c.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		var header metadata.MD
		_, err := mooncakev1.NewObjectsClient(conn).Exists(ctx, &mooncakev1.ExistsRequest{Keys: []string{"k"}}, grpc.Header(&header))
		return err
	})
	if err != nil || c.Stats().FramedCalls != 0 {
		t.Errorf("with options of a call: %v, %+v", err, c.Stats())
	}
}

// TestFramesAreShared calls from many goroutines, some of which give up: nobody gets another's answer, and one connection is
// enough for all.
func TestFramesAreShared(t *testing.T) {
	p, ctx := newPool(t, 1), soon(t)
	c := p.client(Config{})
	const callers, calls = 16, 20
	for n := range callers {
		if err := c.Put(ctx, fmt.Sprint(n), bytes.Repeat([]byte{byte(n)}, n+1), PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r, _, err := c.master()
	if err != nil {
		t.Fatal(err)
	}
	conn := r.frames.open(ctx)
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() {
			for i := range calls {
				if i%4 == 3 {
					short, cancel := context.WithCancel(ctx)
					go cancel()
					_, _ = c.Get(short, fmt.Sprint(n)) // whichever comes first
					cancel()
					continue
				}
				if got, err := c.Get(ctx, fmt.Sprint(n)); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(n)}, n+1)) {
					t.Errorf("caller %d: %v %v", n, got, err)
				}
			}
		})
	}
	group.Wait()
	if again := r.frames.open(ctx); again == nil || again != conn {
		t.Error("the connection was made again")
	}
}

// plainMaster answers gRPC only, and says yes to Exists.
type plainMaster struct {
	mooncakev1.UnimplementedObjectsServer
}

func (plainMaster) Exists(_ context.Context, q *mooncakev1.ExistsRequest) (*mooncakev1.ExistsReply, error) {
	return &mooncakev1.ExistsReply{Exists: make([]bool, len(q.GetKeys()))}, nil
}

// counting counts connections.
type counting struct {
	net.Listener
	n atomic.Int64
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// TestMasterWithoutFrames asks a master that does not know frames: by gRPC, without asking about frames again.
func TestMasterWithoutFrames(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &counting{Listener: ln}
	srv := grpc.NewServer()
	mooncakev1.RegisterObjectsServer(srv, plainMaster{})
	run(t, "a master without frames", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, srv.Stop)()
		return srv.Serve(counted)
	})
	p := &pool{t: t, grpc: ln.Addr().String()}
	c, ctx := p.client(Config{}), soon(t)
	for range 50 {
		if _, err := c.Exists(ctx, "k"); err != nil {
			t.Fatal(err)
		}
	}
	if s := c.Stats(); s.FramedCalls != 0 || s.Retries != 0 {
		t.Errorf("%+v", s)
	}
	if n := counted.n.Load(); n > 10 {
		t.Errorf("%d connections for 50 calls", n)
	}
}

// answering answers every call of a connection with the same bytes.
type answering struct {
	code   uint8
	answer []byte
}

func (answering) Opened(*rpc.Conn) {}
func (answering) Closed(*rpc.Conn) {}

func (a answering) Serve(_ *rpc.Conn, r rpc.Request, dst []byte) ([]byte, uint8, bool) {
	if r.FunctionID == framed.Hello {
		return append(dst, framed.Message, framed.Version), rpc.CodeOK, false
	}
	return append(dst, a.answer...), a.code, false
}

// TestStrangeAnswers gets answers that nobody should give: statuses, never results.
func TestStrangeAnswers(t *testing.T) {
	for name, x := range map[string]struct {
		answering
		want codes.Code
	}{
		"nothing":                {answering{0, nil}, codes.Internal},
		"no message":             {answering{0, []byte{framed.Message, 0xff}}, codes.Internal},
		"a status that is none":  {answering{0, []byte{framed.Status, 0xff}}, codes.Internal},
		"a status that is OK":    {answering{0, []byte{framed.Status}}, codes.Internal},
		"neither":                {answering{0, []byte{77}}, codes.Internal},
		"an error of the frames": {answering{rpc.CodeException, rpc.AppendErrorText(nil, "too busy")}, codes.Unavailable},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, name, func(ctx context.Context) error { return rpc.NewServer(rpc.ServerConfig{}, x.answering).Serve(ctx, ln) })
		c := (&pool{t: t, grpc: ln.Addr().String()}).client(Config{})
		r, _, err := c.master()
		if err != nil {
			t.Fatal(err)
		}
		reply, err := mooncakev1.NewObjectsClient(r).Exists(soon(t), &mooncakev1.ExistsRequest{Keys: []string{"k"}})
		if status.Code(err) != x.want {
			t.Errorf("%s: %v %v", name, reply, err)
		}
		stop()
	}
}

// TestGreeting tells who does not know frames from who is not there, and learns nothing from a caller that gives up.
func TestGreeting(t *testing.T) {
	ctx := soon(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	held := make(chan net.Conn, 1)
	group.Go(func() {
		for n := 0; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if n == 0 { // the first one hears nothing
				held <- conn
				continue
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_ = conn.Close()
		}
	})
	f := &frames{address: ln.Addr().String()}
	given, cancel := context.WithCancel(ctx)
	group.Go(func() {
		conn := <-held
		cancel()
		held <- conn
	})
	if conn := f.open(given); conn != nil || !f.notUntil.IsZero() {
		t.Errorf("given up: %v, not until %v", conn, f.notUntil)
	}
	if conn := f.open(ctx); conn != nil || f.notUntil.IsZero() {
		t.Errorf("not known: %v, not until %v", conn, f.notUntil)
	}
	known := f.notUntil
	if conn := f.open(ctx); conn != nil || f.notUntil != known {
		t.Error("it was asked again at once")
	}
	_ = ln.Close()
	group.Wait()
	_ = (<-held).Close()
	gone := &frames{address: ln.Addr().String()}
	if conn := gone.open(ctx); conn != nil || gone.notUntil.IsZero() || !gone.notUntil.Before(known) {
		t.Errorf("nobody there: %v, not until %v", conn, gone.notUntil)
	}
	gone.close()
	if conn := gone.open(ctx); conn != nil {
		t.Error("open after close")
	}
}
