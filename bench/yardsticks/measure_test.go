package main

import (
	"context"
	"flag"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mooncake/interop"
)

var soak = flag.Bool("soak", false, "measure in all suites")

// TestMain lets the program be the other end of bare connections, as the real one is when it starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == rawServeCommand {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if run(ctx, os.Args[1:]) != nil {
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// TestMeasure runs suites as short as they can be, beside a published master: all of them when soaking. That numbers come
// out is looked at, and not which: nothing is decided by speed.
func TestMeasure(t *testing.T) {
	if _, err := interop.PrepareEnvironment(t.Context(), t.Output(), interop.R13); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := settings{out: &out, progress: t.Output()}
	path := t.TempDir() + "/result.jsonl"
	short := "-rounds 1 -secs 0.02 -keys 500 -many 2000 -settle 1s -steps 5 -sizes 4kib,64kib,1mib -room 1gib -samples 16 -json " + path
	wanted := checks()
	if !*soak {
		short += " -suite calls,paced,batches,keys,trace,data -clients 1 -contestants 13,ours"
		wanted = slices.Concat(callChecks(), pacedChecks(), batchChecks(), keyChecks(), traceChecks())
	}
	if err := s.parse(strings.Fields(short)); err != nil {
		t.Fatal(err)
	}
	s.limit = 10 * time.Minute
	if err := measure(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	r, err := loadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.suites {
		if phases, who := r.phases(name); len(phases) == 0 || !slices.Contains(who, ours) {
			t.Errorf("suite %s gave nothing for ours", name)
		}
	}
	for _, c := range wanted {
		if strings.Contains(c.yardstick, "Ray") || strings.Contains(c.of, "16 MiB") || strings.Contains(c.of, "64 MiB") {
			continue // not measured here
		}
		if v := c.value(r); v != v {
			t.Errorf("%s, %s: not measured", c.yardstick, c.of)
		}
	}
	if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), s.suites[0]) {
		t.Error("the file has no suite in it", err)
	}
}
