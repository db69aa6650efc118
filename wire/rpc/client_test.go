package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"mooncake/internal/limits"
	"mooncake/wire"
)

func TestClientCalls(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		c := r.dial(t, ClientConfig{Std: std})
		for _, size := range []int{0, 1, limits.RPCBufferBytes, 3 << 20} {
			body := bytes.Repeat([]byte{7}, size)
			code, got, err := c.Call(t.Context(), doEcho, body)
			if err != nil || code != CodeOK || !bytes.Equal(got, body) {
				t.Fatalf("size %d: code %d, %d bytes, %v", size, code, len(got), err)
			}
		}
		code, got, err := c.Call(t.Context(), doFail, nil)
		if err != nil || code != CodeInvalidArgs || ErrorText(got) != TextInvalidArgs {
			t.Fatalf("code %d, %q, %v", code, got, err)
		}
		if c.RemoteAddr().String() != r.addr {
			t.Errorf("RemoteAddr = %v, want %s", c.RemoteAddr(), r.addr)
		}
	})
}

func TestClientSharesItsConnection(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		c := r.dial(t, ClientConfig{Std: std})
		var wg sync.WaitGroup
		for g := range 16 {
			wg.Go(func() {
				for i := range 50 {
					want := fmt.Sprintf("call %d of %d", i, g)
					code, got, err := c.Call(t.Context(), doEcho, []byte(want))
					if err != nil || code != CodeOK || string(got) != want {
						t.Errorf("got %q, code %d, %v; want %q", got, code, err, want)
						return
					}
				}
			})
		}
		wg.Wait()
		if got := r.srv.Stats().ConnsAccepted; got != 1 {
			t.Errorf("%d connections, want 1", got)
		}
	})
}

func TestClientMatchesOutOfOrderReplies(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, got, err := c.Call(t.Context(), doPark, nil); err != nil || string(got) != "late" {
				t.Errorf("parked call: %q, %v", got, err)
			}
		})
	}
	held := make([]parkedCall, 0, 50)
	for range cap(held) {
		held = append(held, <-r.parked)
	}
	if _, got, err := c.Call(t.Context(), doEcho, []byte("now")); err != nil || string(got) != "now" {
		t.Errorf("call between: %q, %v", got, err)
	}
	for i := len(held) - 1; i >= 0; i-- {
		if err := held[i].conn.Reply(held[i].seq, CodeOK, []byte("late")); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// A call that was given up costs nothing but its place: its late reply is dropped and the connection goes on.
func TestClientGivesUpOneCall(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := c.Call(ctx, doPark, nil)
		ended <- err
	}()
	p := <-r.parked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatalf("given up call: %v", err)
	}
	if err := p.conn.Reply(p.seq, CodeOK, []byte("too late")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Call(t.Context(), doEcho, []byte("on")); err != nil || string(got) != "on" {
		t.Fatalf("next call: %q, %v", got, err)
	}
}

func TestClientPlaces(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range limits.RPCClientCalls {
		wg.Go(func() { c.Call(ctx, doPark, nil) })
	}
	for range limits.RPCClientCalls {
		<-r.parked
	}
	cancel()
	wg.Wait()
	if _, _, err := c.Call(ctx, doEcho, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("a call without a place: %v", err)
	}
	c.Close()
	if _, _, err := c.Call(t.Context(), doEcho, nil); !errors.Is(err, ErrClosed) {
		t.Fatalf("a call on a closed client: %v", err)
	}
}

func TestClientClose(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		c := r.dial(t, ClientConfig{Std: std})
		ended := make(chan error)
		go func() {
			_, _, err := c.Call(t.Context(), doPark, nil)
			ended <- err
		}()
		<-r.parked
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		<-c.Closed()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Fatalf("call in progress: %v", err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestClientSeesServerLeave(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	ended := make(chan error)
	go func() {
		_, _, err := c.Call(t.Context(), doPark, nil)
		ended <- err
	}()
	<-r.parked
	r.stop()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), r.addr) {
		t.Fatalf("call in progress: %v", err)
	}
	<-c.Closed()
	if _, _, err := c.Call(t.Context(), doEcho, nil); err == nil {
		t.Fatal("a call to a server that left succeeded")
	}
}

// badServer answers the first request with the bytes given.
func badServer(t *testing.T, answer []byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		nc.Read(make([]byte, 100))
		nc.Write(answer)
		nc.Read(make([]byte, 1)) // until the client closes
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func TestClientRefusesBrokenReplies(t *testing.T) {
	cases := []struct {
		name   string
		answer []byte
		cause  error
	}{
		{"unknown sequence number", appendReplyHeader(nil, 7, 0, 0), ErrProtocol},
		{"wrong magic", []byte("HTTP/1.1 400 Bad Request\r\n"), ErrProtocol},
		{"version 1", []byte{frameMagic, 1, 0, 0}, ErrProtocol},
		{"too large", appendReplyHeader(nil, 0, 0, 1001), ErrFrameTooLarge},
	}
	for _, tc := range cases {
		c, err := Dial(t.Context(), badServer(t, tc.answer), ClientConfig{FrameBytesMax: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Call(t.Context(), doEcho, nil); !errors.Is(err, tc.cause) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.cause)
		}
		c.Close()
	}
}

func TestDialFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	if _, err := Dial(t.Context(), addr, ClientConfig{}); err == nil || !strings.Contains(err.Error(), addr) {
		t.Fatalf("dial of a closed port: %v", err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := Dial(ctx, addr, ClientConfig{}); err == nil {
		t.Fatal("dial after its deadline succeeded")
	}
}

// versionHandler answers ServiceReady as a master does, and nothing else.
type versionHandler struct{}

func (versionHandler) Opened(*Conn) {}
func (versionHandler) Closed(*Conn) {}
func (versionHandler) Serve(_ *Conn, r Request, dst []byte) ([]byte, uint8, bool) {
	if r.FunctionID != wire.CallServiceReady.FunctionID() {
		return AppendErrorText(dst, TextUnknownFunction), CodeUnknownFunction, false
	}
	return wire.ServiceReady.AppendReply(dst, wire.V13, &wire.ServiceReadyReply{Value: "2.0.0"}), CodeOK, false
}

func TestInvoke(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(ServerConfig{}, versionHandler{})
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(t.Context(), ln) }()
	c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var rep wire.ServiceReadyReply
	if err := Invoke(t.Context(), c, &wire.ServiceReady, wire.V13, &wire.ServiceReadyRequest{}, &rep); err != nil || rep.Value != "2.0.0" {
		t.Fatalf("reply %+v, %v", rep, err)
	}
	var pong wire.PingReply
	err = Invoke(t.Context(), c, &wire.Ping, wire.V13, &wire.PingRequest{}, &pong)
	var callErr *CallError
	if !errors.As(err, &callErr) || callErr.Code != CodeUnknownFunction || callErr.Text != TextUnknownFunction || callErr.Call != "Ping" {
		t.Fatalf("error reply: %v", err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := Invoke(t.Context(), c, &wire.Ping, wire.V13, &wire.PingRequest{}, &pong); err == nil || errors.As(err, &callErr) {
		t.Fatalf("after the server left: %v", err)
	}
	c.Close()
}
