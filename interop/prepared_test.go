//go:build !rdmavm

package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// slowness multiplies the time steps may take.
const slowness = 1

// manyTests is how many tests the framework lets run at a time, unless -parallel says so: as many as there are, since
// each of them waits for its turn.
const manyTests = "1000"

// TestMain brings everything into place that the tests start.
func TestMain(m *testing.M) {
	flag.Parse()
	allBeside()
	code := 1
	if err := prepareAll(); err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	} else if code = m.Run(); code == 0 {
		if err := goleak.Find(goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop")); err != nil {
			fmt.Fprintln(os.Stderr, "interop:", err)
			code = 1
		}
	}
	os.RemoveAll(built.dir)
	os.Exit(code)
}

// allBeside lets all tests that wait for their turns do so at the same time, unless a number was asked for.
func allBeside() {
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		_ = flag.Set("test.parallel", manyTests) // a number
	}
}

// prepareAll brings the wheels and our binaries into place. A machine prepared by make test has the wheels already.
func prepareAll() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	needs := Missing(append(WheelNeeds(Releases...), TestNeeds()...))
	for _, n := range needs {
		fmt.Fprintf(os.Stderr, "installing Debian package %s: %s\n", n.Package, n.Why)
	}
	if err := InstallDebian(ctx, os.Stderr, needs); err != nil {
		return err
	}
	for _, r := range Releases {
		if _, err := PrepareEnvironment(ctx, os.Stderr, r); err != nil {
			return err
		}
	}
	machine, err := GuestMachine(os.Stderr)
	if err != nil {
		return err
	}
	if err := machine.Prepare(ctx); err != nil {
		return err
	}
	if built.dir, err = os.MkdirTemp("", "interop-"); err != nil {
		return err
	}
	var names []string
	if !replaced("master") {
		names = append(names, "mooncake-master")
	}
	if !replaced("segment") {
		names = append(names, "mooncake-segment")
	}
	return BuildDaemons(ctx, built.dir, raceDetector(), names...)
}
