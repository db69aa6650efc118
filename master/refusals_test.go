package master

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// TestRefusalsAreToldSeldom has one refused put a millisecond for half a minute: a line every ten seconds, and none is
// left out of the sums.
func TestRefusalsAreToldSeldom(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	l := refusalLog{logger: zap.New(core)}
	var s catalog.Stats
	for now := catalog.Time(1_000_000); now < 1_030_001; now++ {
		s.PutStartAllocFailures++
		s.Refusals.Leased++
		l.tell(now, &s)
	}
	var puts, leased uint64
	for _, e := range logs.All() {
		puts += e.ContextMap()["puts"].(uint64)
		leased += e.ContextMap()["leased"].(uint64)
	}
	if logs.Len() != 4 || puts != 30_001 || leased != puts {
		t.Fatalf("%d lines, %d puts, %d leased", logs.Len(), puts, leased)
	}
	l.tell(1_030_001+2*limits.RefusalLogMs, &s)
	if logs.Len() != 4 {
		t.Fatal("a line without a refusal")
	}
}
