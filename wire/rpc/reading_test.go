package rpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// parks makes a call that stays unanswered until held is answered, and waits until it is there.
func (r *rig) parks(ctx context.Context, c *Client) (held parkedCall, ended chan error) {
	ended = make(chan error, 1)
	go func() {
		_, body, err := c.Call(ctx, doPark, nil)
		if err == nil && string(body) != "late" {
			err = errors.New("not its answer: " + string(body))
		}
		ended <- err
	}()
	return <-r.parked, ended
}

func (p parkedCall) answer(t *testing.T) {
	t.Helper()
	if err := p.conn.Reply(p.seq, CodeOK, []byte("late")); err != nil {
		t.Error(err)
	}
}

// reads tells whether a call reads, and whether anybody does.
func (c *Client) reads() (aCall, anybody bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reader != nil, c.reading
}

// unanswered counts the calls whose answer is to come.
func (c *Client) unanswered() int { return len(c.slots) }

// TestClientCallReads has the only call read by itself, and nobody once it has its answer.
func TestClientCallReads(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		c := r.dial(t, ClientConfig{Std: std})
		held, ended := r.parks(t.Context(), c)
		if aCall, _ := c.reads(); !aCall {
			t.Error("the only call does not read")
		}
		held.answer(t)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if _, anybody := c.reads(); anybody {
			t.Error("somebody reads between calls")
		}
	})
}

// TestClientReaderGivesUp hands the reading over when the call that reads is given up: to another call, or to a goroutine, which
// takes the late answer away.
func TestClientReaderGivesUp(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		c := r.dial(t, ClientConfig{Std: std})
		ctx, cancel := context.WithCancel(t.Context())
		first, firstEnded := r.parks(ctx, c)
		second, secondEnded := r.parks(t.Context(), c)
		cancel()
		if err := <-firstEnded; !errors.Is(err, context.Canceled) {
			t.Fatalf("given up: %v", err)
		}
		second.answer(t)
		if err := <-secondEnded; err != nil {
			t.Fatalf("who reads next: %v", err)
		}
		if aCall, anybody := c.reads(); aCall || !anybody {
			t.Fatalf("a call reads: %v, anybody: %v, while one that was given up has no answer", aCall, anybody)
		}
		first.answer(t)
		waitFor(t, "the late answer is taken", func() bool { return c.unanswered() == 0 })
		if _, got, err := c.Call(t.Context(), doEcho, []byte("on")); err != nil || string(got) != "on" {
			t.Fatalf("next call: %q, %v", got, err)
		}
	})
}

// TestClientGivesUpWhenToldToRead gives up the call that has just been told to read and does not know it yet.
func TestClientGivesUpWhenToldToRead(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	held, ended := r.parks(t.Context(), c) // it reads
	seq, own, reads, err := c.register()
	if err != nil || reads {
		t.Fatalf("reads: %v, %v", reads, err)
	}
	c.slots <- struct{}{}
	if err := c.out.post(frame{seq: seq, functionID: doPark}); err != nil {
		t.Fatal(err)
	}
	late := <-r.parked
	held.answer(t)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if told := <-own.word; !told.reads {
		t.Fatalf("%+v", told)
	}
	c.giveUp(seq, own)
	late.answer(t)
	waitFor(t, "the late answer is taken", func() bool { return c.unanswered() == 0 })
}

// TestClientAtRest notices that the peer has left: when asked at once, and else after a while by itself.
func TestClientAtRest(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		r := start(t, ServerConfig{Std: std})
		asked, left := r.dial(t, ClientConfig{Std: std}), r.dial(t, ClientConfig{Std: std})
		for _, c := range []*Client{asked, left} {
			if _, _, err := c.Call(t.Context(), doEcho, nil); err != nil {
				t.Fatal(err)
			}
			if c.Ended() {
				t.Fatal("it has ended already")
			}
		}
		r.stop()
		waitFor(t, "it sees the end", asked.Ended)
		select {
		case <-left.Closed():
		case <-time.After(patience):
			t.Fatal("nobody looked")
		}
		if _, _, err := asked.Call(t.Context(), doEcho, nil); err == nil {
			t.Fatal("a call to a server that left succeeded")
		}
	})
}

