package catalog

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives the random tests the same numbers every time, so that a change is judged by what it changes. `make soak`
// sets MOONCAKE_RANDOM and lets them differ; a failure prints the seed that repeats it with -rapid.seed.
func TestMain(m *testing.M) {
	flag.Parse()
	given := os.Getenv("MOONCAKE_RANDOM") != ""
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.seed" })
	if !given {
		if err := flag.Set("rapid.seed", "13"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
