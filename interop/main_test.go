package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

var (
	// against runs every test with the original's daemons in place of ours: what they do is what ours have to do. Tests of
	// our own additions fail then.
	against = flag.Int("against", 0, "run with the daemons of this release (12, 13 or 14) instead of ours")
	// replace narrows that to one of the two.
	replace = flag.String("replace", "both", "which daemons -against replaces: master, segment or both")
	// soak multiplies the work of the tests that are made of many repetitions.
	soak = flag.Bool("soak", false, "many more repetitions, and daemons with the race detector")
)

// built is the folder with our daemons, compiled once for all tests.
var built struct{ dir string }

func TestMain(m *testing.M) {
	flag.Parse()
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
	var err error
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
	return BuildDaemons(ctx, built.dir, *soak, names...)
}

// replaced reports whether the original stands in for one of our daemons.
func replaced(daemon string) bool {
	return *against != 0 && (*replace == "both" || *replace == daemon)
}

// newRig is a rig for one test; when the test fails the ends of all logs are shown.
func newRig(t *testing.T) *Rig {
	t.Helper()
	r, err := NewRig(built.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Binaries = built.dir
	if replaced("master") {
		r.OriginalMaster = Release(*against)
	}
	if replaced("segment") {
		r.OriginalSegment = Release(*against)
	}
	t.Cleanup(func() {
		if t.Failed() {
			var text logText
			r.Logs(&text)
			t.Log(string(text))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

type logText []byte

func (l *logText) Write(p []byte) (int, error) {
	*l = append(*l, p...)
	return len(p), nil
}

// eachRelease runs a test for every release; the original's daemons serve their own release only.
func eachRelease(t *testing.T, test func(t *testing.T, r Release)) {
	releases := Releases
	if *against != 0 {
		releases = []Release{Release(*against)}
	}
	for _, r := range releases {
		t.Run(r.String(), func(t *testing.T) { test(t, r) })
	}
}

// repeat is how often to do something: few times in every run, often when soaking.
func repeat(short, long int) int {
	if *soak {
		return long
	}
	return short
}

func key(format string, args ...any) Key { return Key(fmt.Sprintf(format, args...)) }

func itemsOf(prefix string, n int, size func(i int) int64) []Item {
	out := make([]Item, n)
	for i := range out {
		out[i] = Item{Key: Key(prefix + strconv.Itoa(i)), Size: size(i), Seed: int64(i + 1)}
	}
	return out
}
