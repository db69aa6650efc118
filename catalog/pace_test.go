//go:build !race

package catalog

// How long the long tests are: about 10^5 steps of the model, and three seeds of the training trace.
const (
	modelStepsMax = 400
	traceSeeds    = 3
)
