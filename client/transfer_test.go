package client

import (
	"context"
	"errors"
	"testing"

	"mooncake/internal/limits"
)

// TestOneThread: whoever writes an object of a size for it is counted until the call ends, however it ends.
func TestOneThread(t *testing.T) {
	for _, c := range []struct {
		bytes   int
		whole   bool
		counted int
	}{
		{0, false, 0},
		{limits.ClientThreadFromBytes - 1, false, 0},
		{limits.ClientThreadFromBytes, false, 1},
		{limits.ClientThreadFromBytes, true, 0},
		{limits.ClientPieceBytes, false, 1},
		{limits.ClientPieceBytes + 1, false, 0},
	} {
		first, second := oneThread(c.bytes, c.whole), oneThread(c.bytes, c.whole)
		if n := int(writers.Load()); n != 2*c.counted {
			t.Errorf("two calls of %d bytes: %d are counted", c.bytes, n)
		}
		first()
		second()
		if n := writers.Load(); n != 0 {
			t.Errorf("%d are counted after calls of %d bytes", n, c.bytes)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c, err := New(Config{Masters: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Put(ended, "key", make([]byte, limits.ClientThreadFromBytes), PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a put whose context has ended: %v", err)
	}
	if n := writers.Load(); n != 0 {
		t.Errorf("%d are counted after a put that failed", n)
	}
}