// TestClientAfterRest makes a call while a goroutine reads, which then reads no more.
func TestClientAfterRest(t *testing.T) {
	r := start(t, ServerConfig{})
	c := r.dial(t, ClientConfig{})
	for range 2 {
		waitFor(t, "a goroutine reads", func() bool { aCall, anybody := c.reads(); return anybody && !aCall })
		held, ended := r.parks(t.Context(), c)
		held.answer(t)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		waitFor(t, "nobody reads", func() bool { _, anybody := c.reads(); return !anybody })
	}
}

// TestClientClosesAtOnce closes what nobody has used.
func TestClientClosesAtOnce(t *testing.T) {
	r := start(t, ServerConfig{})
	for range 100 {
		c := r.dial(t, ClientConfig{})
		c.Close()
		if !c.Ended() {
			t.Fatal("it has not ended")
		}
	}
}

// lateHandler answers with the body of the request, whenever it likes.
type lateHandler struct{ busy sync.WaitGroup }

func (*lateHandler) Opened(*Conn) {}
func (*lateHandler) Closed(*Conn) {}
func (h *lateHandler) Serve(c *Conn, r Request, dst []byte) ([]byte, uint8, bool) {
	if rand.N(2) == 0 {
		return append(dst, r.Body...), CodeOK, false
	}
	body := bytes.Clone(r.Body)
	h.busy.Go(func() {
		<-time.After(rand.N(300 * time.Microsecond))
		_ = c.Reply(r.Seq, CodeOK, body) // the client may have closed
	})
	return nil, CodeOK, true
}

// TestClientAtRandom has calls of many goroutines answered late and in any order, given up at any time, and in the end cut off by
// Close. None gets another's answer, and none stays.
func TestClientAtRandom(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		h := &lateHandler{}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- NewServer(ServerConfig{Std: std}, h).Serve(ctx, ln) }()
		for round := range 6 {
			c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{Std: std})
			if err != nil {
				t.Fatal(err)
			}
			var callers sync.WaitGroup
			for g := range 1 + rand.N(6) {
				callers.Go(func() { callAtRandom(t, c, uint64(g)) })
			}
			if round%2 == 0 {
				time.AfterFunc(rand.N(50*time.Millisecond), func() { c.Close() })
			}
			callers.Wait()
			if !c.Ended() {
				waitFor(t, "every call has its answer", func() bool { return c.unanswered() == 0 })
				if _, got, err := c.Call(t.Context(), 0, []byte("on")); err != nil || string(got) != "on" {
					t.Errorf("a call after all others: %q, %v", got, err)
				}
			}
			c.Close()
			if len(c.waiting) != 0 {
				t.Errorf("%d calls wait", len(c.waiting))
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		h.busy.Wait()
	})
}

// callAtRandom makes calls one after another until the client is closed.
func callAtRandom(t *testing.T, c *Client, who uint64) {
	for n := range uint64(200) {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		switch rand.N(3) {
		case 0:
			ctx, cancel = context.WithTimeout(ctx, rand.N(400*time.Microsecond))
		case 1:
			ctx = context.Background()
		}
		want := slices.Concat(binary.LittleEndian.AppendUint64(nil, who<<32|n), make([]byte, rand.N(3000)))
		_, got, err := c.Call(ctx, 0, want)
		cancel()
		switch {
		case err == nil && !bytes.Equal(got, want):
			t.Errorf("call %d of %d has the answer %x", n, who, got[:min(8, len(got))])
			return
		case errors.Is(err, ErrClosed):
			return
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("call %d of %d: %v", n, who, err)
			return
		}
	}
}

// TestClientAnswerBeforeTheEnd has a server that answers and then spoils the connection in the same breath: the answer counts.
func TestClientAnswerBeforeTheEnd(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		for _, behind := range []string{"", "no frame begins like this, whatever it may say"} {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				conn, err := ln.Accept()
				if err != nil {
					ended <- err
					return
				}
				defer conn.Close()
				asked := make([]byte, requestHeaderBytes)
				if _, err = io.ReadFull(conn, asked); err == nil {
					f, _, _ := parseRequest(asked)
					_, err = conn.Write(append(append(appendReplyHeader(nil, f.seq, CodeOK, 2), "ok"...), behind...))
				}
				ended <- err
			}()
			c, err := Dial(t.Context(), ln.Addr().String(), ClientConfig{Std: std})
			if err != nil {
				t.Fatal(err)
			}
			if _, body, err := c.Call(t.Context(), doEcho, nil); err != nil || string(body) != "ok" {
				t.Errorf("with %q behind it: %q, %v", behind, body, err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			c.Close()
			ln.Close()
		}
	})
}
