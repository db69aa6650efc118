package master

// tally counts calls by name for the metrics. A batch counts its items and how many of them failed.
type tally interface {
	Count(call string, failed bool)
	CountBatch(call string, items, failed int)
}

type noTally struct{}

func (noTally) Count(string, bool)          {}
func (noTally) CountBatch(string, int, int) {}
