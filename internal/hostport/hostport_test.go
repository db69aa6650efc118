package hostport

import (
	"strings"
	"testing"

	"mooncake/internal/limits"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text, host string
		port       int
	}{
		{"127.0.0.1", "127.0.0.1", 12001},
		{"127.0.0.1:50051", "127.0.0.1", 50051},
		{"localhost:0", "localhost", 0},
		{"node-7.rack_1", "node-7.rack_1", 12001},
		{"[::1]", "::1", 12001},
		{"[::1]:65535", "::1", 65535},
		{"::1", "::1", 12001},
		{"fe80::1%eth0", "fe80::1%eth0", 12001},
		{"[fe80::1%eth0]:9", "fe80::1%eth0", 9},
		{"::1:80", "::1:80", 12001},
	} {
		host, port, err := Parse(c.text, 12001)
		if err != nil || host != c.host || port != c.port {
			t.Errorf("Parse(%q) = %q, %d, %v, want %q, %d", c.text, host, port, err, c.host, c.port)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", ":50051", "host:", "host:http", "host:-1", "host:65536", "host: 80", "a:b:c", "[::1", "[::1]x", "[::1]:",
		"[host]:80", "[127.0.0.1]:80", "http://h:80", "a b:80", "h\n:80", "h;h:80", "::1]:80", "host:+80",
		strings.Repeat("h", limits.AddressTextBytesMax+1),
	} {
		if host, port, err := Parse(text, 1); err == nil {
			t.Errorf("Parse(%q) = %q, %d, want an error", text, host, port)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("Parse(%q): error is more than one line: %v", text, err)
		}
	}
}

func TestHasPort(t *testing.T) {
	for text, want := range map[string]bool{"h": false, "h:1": true, "::1": false, "[::1]": false, "[::1]:1": true, "": false} {
		if got := HasPort(text); got != want {
			t.Errorf("HasPort(%q) = %v", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"127.0.0.1:15721", "[::1]:16005", "::1", "host", "a:b:c", "[", "host:99999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		host, port, err := Parse(text, 12001)
		if err != nil {
			return
		}
		host2, port2, err := Parse(Join(host, port), 1)
		if err != nil || host2 != host || port2 != port {
			t.Fatalf("Parse(%q) = %q, %d; joined and parsed again: %q, %d, %v", text, host, port, host2, port2, err)
		}
	})
}
