//go:build race

package catalog

// The race detector makes everything ten times slower, and sees as much in fewer steps.
const (
	modelStepsMax = 80
	traceSeeds    = 1
)
