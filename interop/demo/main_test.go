package main

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mooncake/interop"
)

// TestDemo runs the whole demo, one of its ports held by the test itself.
func TestDemo(t *testing.T) {
	if _, err := interop.PrepareEnvironment(t.Context(), t.Output(), interop.R13); err != nil {
		t.Fatal(err)
	}
	var ports interop.Ports
	var s settings
	for i := range s.ports {
		port, err := ports.Take()
		if err != nil {
			t.Fatal(err)
		}
		s.ports[i] = port
	}
	holder, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(s.ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	var out strings.Builder
	s.size, s.out = "128MiB", &out
	if err := start(t.Context(), s); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{
		`Port \d+ \(clients\) is held by \S+ \(pid \d+\); taking \d+ instead`,
		`2048 +[\d.]+ MiB +\d+ +[\d.]+ +[\d.]+ +yes +127\.0\.0\.1:\d+ \(\d+\)`,
		`master_put_start_requests_total +0 -> \d+`,
		`0 bytes allocated`,
	} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("nothing like %s in\n%s", want, out.String())
		}
	}
}
