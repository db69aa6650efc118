package rpc

import (
	"io"
	"net/netip"
	"runtime"
	"testing"
)

// TestUnwelcome lets nobody in from an address that is not on the list: not a byte of theirs is looked at.
func TestUnwelcome(t *testing.T) {
	r := start(t, ServerConfig{Admit: func(a netip.Addr) bool { return a != netip.MustParseAddr("127.0.0.1") }})
	for range 3 {
		nc := r.connect(t)
		_, _ = nc.Write(request(1, doEcho, []byte("hello"))) // it may be closed by now
		if n, _ := io.Copy(io.Discard, nc); n != 0 {
			t.Fatalf("%d bytes for somebody from outside", n)
		}
	}
	if s := r.srv.Stats(); s.ConnsUnwelcome != 3 || s.ConnsAccepted != 0 || s.BytesIn != 0 || len(r.opened) != 0 {
		t.Errorf("%+v, %d opened", s, len(r.opened))
	}
}

// TestPeerConns bounds the connections of one address, and forgets those that are gone.
func TestPeerConns(t *testing.T) {
	r := start(t, ServerConfig{PeerConnsMax: 2})
	echo := func() (served bool, hangUp func()) {
		t.Helper()
		nc := r.connect(t)
		_, _ = nc.Write(request(1, doEcho, []byte("x"))) // it may be closed by now
		var first [1]byte
		n, _ := nc.Read(first[:])
		return n == 1, func() { nc.Close(); <-r.closed }
	}
	one, hangUp := echo()
	two, _ := echo()
	three, _ := echo()
	if !one || !two || three {
		t.Fatalf("served: %v, %v and beyond the limit %v", one, two, three)
	}
	if s := r.srv.Stats(); s.PeerConns != 2 || s.ConnsRefused != 1 {
		t.Errorf("%+v", s)
	}
	hangUp()
	for { // the place is free a moment after the handler knows
		if again, _ := echo(); again {
			break
		}
	}
}

// TestPeerCalls bounds the calls of one address that wait for their answer: one more gets an error, over every connection of
// the address, and those of a connection that ends count no more.
func TestPeerCalls(t *testing.T) {
	r := start(t, ServerConfig{PeerCallsMax: 3})
	one, two := r.connect(t), r.connect(t)
	for seq := range uint32(2) {
		write(t, one, request(seq, doPark, nil))
		<-r.parked
	}
	write(t, two, request(7, doPark, nil))
	held := <-r.parked
	write(t, two, request(8, doEcho, []byte("x")))
	if f := readReply(t, two); f.seq != 8 || f.code != CodeException || ErrorText(f.body) != textTooManyCalls {
		t.Fatalf("a call beyond the limit: %+v", f)
	}
	if s := r.srv.Stats(); s.CallsRefused != 1 || s.PeerCalls != 3 {
		t.Errorf("%+v", s)
	}
	if err := held.conn.Reply(held.seq, CodeOK, []byte("late")); err != nil {
		t.Fatal(err)
	}
	if f := readReply(t, two); f.seq != 7 || string(f.body) != "late" {
		t.Fatalf("%+v", f)
	}
	for seq := range uint32(20) { // what is answered at once has room for one
		write(t, two, request(seq, doPeek, nil))
		if f := readReply(t, two); f.seq != seq || string(f.body) != "early" {
			t.Fatalf("%+v", f)
		}
	}
	one.Close()
	<-r.closed
	for r.srv.Stats().PeerCalls != 0 { // they are given up a moment after the handler knows
		runtime.Gosched()
	}
}
