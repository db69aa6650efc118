package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"mooncake/interop"
)

// TestMeasure hands the smallest rollout of each shape over by each party but Ray: all its members, and no more calls to the
// master than promised, or the program fails.
func TestMeasure(t *testing.T) {
	if _, err := interop.PrepareEnvironment(t.Context(), t.Output(), interop.R13); err != nil {
		t.Fatal(err)
	}
	binaries := t.TempDir()
	if err := interop.BuildDaemons(t.Context(), binaries, false, "mooncake-master", "mooncake-segment"); err != nil {
		t.Fatal(err)
	}
	for shape, members := range map[string]int{"yardstick": 25, "miles": 24} {
		var out strings.Builder
		s := settings{binaries: binaries, rounds: 1, times: 2, limit: 10 * time.Minute, out: &out, progress: t.Output()}
		if err := s.check("1", shape, nil); err != nil {
			t.Fatal(err)
		}
		if err := measure(t.Context(), &s); err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		want := regexp.MustCompile(`\| 1 \| [\d.]+ \| ` + strconv.Itoa(members) + ` \| \d+ / \d+ \| [\d.]+ / [\d.]+ \| [\d.]+ / [\d.]+ \|\n$`)
		if !want.MatchString(out.String()) {
			t.Errorf("nothing like %s at the end of\n%s", want, out.String())
		}
	}
}
