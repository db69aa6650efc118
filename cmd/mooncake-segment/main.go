// Command mooncake-segment gives memory of this host to a Mooncake pool: it keeps an arena of shared memory, serves it
// to peers over the Transfer Engine protocol and registers it with a master. Started under the name mooncake_client it
// takes that program's defaults.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/internal/gflag"
	"mooncake/internal/limits"
	"mooncake/internal/schedslice"
	"mooncake/segment"
)

func main() {
	os.Exit(run(filepath.Base(os.Args[0]), os.Args[1:], os.LookupEnv))
}

// run is main without the process: it returns the exit code.
func run(name string, args []string, lookupEnv func(string) (string, bool)) int {
	opts := newOptions(name)
	program := gflag.Program{
		Name: name, Version: version(), LookupEnv: lookupEnv,
		Usage: "Gives memory of this host to a Mooncake pool.",
	}
	if code, ended := gflag.Handle(opts.flags, args, program, os.Stdout, os.Stderr); ended {
		return code
	}
	cfg, notes, err := opts.config(lookupEnv)
	if err == nil {
		err = cfg.Validate()
	}
	if err != nil {
		return fail(name, err)
	}
	level, err := parseLevel(opts.logLevel)
	if err != nil {
		return fail(name, err)
	}
	if opts.checkConfig {
		for _, n := range notes {
			if strings.HasPrefix(n, withoutEffect) {
				fmt.Fprintf(os.Stderr, "WARNING: %s\n", n)
			}
		}
		if err := cfg.Resolve(context.Background()); err != nil {
			return fail(name, err)
		}
		table, err := cfg.CheckDevices()
		fmt.Print(table)
		if err != nil {
			return fail(name, err)
		}
		fmt.Println(cfg.String())
		return 0
	}
	log, hangups := newLogger(level), make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // from now on: before, it would end the process
	defer signal.Stop(hangups)
	log.Info("starting", zap.String("version", program.Version), zap.Int("pid", os.Getpid()), zap.String("config", cfg.String()))
	for _, n := range notes {
		if strings.HasPrefix(n, withoutEffect) {
			log.Warn(n)
		} else {
			log.Info(n)
		}
	}
	cfg.Data.YieldForBody = shortTurns(cfg.SchedSliceUs, log)
	ctx, stop := untilSignal(context.Background(), log)
	defer stop()
	if cfg.Sockets, err = segment.InheritedSockets(lookupEnv); err != nil {
		return fail(name, err)
	}
	d, err := segment.Open(ctx, *cfg, log)
	if err != nil {
		return fail(name, err)
	}
	r := reloader{name: name, args: args, lookupEnv: lookupEnv, flags: opts.flags, level: level, log: log, allowPeers: d.AllowPeers}
	defer r.start(hangups)()
	if err := d.Run(ctx); err != nil {
		return ended(name, err)
	}
	log.Info("ended")
	return 0
}

// shortTurns asks the kernel for short turns, and tells whether they are so short that the processor may be given back for a body.
func shortTurns(us uint32, log *zap.Logger) bool {
	word, took := schedslice.Start(us)
	if word != "" {
		log.Info(word)
	}
	return took && us <= limits.SchedSliceYieldUs
}

// Exit codes of a daemon that left with --drain_timeout: copies remained on its segment, or nobody knows.
const (
	exitLeft    = 3
	exitUnknown = 4
)

// ended tells why a daemon that ran ended, and gives its exit code.
func ended(name string, err error) int {
	code := fail(name, err)
	var left *segment.LeftError
	switch {
	case !errors.As(err, &left):
		return code
	case left.Known:
		return exitLeft
	}
	return exitUnknown
}

// fail prints the one line that says why the program ends.
func fail(name string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.ReplaceAll(err.Error(), "\n", "; "))
	return 1
}

// untilSignal ends the context when the process is told to leave (SIGTERM, SIGINT) or to make way for its successor
// (SIGUSR1). A second signal to leave is not waited for: it ends the process as usual.
func untilSignal(parent context.Context, log *zap.Logger) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			log.Info("signal", zap.String("signal", s.String()))
			signal.Stop(signals)
			if s == syscall.SIGUSR1 {
				cancel(segment.ErrStay)
				return
			}
			cancel(errors.New("told to leave by " + s.String()))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-ended
	}
}

// parseLevel reads --log_level.
func parseLevel(text string) (zap.AtomicLevel, error) {
	at, err := zapcore.ParseLevel(text)
	if err != nil || at > zapcore.ErrorLevel {
		return zap.AtomicLevel{}, fmt.Errorf("--log_level=%s: want debug, info, warn or error", text)
	}
	return zap.NewAtomicLevelAt(at), nil
}

// newLogger writes one line per event to stderr.
func newLogger(level zap.AtomicLevel) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	enc.EncodeLevel = zapcore.CapitalLevelEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(os.Stderr), level))
}

// version is the module's version as the build recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// ownAddress is the first IPv4 address of an interface that is up and leads outside; a host without one is alone.
func ownAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	return "127.0.0.1"
}
