package interop

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestPortHeld looks for itself.
func TestPortHeld(t *testing.T) {
	var ports Ports
	port, err := ports.Take()
	if err != nil {
		t.Fatal(err)
	}
	if by, held := PortHeld(port); held {
		t.Fatalf("a free port is held by %s", by)
	}
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	by, held := PortHeld(port)
	if !held || !strings.Contains(by, fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Fatalf("held=%v by %q, want pid %d", held, by, os.Getpid())
	}
}
