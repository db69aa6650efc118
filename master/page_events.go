package master

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// recentEvents remembers the last lines of the log, whatever level is written, and what the sweep finds out about bundles.
// Those of one kind that follow closely are counted, so that many of one do not push out the others. The lock is a leaf.
type recentEvents struct {
	mu   sync.Mutex
	ring []eventView // oldest first
}

// eventView is an event as the page shows it.
type eventView struct {
	At     int64       `json:"at_ms"`
	Level  string      `json:"level"`
	Text   string      `json:"text"`
	Count  int         `json:"count"`
	Fields []fieldView `json:"fields"`
}

// fieldView is one fact about an event.
type fieldView struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// add remembers an event.
func (e *recentEvents) add(v eventView) {
	v.Text = shortText(v.Text)
	if len(v.Fields) > limits.PageEventFields {
		v.Fields = v.Fields[:limits.PageEventFields]
	}
	for i := range v.Fields {
		v.Fields[i].Value = shortText(v.Fields[i].Value)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.ring) - 1; i >= 0; i-- {
		if old := &e.ring[i]; old.Text == v.Text && old.Level == v.Level && v.At-old.At < limits.PageFoldMs {
			v.Count += old.Count
			e.ring = slices.Delete(e.ring, i, i+1)
			break
		}
	}
	if len(e.ring) >= limits.PageEvents {
		e.ring = slices.Delete(e.ring, 0, 1)
	}
	e.ring = append(e.ring, v)
}

// shortText cuts a text that somebody else may have chosen.
func shortText(text string) string {
	if utf8.RuneCountInString(text) <= limits.PageTextRunes {
		return printable(text)
	}
	return printable(string([]rune(text)[:limits.PageTextRunes])) + "…"
}

// list gives the events, the last one first.
func (e *recentEvents) list() []eventView {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]eventView, 0, len(e.ring))
	for _, v := range slices.Backward(e.ring) {
		out = append(out, v)
	}
	return out
}

// heed remembers what a sweep found out and the log does not tell.
func (e *recentEvents) heed(swept *catalog.Swept) {
	now := time.Now().UnixMilli()
	for _, kind := range []struct {
		text string
		list []catalog.BundleTime
	}{{"bundle published", swept.Bundles.Published}, {"bundle read for the first time", swept.Bundles.HandedOff}} {
		if n := len(kind.list); n > 0 {
			last := kind.list[n-1]
			fields := []fieldView{{"bundle", last.ID}, {"after_ms", fmt.Sprint(last.Ms)}}
			if last.Workload != "" {
				fields = append(fields, fieldView{"workload", last.Workload})
			}
			e.add(eventView{At: now, Level: "info", Text: kind.text, Count: n, Fields: fields})
		}
	}
	if swept.EvictedKeys > 0 {
		e.add(eventView{At: now, Level: "info", Text: "objects evicted to make room", Count: 1, Fields: []fieldView{
			{"keys", fmt.Sprint(swept.EvictedKeys)}, {"bytes", fmt.Sprint(swept.EvictedBytes)},
		}})
	}
}

// listening gives a logger whose lines are remembered as well.
func (e *recentEvents) listening(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return zapcore.NewTee(core, eventCore{to: e}) }))
}

// summaryLine is the text of a line of the log that is no event.
const summaryLine = "summary"

// eventCore is a place that log lines are written to.
type eventCore struct {
	to   *recentEvents
	with []zapcore.Field
}

// Enabled implements zapcore.Core.
func (c eventCore) Enabled(l zapcore.Level) bool { return l >= zapcore.InfoLevel }

// With implements zapcore.Core.
func (c eventCore) With(fields []zapcore.Field) zapcore.Core {
	return eventCore{c.to, append(slices.Clip(c.with), fields...)}
}

// Check implements zapcore.Core.
func (c eventCore) Check(entry zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) && entry.Message != summaryLine {
		return to.AddCore(entry, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c eventCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	v := eventView{At: entry.Time.UnixMilli(), Level: entry.Level.String(), Text: entry.Message, Count: 1}
	seen := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.with, fields) {
		f.AddTo(seen)
		if value, ok := seen.Fields[f.Key]; ok && f.Key != "action" && len(v.Fields) < limits.PageEventFields {
			v.Fields = append(v.Fields, fieldView{f.Key, strings.TrimSpace(fmt.Sprint(value))})
		}
	}
	c.to.add(v)
	return nil
}

// Sync implements zapcore.Core.
func (eventCore) Sync() error { return nil }
