package data

// Moved is what one client has moved in one phase.
type Moved struct {
	Count   int     `json:"count"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"` // inside the calls
	P50     float64 `json:"p50"`     // seconds, as all times here
	P99     float64 `json:"p99"`
	Errors  int     `json:"errors"`
	CPU     float64 `json:"cpu"` // of the client's process; 0 where several share one
}

// Together are several clients that moved at the same time: rates add up, the middle is the mean of theirs, and the worst
// is that of the worst.
func Together(all []Moved) (gbPerSecond float64, sum Moved) {
	for _, m := range all {
		if m.Seconds > 0 {
			gbPerSecond += float64(m.Bytes) / m.Seconds / 1e9
		}
		sum.Count += m.Count
		sum.Bytes += m.Bytes
		sum.Seconds += m.Seconds
		sum.P50 += m.P50 / float64(len(all))
		sum.P99 = max(sum.P99, m.P99)
		sum.Errors += m.Errors
		sum.CPU += m.CPU
	}
	return gbPerSecond, sum
}
