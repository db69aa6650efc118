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
	"mooncake/master"
)

// reloadable are the flags that SIGHUP changes. A lease is not among them: the ranges of objects wait out the leases that
// were handed out, as long as those were then.
var reloadable = []string{
	"eviction_ratio", "eviction_high_watermark_ratio", "allow_evict_soft_pinned_objects", "default_kv_soft_pin_ttl", flagLogLevel,
	"rpc_allow_from", "admin_tokens_file", "grpc_allow_from", "grpc_tokens_file",
}

// reloadOnSignal reads flags and files anew at every SIGHUP, until the function it returns is called.
func reloadOnSignal(hangups <-chan os.Signal, l *commandLine, args []string, srv *master.Server, log *zap.Logger) (stop func()) {
	quit := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for {
			select {
			case <-quit:
				return
			case <-hangups:
			}
			if err := l.reload(args, srv, log); err != nil {
				log.Warn("nothing is reloaded: "+strings.ReplaceAll(err.Error(), "\n", "; "), zap.String("action", "reload_failed"))
			}
		}
	})
	return func() {
		close(quit)
		waiting.Wait()
	}
}

// reload takes over what may change while the master runs, and says what changed and what was left.
func (l *commandLine) reload(args []string, srv *master.Server, log *zap.Logger) error {
	next := newCommandLine(l.name)
	if _, err := gflag.Parse(next.flags, args, gflag.Program{Name: l.name}); err != nil {
		return err
	}
	if err := next.settle(); err != nil {
		return err
	}
	if err := next.cfg.Validate(); err != nil {
		return err
	}
	changed, left := l.difference(next)
	if err := srv.Reload(&next.cfg); err != nil {
		return err
	}
	l.level.SetLevel(min(l.level.Level(), next.level.Level())) // the line below is to be seen if either shows it
	for _, name := range reloadable {                          // what the next reload compares with
		if err := l.flags.Set(name, next.flags.Lookup(name).Value.String()); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	log.Info("reloaded", zap.Strings("changed", changed), zap.Strings("left_until_restart", left))
	l.level.SetLevel(next.level.Level())
	return nil
}

// difference lists the flags that have another value now: those that change, and those that a restart would change.
func (l *commandLine) difference(next *commandLine) (changed, left []string) {
	l.flags.VisitAll(func(f *pflag.Flag) {
		before, after := f.Value.String(), next.flags.Lookup(f.Name).Value.String()
		switch {
		case before == after:
		case slices.Contains(reloadable, f.Name):
			changed = append(changed, fmt.Sprintf("%s: %s -> %s", f.Name, before, after))
		default:
			left = append(left, fmt.Sprintf("%s: %s -> %s", f.Name, before, after))
		}
	})
	return changed, left
}
