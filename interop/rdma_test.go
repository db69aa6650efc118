//go:build !rdmavm

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mooncake/interop/vm"
)

// inside narrows what runs in the emulated machine.
var inside = flag.String("guest", "", "pattern of the only tests to run in the emulated machine")

// Limits of the tests over RDMA, boot to end, on a host that has nothing else to do. On two quiet cores they need less than half
// of it; a busy host is granted up to busyFactor as much.
const (
	busyFactor    = 3
	rdmaLimit     = 10 * time.Minute
	rdmaSoakLimit = 2 * time.Hour
)

// guestNodes and guestMiB are the size of the emulated machine: a device for the clients, two for a daemon; a dozen Python
// processes and the memory of two daemons, all of it pinned.
const (
	guestNodes = 3
	guestMiB   = 4096
)

// boots is how often a guest is started anew because its clock runs wild.
const boots = 3

// suite is a test binary for the inside of an emulated machine.
type suite struct {
	name string
	pkg  string
	args []string
}

// ran is what became of a suite.
type ran struct {
	results *outcomes
	status  int
	err     error
}

// TestRDMA runs tests in emulated machines with RDMA devices: this package's clients and daemons over RDMA, and those of
// package rdma that want real devices. Their results are subtests here.
func TestRDMA(t *testing.T) {
	limit := rdmaLimit
	if *soak {
		limit = rdmaSoakLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), busyFactor*limit)
	defer cancel()
	machine, err := GuestMachine(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	todo := suites(buildShim(t, ctx))
	for _, s := range todo {
		s.build(t, ctx, machine)
	}
	// All at once, however few the processors are: each machine emulates one, and the host shares itself out among them.
	var all []chan ran
	for _, s := range todo {
		done := make(chan ran, 1)
		all = append(all, done)
		go func() { done <- s.run(ctx, machine, limit) }()
	}
	for i, s := range todo {
		r := <-all[i]
		t.Run(s.name, func(t *testing.T) { r.results.report(t, r.status, r.err) })
	}
}

// suites are what the emulated machines run, one each.
func suites(preload string) []suite {
	interop := func(name, pattern string) suite {
		return suite{name: name, pkg: "interop", args: []string{"-test.run=" + pattern, "-binaries=" + built.dir, "-shim=" + preload}}
	}
	if *inside != "" {
		return []suite{interop("clients", *inside)}
	}
	return []suite{
		interop("clients", "^TestGuest(Clients|TwoDevices|MetadataHTTP)$"),
		interop("faults", "^TestGuest(DaemonKilled|PortDown|DeviceDeleted|Copies|Rounds|ClientKilled)$"),
		{name: "verbs", pkg: "rdma", args: []string{"-test.run=^TestVM"}},
	}
}

// buildShim compiles the library that makes rxe report dead peers.
func buildShim(t *testing.T, ctx context.Context) string {
	t.Helper()
	out := filepath.Join(built.dir, "rxe_gives_up.so")
	cmd := exec.CommandContext(ctx, "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", out,
		filepath.Join("testdata", "rxe_gives_up.c"), "-Wl,--no-as-needed", "-libverbs", "-ldl")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cc: %v: %s", err, text)
	}
	return out
}

func (s suite) binary() string { return filepath.Join(built.dir, s.pkg+".test") }

// build compiles the suite's tests, which several suites may share.
func (s suite) build(t *testing.T, ctx context.Context, machine *vm.Machine) {
	t.Helper()
	if _, err := os.Stat(s.binary()); err == nil {
		return
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags=rdmavm", "-o", s.binary(), "./"+s.pkg)
	build.Dir = machine.Module
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, text)
	}
}

// run runs the suite in a machine of its own, and again in another when the clock of the first ran wild.
func (s suite) run(ctx context.Context, machine *vm.Machine, limit time.Duration) ran {
	for n := 1; ; n++ {
		args := append([]string{s.binary(), "-test.v=test2json", "-test.timeout=" + (busyFactor * limit).String()}, s.args...)
		if s.pkg == "interop" && *soak {
			args = append(args, "-soak")
		}
		r := ran{results: &outcomes{progress: s.progress()}}
		r.status, r.err = machine.Run(ctx, vm.Job{
			Command: args, Dir: filepath.Join(machine.Module, s.pkg), Env: guestEnv(machine), Nodes: guestNodes, MemMiB: guestMiB, Limit: limit,
		}, vm.Output{Out: r.results, Err: asides{r.results}})
		if !errors.Is(r.err, vm.ErrClock) || n == boots {
			return r
		}
		fmt.Fprintf(os.Stderr, "%s: booting again: %v\n", s.name, r.err)
	}
}

// guestEnv is the environment inside: the same caches, and a home that is there.
func guestEnv(machine *vm.Machine) []string {
	var out []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "TMPDIR", "HOME", "MOONCAKE_CACHE_DIR", "LD_PRELOAD":
		default:
			out = append(out, v)
		}
	}
	return append(out, "HOME=/tmp", "TMPDIR=/tmp", "MOONCAKE_CACHE_DIR="+machine.Cache)
}

// progress shows what runs when the tests are watched.
func (s suite) progress() func(line string) {
	if !testing.Verbose() {
		return nil
	}
	began := time.Now()
	return func(line string) {
		fmt.Fprintf(os.Stderr, "%6.1fs %s %s\n", time.Since(began).Seconds(), s.name, line)
	}
}
