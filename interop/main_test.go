package interop

import (
	"flag"
	"fmt"
	"strconv"
	"testing"
)

var (
	// against runs every test with the original's daemons in place of ours: what they do is what ours have to do. Tests of
	// our own additions fail then.
	against = flag.Int("against", 0, "run with the daemons of this release (12, 13 or 14) instead of ours")
	// replace narrows that to one of the two.
	replace = flag.String("replace", "both", "which daemons -against replaces: master, segment or both")
	// soak multiplies the work of the tests that are made of many repetitions.
	soak = flag.Bool("soak", false, "many more repetitions, and daemons with the race detector")
	// unraced leaves that detector away: times are those of the daemons that people run, and a flood is as fast as it can be.
	unraced = flag.Bool("unraced", false, "with -soak: daemons without the race detector")
)

// built is the folder with our daemons, compiled once for all tests. Inside an emulated machine it comes from outside.
var built struct{ dir string }

// replaced reports whether the original stands in for one of our daemons.
func replaced(daemon string) bool {
	return *against != 0 && (*replace == "both" || *replace == daemon)
}

// allPorts are those of all rigs: tests that run beside each other have none in common, also not one that is free for a while
// between two daemons.
var allPorts Ports

// newRig is a rig for one test; when the test fails the ends of all logs are shown.
func newRig(t *testing.T) *Rig {
	t.Helper()
	r, err := NewRig(built.dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Binaries, r.Slow, r.ports = built.dir, slowness, &allPorts
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

// raceDetector reports whether our daemons are built with it.
func raceDetector() bool { return *soak && !*unraced }

func key(format string, args ...any) Key { return Key(fmt.Sprintf(format, args...)) }

func itemsOf(prefix string, n int, size func(i int) int64) []Item {
	out := make([]Item, n)
	for i := range out {
		out[i] = Item{Key: Key(prefix + strconv.Itoa(i)), Size: size(i), Seed: int64(i + 1)}
	}
	return out
}
