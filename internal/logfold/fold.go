package logfold

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/internal/limits"
)

// Core is a zapcore.Core that folds what repeats. Make one with New.
type Core struct {
	zapcore.Core
	prefix string // words of the fields that With added
	rows   *rows
}

// rows is what all cores made from one share.
type rows struct {
	now func() time.Time

	mu   sync.Mutex
	open map[string]*row
}

// row is one line and its repetitions.
type row struct {
	since    time.Time
	core     zapcore.Core // that wrote it, with its fields
	last     zapcore.Entry
	fields   []zapcore.Field
	repeated uint64
}

// New folds what goes to inner.
func New(inner zapcore.Core) *Core {
	return &Core{Core: inner, rows: &rows{now: time.Now, open: map[string]*row{}}}
}

// With implements zapcore.Core.
func (c *Core) With(fields []zapcore.Field) zapcore.Core {
	return &Core{Core: c.Core.With(fields), prefix: c.prefix + words(fields), rows: c.rows}
}

// Check implements zapcore.Core.
func (c *Core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c *Core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < zapcore.WarnLevel || e.Level > zapcore.ErrorLevel {
		return c.Core.Write(e, fields)
	}
	key := e.Level.String() + e.LoggerName + "\x00" + e.Message + c.prefix + words(fields)
	r := c.rows
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	known := r.open[key]
	switch {
	case known != nil && now.Sub(known.since) < limits.LogFoldMs*time.Millisecond:
		known.repeated++
		known.last, known.fields = e, fields
		return nil
	case known != nil:
		fields = known.told(fields)
		known.since, known.core, known.repeated = now, c.Core, 0
	case len(r.open) < limits.LogFoldRows:
		r.open[key] = &row{since: now, core: c.Core}
	}
	return c.Core.Write(e, fields)
}

// told adds how often a line was not written.
func (r *row) told(fields []zapcore.Field) []zapcore.Field {
	if r.repeated == 0 {
		return fields
	}
	return append(fields[:len(fields):len(fields)], zap.Uint64("repeated", r.repeated))
}

// words are what two lines must have in common.
func words(fields []zapcore.Field) string {
	var b strings.Builder
	for i := range fields {
		f := &fields[i]
		switch f.Type {
		case zapcore.StringType:
			b.WriteString("\x00" + f.Key + "\x01" + f.String)
		case zapcore.ErrorType:
			if err, ok := f.Interface.(error); ok && err != nil {
				b.WriteString("\x00" + f.Key + "\x01" + err.Error())
			}
		}
	}
	return b.String()
}

// flush tells of rows that are over, or of all.
func (r *rows) flush(all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for key, row := range r.open {
		if !all && now.Sub(row.since) < limits.LogFoldMs*time.Millisecond {
			continue
		}
		if row.repeated > 0 {
			row.last.Time = now
			_ = row.core.Write(row.last, row.told(row.fields)) // there is nobody to tell that the log cannot be written
		}
		delete(r.open, key)
	}
}

// Start tells of what repeats also when nothing of the kind follows. stop tells the rest and waits until that is done.
func (c *Core) Start() (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(limits.LogFoldMs / 4 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.rows.flush(false)
			case <-quit:
				c.rows.flush(true)
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(quit)
		<-ended
	})
}
