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

// Limits of the tests over RDMA, boot to end. On two quiet cores they need a quarter of it.
const (
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

// TestRDMA runs tests in an emulated machine with RDMA devices: this package's clients and daemons over RDMA, and those of
// package rdma that want real devices. Their results are subtests here.
func TestRDMA(t *testing.T) {
	limit := rdmaLimit
	if *soak {
		limit = rdmaSoakLimit
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel) // after the subtests, which go on when this function has ended
	machine, err := GuestMachine(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	preload := buildShim(t, ctx)
	// Each machine emulates one processor on a small host, so several of them share the work.
	for _, s := range suites(preload, *soak) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t, ctx, machine)
		})
	}
}

// suites are what the emulated machines run, one each: what must be seen every time, or all there is.
func suites(preload string, all bool) []suite {
	interop := func(name, pattern string) suite {
		return suite{name: name, pkg: "interop", args: []string{"-test.run=" + pattern, "-binaries=" + built.dir, "-shim=" + preload}}
	}
	if *inside != "" {
		return []suite{interop("clients", *inside)}
	}
	verbs := suite{name: "verbs", pkg: "rdma", args: []string{"-test.run=^TestVM"}}
	if !all {
		return []suite{verbs} // two busy cores are not enough for the clients within the limit
	}
	return []suite{
		interop("clients", "^TestGuest(Objects|TwoDevices|MetadataHTTP|Bundles)$"),
		interop("faults", "^TestGuest(DaemonKilled|PortDown|DeviceDeleted|ClientKilled|Rounds|Copies)$"),
		verbs,
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

func (s suite) run(t *testing.T, ctx context.Context, machine *vm.Machine) {
	binary := filepath.Join(built.dir, s.name+".test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags=rdmavm", "-o", binary, "./"+s.pkg)
	build.Dir = machine.Module
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v: %s", err, text)
	}
	for n := range boots {
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline)
		args := append([]string{binary, "-test.v=test2json", "-test.timeout=" + left.String()}, s.args...)
		if s.pkg == "interop" && *soak {
			args = append(args, "-soak")
		}
		results := &outcomes{progress: progress(t)}
		status, err := machine.Run(ctx, vm.Job{
			Command: args, Dir: filepath.Join(machine.Module, s.pkg), Env: guestEnv(machine), Nodes: guestNodes, MemMiB: guestMiB, Limit: left,
		}, vm.Output{Out: results, Err: asides{results}})
		if errors.Is(err, vm.ErrClock) && n+1 < boots {
			t.Logf("booting again: %v", err)
			continue
		}
		results.report(t, status, err)
		return
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
func progress(t *testing.T) func(line string) {
	if !testing.Verbose() {
		return nil
	}
	began := time.Now()
	return func(line string) {
		fmt.Fprintf(os.Stderr, "%6.1fs %s %s\n", time.Since(began).Seconds(), t.Name(), line)
	}
}
