package master

import (
	"errors"
	"net"
	"testing"
)

func TestLimitListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := limitListener(inner).(*boundedListener)
	l.slots = make(chan struct{}, 2)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted
	dial()
	select {
	case <-accepted:
		t.Fatal("a third connection was accepted beside two open ones")
	default:
	}
	for range 2 { // closing twice gives one slot back
		_ = first.Close()
	}
	third := <-accepted
	if len(l.slots) != 2 {
		t.Fatalf("%d slots taken by two connections", len(l.slots))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	second.Close()
	third.Close()
	if len(l.slots) != 0 {
		t.Fatal("slots are left taken")
	}
}
