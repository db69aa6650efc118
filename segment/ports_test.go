package segment

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mooncake/internal/limits"
)

// procWith makes a /proc that says these port settings.
func procWith(t *testing.T, ephemeral, reserved string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "sys/net/ipv4")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ip_local_port_range": ephemeral, "ip_local_reserved_ports": reserved} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestP02FixedPorts refuses ports that outgoing connections or clients may take, and names the range.
func TestP02FixedPorts(t *testing.T) {
	for _, c := range []struct {
		ephemeral, reserved string
		port                int
		want                string // part of the refusal; empty: accepted
	}{
		{"32768\t60999", "", 0, ""},
		{"32768\t60999", "", 12299, ""},
		{"32768\t60999", "", 12300, "12300-14300"},
		{"32768\t60999", "", 14300, "12300-14300"},
		{"32768\t60999", "", 14301, ""},
		{"32768\t60999", "", 15000, "15000-17000"},
		{"32768\t60999", "", 17000, "15000-17000"},
		{"32768\t60999", "", 17001, ""},
		{"32768\t60999", "", 32767, ""},
		{"32768\t60999", "", 32768, "32768-60999"},
		{"32768\t60999", "", 60999, "32768-60999"},
		{"32768\t60999", "", 61000, ""},
		{"32768\t60999", "", 50052, "50052"},
		{"50000\t60000", "", 50100, "50000-60000"},
		{"50000\t60000", "", 40000, "32768-60999"},
		{"20000\t30000", "", 25000, "20000-30000"},
		{"20000\t30000", "24000-26000", 25000, ""},
		{"20000\t30000", "25000", 25000, ""},
		{"20000\t30000", "25001,x,7-y", 25000, "20000-30000"},
		{"1024\t65535", "", 20000, ""}, // next to nothing would be left: no rule
		{"1024\t65535", "", 40000, "32768-60999"},
		{"nonsense", "", 20000, ""},
		{"32768\t60999", "", -1, "0 to 65535"},
		{"32768\t60999", "", 65536, "0 to 65535"},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", c.ephemeral, c.reserved, c.port), func(t *testing.T) {
			rules := readPortRules(procWith(t, c.ephemeral, c.reserved))
			err := rules.check("--te_port", c.port)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && err == nil:
				t.Errorf("accepted, want a refusal with %q", c.want)
			case err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--te_port") || strings.Contains(err.Error(), "\n")):
				t.Errorf("refusal %q, want one line with %q and the flag", err, c.want)
			}
		})
	}
}

func TestChooseKeepsOutOfForbiddenRanges(t *testing.T) {
	rules := readPortRules(procWith(t, "20000\t30000", ""))
	for range 300 {
		var asked int
		_, err := rules.choose(func(port int) (net.Listener, error) { asked = port; return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		if rules.check("", asked) != nil || asked < limits.SegmentPortLow || asked > limits.SegmentPortHigh {
			t.Fatalf("chose %d", asked)
		}
	}
}

func TestChooseGoesOnWhenBusyAndStopsWhenBroken(t *testing.T) {
	rules := readPortRules(procWith(t, "32768\t60999", ""))
	tries := 0
	_, err := rules.choose(func(int) (net.Listener, error) {
		if tries++; tries < 5 {
			return nil, &net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
		}
		return nil, nil
	})
	if err != nil || tries != 5 {
		t.Errorf("%d tries, %v", tries, err)
	}
	tries = 0
	_, err = rules.choose(func(int) (net.Listener, error) { tries++; return nil, syscall.EACCES })
	if err == nil || tries != 1 {
		t.Errorf("%d tries, %v; want one and its error", tries, err)
	}
	_, err = rules.choose(func(int) (net.Listener, error) { return nil, syscall.EADDRINUSE })
	if err == nil || !strings.Contains(err.Error(), "no free port") {
		t.Errorf("all busy: %v", err)
	}
}

func TestListenSaysAddressReasonAndFlag(t *testing.T) {
	ln, err := listen("127.0.0.1", 0, "--http_port")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	_, err = listen("127.0.0.1", port, "--http_port")
	if err == nil {
		t.Fatal("a busy port was bound")
	}
	for _, want := range []string{fmt.Sprintf("127.0.0.1:%d", port), "in use", "--http_port"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

// readPortRulesAndChoose opens a port as a daemon would choose one.
func readPortRulesAndChoose(t *testing.T) (net.Listener, error) {
	t.Helper()
	rules := readPortRules("/proc")
	return rules.choose(func(port int) (net.Listener, error) { return listen("127.0.0.1", port, "") })
}

func TestOneEndpointKeepsItsDataPort(t *testing.T) {
	c := DefaultConfig()
	c.LocalHostname = "127.0.0.1"
	if p := usualDataPort(&c); p != 0 {
		t.Errorf("port %d for an endpoint that is not fixed", p)
	}
	seen := map[int]bool{}
	for te := 18000; te < 18100; te++ {
		c.TEPort = te
		p := usualDataPort(&c)
		if p != usualDataPort(&c) || p < limits.SegmentPortLow || p > limits.SegmentPortHigh {
			t.Fatalf("port %d", p)
		}
		seen[p] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 endpoints share %d ports", len(seen))
	}
}
