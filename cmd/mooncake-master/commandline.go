package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/master"
)

// commandLine is what a start, or a reload, is told: flags, the environment and the files that they name.
type commandLine struct {
	name    string
	flags   *pflag.FlagSet
	cfg     master.Config
	opts    options
	level   zap.AtomicLevel
	without []string // what was given and has no effect
}

// newCommandLine has the defaults of the program of a name.
func newCommandLine(name string) *commandLine {
	l := &commandLine{name: name, flags: pflag.NewFlagSet(name, pflag.ContinueOnError), cfg: master.DefaultConfig(), level: zap.NewAtomicLevel()}
	if name == oldName {
		l.cfg.MetricsPort = oldMetricsPort
		l.cfg.MaxSoftPinTTL = oldMaxSoftPinTTL
		l.cfg.LeaderTTL = oldLeaderTTL
	}
	addFlags(l.flags, &l.cfg, &l.opts)
	return l
}

// Defaults of the published masters that this one has only under their name. The port 9003 is next to that of a client; seven
// days of a soft pin are those of 0.3.14; with a lease of 5 s a dead leader is missed for two seconds longer.
const (
	oldMetricsPort   = 9003
	oldMaxSoftPinTTL = 7 * 24 * time.Hour
	oldLeaderTTL     = 5 * time.Second
)

// settle reads the configuration file, once the flags are set, and works out what everything means together.
func (l *commandLine) settle() error {
	if l.opts.configPath != "" {
		without, err := readConfigFile(l.flags, l.opts.configPath)
		if err != nil {
			return err
		}
		l.without = append(l.without, without...)
	}
	without, err := settle(l.flags, &l.cfg, &l.opts)
	if err != nil {
		return err
	}
	l.without = append(l.without, without...)
	if err := l.opts.checkLogFormat(); err != nil {
		return err
	}
	level, err := zapcore.ParseLevel(l.opts.logLevel)
	if err != nil || level > zapcore.ErrorLevel {
		return fmt.Errorf("--%s=%s: want debug, info, warn or error", flagLogLevel, l.opts.logLevel)
	}
	l.level.SetLevel(level)
	return nil
}
