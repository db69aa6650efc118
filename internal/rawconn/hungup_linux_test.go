package rawconn

import (
	"io"
	"runtime"
	"testing"
	"time"
)

// TestHungUp looks without taking anything: an end shows only once all before it has been read.
func TestHungUp(t *testing.T) {
	modes(t, func(t *testing.T, std bool) {
		c, peer := pair(t, std)
		if c.HungUp() {
			t.Fatal("nothing has happened yet")
		}
		if _, err := peer.Write([]byte("last")); err != nil {
			t.Fatal(err)
		}
		peer.Close()
		buf := make([]byte, 8)
		if c.HungUp() {
			t.Fatal("something is left to read")
		}
		n, err := c.Read(buf)
		if err != nil || string(buf[:n]) != "last" {
			t.Fatalf("%q, %v", buf[:n], err)
		}
		endShows(t, c)
		if _, err := c.Read(buf); err != io.EOF {
			t.Fatalf("read at the end: %v", err)
		}
		c.Close()
		if !c.HungUp() {
			t.Error("it is closed")
		}
	})
}

// TestHungUpAfterReset sees a connection that was cut off.
func TestHungUpAfterReset(t *testing.T) {
	c, peer := pair(t, false)
	if err := peer.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	peer.Close()
	endShows(t, c)
}

// endShows waits until the end of a connection can be seen.
func endShows(t *testing.T, c *Conn) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !c.HungUp(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the end does not show")
		}
	}
}
