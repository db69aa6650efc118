package figures

import (
	"math"
	"slices"
)

// Median is the middle of some numbers, or between the two in the middle; of none it is no number.
func Median(of []float64) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(of))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// Ratio is the median of the ratios of numbers that belong to the same round. Rounds that one side lacks, or in which the base
// is nothing, do not count; when none is left it is no number.
func Ratio(of, base map[int]float64) float64 {
	var ratios []float64
	for round, n := range of {
		if b, both := base[round]; both && b != 0 {
			ratios = append(ratios, n/b)
		}
	}
	return Median(ratios)
}
