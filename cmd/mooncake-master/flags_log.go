package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/internal/logfold"
	"mooncake/master"
)

// Forms of the log.
const (
	flagLogFormat = "log_format"
	formatConsole = "console"
	formatJSON    = "json"
)

// addLogFlags declares what the log and the pages about calls show.
func addLogFlags(fs *pflag.FlagSet, c *master.Config, o *options) {
	fs.StringVar(&o.logFormat, flagLogFormat, formatConsole, "form of the log, one line an event: console or json")
	fs.BoolVar(&c.Reporting, "enable_metric_reporting", c.Reporting, "log once a minute what is stored and was asked for")
	fs.Var(millis{&c.SlowCall}, "slow_call_ms", "milliseconds from which a call is kept at /debug/slow; 0 = none is")
	fs.BoolVar(&c.Pprof, "enable_pprof", c.Pprof, "serve profiles of this process at /debug/pprof of the admin port")
	fs.StringVar(&c.MetadataTokenFile, "http_metadata_server_token_file", "", "file with the token that requests to the metadata server must carry; clients of 0.3.14 and segment daemons have it in MC_METADATA_HTTP_TOKEN")
}

func (o *options) checkLogFormat() error {
	if o.logFormat != formatConsole && o.logFormat != formatJSON {
		return fmt.Errorf("--%s=%s: want %s or %s", flagLogFormat, o.logFormat, formatConsole, formatJSON)
	}
	return nil
}

// logger writes one line an event; warnings that repeat are counted. stop writes what is counted and not told yet.
func logger(w io.Writer, level zap.AtomicLevel, format string) (log *zap.Logger, stop func()) {
	form := zap.NewProductionEncoderConfig()
	form.EncodeTime = zapcore.ISO8601TimeEncoder
	encoder := zapcore.NewConsoleEncoder(form)
	if format == formatJSON {
		form.TimeKey = "time"
		encoder = zapcore.NewJSONEncoder(form)
	}
	fold := logfold.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
	return zap.New(fold), fold.Start()
}
