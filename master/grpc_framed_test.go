package master

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"mooncake/api/framed"
	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/client"
	"mooncake/internal/limits"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

// inFrames lets the calls of objects and bundles go as the client in Go makes them.
func (g *grpcPeer) inFrames(b *bed) {
	b.t.Helper()
	c, err := client.New(client.Config{Masters: []string{"127.0.0.1:" + strconv.Itoa(b.Ports().GRPC)}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if c.Stats().FramedCalls == 0 {
			b.t.Error("no call went in a frame")
		}
		_ = c.Close()
	})
	g.frames = c
	if err := c.Ask(soon(b.t), func(_ context.Context, conn grpc.ClientConnInterface) error {
		g.objects, g.bundles = mooncakev1.NewObjectsClient(conn), mooncakev1.NewBundlesClient(conn)
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
}

// TestFramed takes what is tested over gRPC over frames: on the connection's own goroutine, and, where a journal is waited for,
// on others.
func TestFramed(t *testing.T) {
	for name, edit := range map[string]func(*Config){
		"alone":   func(*Config) {},
		"journal": func(c *Config) { c.DataDir = t.TempDir() },
	} {
		for about, over := range map[string]func(*testing.T, *bed){
			"objects": overObjects, "refusals": overRefusals, "bundle": overBundle, "abort": overAbort, "writer gone": overWriterGone,
		} {
			t.Run(name+"/"+about, func(t *testing.T) {
				b := newBed(t, withGRPC, edit)
				b.framed = true
				over(t, b)
			})
		}
	}
}

// dialFrames connects as the client in Go does.
func (b *bed) dialFrames() *rpc.Client {
	b.t.Helper()
	c, err := rpc.Dial(soon(b.t), "127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), rpc.ClientConfig{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() })
	return c
}

// framedCode makes a call and gives the status it ended with.
func framedCode(t *testing.T, c *rpc.Client, number uint32, q []byte) codes.Code {
	t.Helper()
	code, answer, err := c.Call(soon(t), number, q)
	if err != nil || code != rpc.CodeOK || len(answer) == 0 {
		t.Fatalf("call %#x: code %d, %d bytes, %v", number, code, len(answer), err)
	}
	if answer[0] == framed.Message {
		return codes.OK
	}
	st := status.New(codes.OK, "").Proto()
	if err := proto.Unmarshal(answer[1:], st); err != nil {
		t.Fatal(err)
	}
	return status.FromProto(st).Code()
}

// TestFramedNumbers wants a handler for every number, and refusals for all else.
func TestFramedNumbers(t *testing.T) {
	b := newBed(t, withGRPC)
	c := b.dialFrames()
	if code, answer, err := c.Call(soon(t), framed.Hello, nil); err != nil || code != rpc.CodeOK || !slices.Equal(answer, []byte{framed.Message, framed.Version}) {
		t.Fatalf("hello: %d %v %v", code, answer, err)
	}
	for _, method := range framed.Methods {
		number, _ := framed.Number(method)
		if got := framedCode(t, c, number, nil); got == codes.Unimplemented {
			t.Errorf("%s is not served", method)
		}
		if got := framedCode(t, c, number, []byte{0xff, 0xff, 0xff}); got != codes.Internal {
			t.Errorf("%s with bytes that are no message: %v", method, got)
		}
	}
	for _, number := range []uint32{0, wire.CallPing.FunctionID(), framed.Hello - 1, framed.Hello + 1 + uint32(len(framed.Methods))} {
		if got := framedCode(t, c, number, nil); got != codes.Unimplemented {
			t.Errorf("call %#x: %v", number, got)
		}
	}
	keys, err := proto.Marshal(&mooncakev1.ExistsRequest{Keys: slices.Repeat([]string{"some key"}, 16_384)})
	if err != nil {
		t.Fatal(err)
	}
	exists, _ := framed.Number(mooncakev1.Objects_Exists_FullMethodName)
	if got := framedCode(t, c, exists, keys); got != codes.OK { // too large to keep others waiting
		t.Errorf("a large batch: %v", got)
	}
}

// TestFramedTokens asks in frames where tokens are wanted: a connection of frames has none to show.
func TestFramedTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("operate 0123456789abcdef-o\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBed(t, withGRPC, func(c *Config) { c.GRPCTokens = file })
	c := b.dialFrames()
	for method, want := range map[string]codes.Code{
		mooncakev1.Objects_Start_FullMethodName: codes.Unauthenticated, mooncakev1.Objects_Remove_FullMethodName: codes.Unauthenticated,
		mooncakev1.Bundles_Commit_FullMethodName: codes.Unauthenticated, mooncakev1.Segments_Report_FullMethodName: codes.Unauthenticated,
	} {
		number, _ := framed.Number(method)
		if got := framedCode(t, c, number, nil); got != want {
			t.Errorf("%s: %v, want %v", method, got, want)
		}
	}
	next := b.cfg
	next.GRPCAllowFrom = "127.0.0.2"
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	outside, err := rpc.Dial(soon(t), "127.0.0.1:"+strconv.Itoa(b.Ports().GRPC), rpc.ClientConfig{})
	if err == nil {
		_, _, err = outside.Call(soon(t), framed.Hello, nil)
		_ = outside.Close()
	}
	if err == nil {
		t.Error("a connection from elsewhere was served")
	}
}

// TestFramedHangUpIsOurs ends a connection because of what came over it. That says nothing of the writer whose put is under way on it:
// nothing of his may be given away.
func TestFramedHangUpIsOurs(t *testing.T) {
	b := newBed(t, withGRPC)
	b.client(wire.V14).mount("pool", 1<<44, 8*mib)
	c, id := b.dialFrames(), wire.UUID{Hi: 7, Lo: 9}
	q, err := proto.Marshal(&mooncakev1.StartRequest{Client: uuidOut(id.Hi, id.Lo), Objects: []*mooncakev1.NewObject{{Key: "k", Size: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	start, _ := framed.Number(mooncakev1.Objects_Start_FullMethodName)
	if got := framedCode(t, c, start, q); got != codes.OK {
		t.Fatal(got)
	}
	w := b.service.families.writers
	known := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.writers[id] != nil
	}
	if !known() {
		t.Fatal("the writer is not watched")
	}
	if _, _, err := c.Call(soon(t), start, make([]byte, limits.GRPCMessageBytes+1)); err == nil {
		t.Fatal("a frame above the limit was answered")
	}
	waitFor(t, "the end of the connection to be noticed", func() bool { return !known() })
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) != 0 {
		t.Errorf("the writer counts as gone: %+v", w.waiting)
	}
}

// TestFramedIsShort sends what is long by gRPC, which refuses what is too large before it is sent.
func TestFramedIsShort(t *testing.T) {
	b := newBed(t, withGRPC)
	c, err := client.New(client.Config{Masters: []string{"127.0.0.1:" + strconv.Itoa(b.Ports().GRPC)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, k := range []struct {
		keyBytes int
		framed   uint64
		want     codes.Code
	}{{10, 1, codes.OK}, {2100, 0, codes.ResourceExhausted}, {100, 0, codes.OK}} {
		keys := slices.Repeat([]string{string(make([]byte, k.keyBytes))}, 16_384)
		if k.framed > 0 {
			keys = keys[:100]
		}
		before := c.Stats().FramedCalls
		err := c.Ask(soon(t), func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := mooncakev1.NewObjectsClient(conn).Exists(ctx, &mooncakev1.ExistsRequest{Keys: keys})
			return err
		})
		if framed := c.Stats().FramedCalls - before; status.Code(err) != k.want || framed != k.framed {
			t.Errorf("%d keys of %d bytes: %v, %d in frames", len(keys), k.keyBytes, err, framed)
		}
	}
}

// TestLateCall makes a call go on after its connection has ended. Nobody would ever close a record that it opened.
func TestLateCall(t *testing.T) {
	b := newBed(t, withGRPC)
	s, id := b.service, wire.UUID{Hi: 1, Lo: 2}
	open := func() int {
		s.families.mu.Lock()
		defer s.families.mu.Unlock()
		return len(s.families.conns)
	}
	before := open()
	c := &grpcConn{}
	c.at(s)
	if open() != before+1 {
		t.Fatal("a connection does not count")
	}
	c.end(alone{s}, true)
	s.families.bind(c.at(s), id)
	w := s.families.writers
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := open(); n != before || w.writers[id] != nil {
		t.Errorf("%d connections, %d before; the writer is %+v", n, before, w.writers[id])
	}
}

// TestFramedWithTLS does not answer in the clear where TLS is wanted.
func TestFramedWithTLS(t *testing.T) {
	a := newAuthority(t)
	a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	b := newBed(t, withGRPC, func(c *Config) { c.GRPCTLSCert, c.GRPCTLSKey = a.file("server.pem"), a.file("server.key") })
	c := b.dialFrames()
	if code, answer, err := c.Call(soon(t), framed.Hello, nil); err == nil {
		t.Errorf("%d %v", code, answer)
	}
}

// TestPartingIsBounded lets connections go that are handed over, and closes those that come after the end.
func TestPartingIsBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted, parted := newCountedListener(ln, 1), newParting(ln.Addr())
	take := func(begin []byte) (own *countedConn, caller net.Conn) {
		t.Helper()
		caller, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := caller.Write(begin); err != nil {
			t.Fatal(err)
		}
		conn, err := counted.Accept() // there is only one place
		if err != nil {
			t.Fatal(err)
		}
		return conn.(*countedConn), caller
	}
	for range 3 {
		own, caller := take([]byte{frameMagic, 0})
		var got net.Conn
		var group sync.WaitGroup
		group.Go(func() { got, _ = parted.Accept() })
		if _, _, err := parted.ServerHandshake(own); !errors.Is(err, credentials.ErrConnDispatched) {
			t.Fatalf("a connection of frames: %v", err)
		}
		group.Wait()
		_ = own.SetDeadline(time.Now().Add(-time.Hour)) // the one before means another connection by now
		_ = own.Close()
		var two [2]byte
		if _, err := io.ReadFull(got, two[:]); err != nil || two != [2]byte{frameMagic, 0} {
			t.Errorf("read %v, %v", two, err)
		}
		_ = got.Close()
		_ = caller.Close()
	}
	for range 3 {
		own, caller := take([]byte("PRI * HTTP/2.0"))
		if conn, _, err := parted.ServerHandshake(own); conn != net.Conn(own) || err != nil {
			t.Errorf("a connection of HTTP/2: %v", err)
		}
		_ = own.Close()
		_ = caller.Close()
	}
	_ = parted.Close()
	own, caller := take([]byte{frameMagic})
	if _, _, err := parted.ServerHandshake(own); !errors.Is(err, credentials.ErrConnDispatched) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := caller.Read(make([]byte, 1)); err == nil {
		t.Error("a connection stays open after the end")
	}
	_ = caller.Close()
	_ = counted.Close()
	if _, err := counted.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
	if _, err := parted.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener of frames: %v", err)
	}
}
