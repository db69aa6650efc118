package logfold

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"mooncake/internal/limits"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is the time of a test.
type clock struct{ now time.Time }

func folded() (*zap.Logger, *Core, *observer.ObservedLogs, *clock) {
	core, logs := observer.New(zap.DebugLevel)
	c := &clock{time.Unix(1000, 0)}
	fold := New(core)
	fold.rows.now = func() time.Time { return c.now }
	return zap.New(fold), fold, logs, c
}

// total is the number of lines that were meant, told or not.
func total(logs *observer.ObservedLogs) (lines, meant uint64) {
	for _, e := range logs.All() {
		lines++
		meant++
		if n, ok := e.ContextMap()["repeated"].(uint64); ok {
			meant += n
		}
	}
	return lines, meant
}

// TestP37IdenticalWarnings writes ten thousand in half a minute: a few lines, and none is lost.
func TestP37IdenticalWarnings(t *testing.T) {
	log, fold, logs, c := folded()
	for i := range 10_000 {
		log.Warn("refused", zap.String("peer", "a"), zap.Int("port", i), zap.Error(errors.New("no")))
		c.now = c.now.Add(3 * time.Millisecond)
	}
	fold.Start()()
	// The last line of all tells of the rest, and is itself the repetition of one.
	if lines, meant := total(logs); lines > 20 || meant < 10_000 || meant > 10_001 {
		t.Fatalf("%d lines that mean %d", lines, meant)
	}
}

// TestDifferentLines are all written: other words, another level, below a warning.
func TestDifferentLines(t *testing.T) {
	log, _, logs, _ := folded()
	for i := range 50 {
		log.Warn("refused", zap.String("peer", fmt.Sprint(i)))
		log.With(zap.String("host", fmt.Sprint(i))).Warn("refused")
		log.Warn("refused", zap.Error(errors.New(fmt.Sprint(i))))
		log.Warn(fmt.Sprint("refused", i))
		log.Info("refused")
	}
	log.Error("refused", zap.String("peer", "1"))
	if n := logs.Len(); n != 251 {
		t.Fatal(n)
	}
}

// TestRowsEnd lets time pass: what repeated is told of when it is over, and begins anew.
func TestRowsEnd(t *testing.T) {
	log, fold, logs, c := folded()
	for range 3 {
		log.Warn("again")
	}
	fold.rows.flush(false)
	if logs.Len() != 1 {
		t.Fatal("told too early")
	}
	c.now = c.now.Add(limits.LogFoldMs * time.Millisecond)
	fold.rows.flush(false)
	if all := logs.All(); len(all) != 2 || all[1].ContextMap()["repeated"] != uint64(2) {
		t.Fatal(all)
	}
	log.Warn("again")
	if logs.Len() != 3 || len(fold.rows.open) != 1 {
		t.Fatal(logs.Len(), len(fold.rows.open))
	}
}

// TestMemoryIsBounded writes more different lines than are remembered.
func TestMemoryIsBounded(t *testing.T) {
	log, fold, logs, _ := folded()
	for i := range 2 * limits.LogFoldRows {
		log.Warn(fmt.Sprint(i))
	}
	if len(fold.rows.open) != limits.LogFoldRows || logs.Len() != 2*limits.LogFoldRows {
		t.Fatal(len(fold.rows.open), logs.Len())
	}
}
