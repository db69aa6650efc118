package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"mooncake/internal/gflag"
)

// Flags that SIGHUP changes.
const (
	flagAllowFrom = "peer_allow_from"
	flagLogLevel  = "log_level"
)

// reloader reads flags and files anew while the daemon runs.
type reloader struct {
	name       string
	args       []string
	lookupEnv  func(string) (string, bool)
	flags      *pflag.FlagSet // what is in force
	level      zap.AtomicLevel
	log        *zap.Logger
	allowPeers func(networks string) error
}

// start reloads at every signal, until the function it returns is called.
func (r *reloader) start(hangups <-chan os.Signal) (stop func()) {
	quit := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-hangups:
			}
			if err := r.reload(); err != nil {
				r.log.Warn("nothing is reloaded: " + strings.ReplaceAll(err.Error(), "\n", "; "))
			}
		}
	})
	return func() {
		close(quit)
		waiting.Wait()
	}
}

// reload takes over what may change while the daemon runs, and says what changed and what was left.
func (r *reloader) reload() error {
	next := newOptions(r.name)
	if _, err := gflag.Parse(next.flags, r.args, gflag.Program{Name: r.name, LookupEnv: r.lookupEnv}); err != nil {
		return err
	}
	cfg, _, err := next.config(r.lookupEnv)
	if err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	level, err := parseLevel(next.logLevel)
	if err != nil {
		return err
	}
	if err := r.allowPeers(cfg.PeerAllowFrom); err != nil {
		return err
	}
	var changed, left []string
	r.flags.VisitAll(func(f *pflag.Flag) {
		before, after := f.Value.String(), next.flags.Lookup(f.Name).Value.String()
		line := fmt.Sprintf("%s: %s -> %s", f.Name, before, after)
		switch {
		case before == after:
		case slices.Contains([]string{flagAllowFrom, flagLogLevel}, f.Name):
			changed = append(changed, line)
		default:
			left = append(left, line)
		}
	})
	for _, name := range []string{flagAllowFrom, flagLogLevel} { // what the next reload compares with
		if err := r.flags.Set(name, next.flags.Lookup(name).Value.String()); err != nil {
			return err
		}
	}
	r.level.SetLevel(min(r.level.Level(), level.Level())) // the line below is to be seen if either shows it
	r.log.Info("reloaded", zap.Strings("changed", changed), zap.Strings("left_until_restart", left))
	r.level.SetLevel(level.Level())
	return nil
}
