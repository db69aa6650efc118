package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"mooncake/interop"
)

// TestMeasure hands the smallest rollout over once by each party but Ray: 24 members, and no more calls to the master than
// promised, or the program fails.
func TestMeasure(t *testing.T) {
	if _, err := interop.PrepareEnvironment(t.Context(), t.Output(), interop.R13); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := settings{rounds: 1, limit: 10 * time.Minute, out: &out, progress: t.Output()}
	if err := s.check("1", nil); err != nil {
		t.Fatal(err)
	}
	if err := measure(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`\| 1 \| [\d.]+ \| 24 \| \d+ / \d+ \| [\d.]+ / [\d.]+ \| [\d.]+ / [\d.]+ \|\n$`)
	if !want.MatchString(out.String()) {
		t.Errorf("nothing like %s at the end of\n%s", want, out.String())
	}
}
