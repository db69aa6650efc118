// Command mooncake-master is the master of a Mooncake store: it knows segments, objects and replicas, and answers the
// published clients of three releases on one port. Called mooncake_master it takes that binary's default admin port.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"mooncake/internal/gflag"
	"mooncake/master"
)

// version is set by the build.
var version = "dev"

func main() {
	os.Exit(run(filepath.Base(os.Args[0]), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the exit: it returns the exit code.
func run(name string, args []string, stdout, stderr io.Writer) (code int) {
	cfg := master.DefaultConfig()
	if name == oldName {
		cfg.MetricsPort = oldMetricsPort
	} else {
		name = newName
	}
	var opts options
	cmd := &cobra.Command{Use: name, DisableFlagParsing: true, SilenceErrors: true, SilenceUsage: true}
	addFlags(cmd.Flags(), &cfg, &opts)
	cmd.Run = func(cmd *cobra.Command, args []string) {
		program := gflag.Program{Name: name, Usage: usage, Version: version}
		ended := false
		if code, ended = gflag.Handle(cmd.Flags(), args, program, stdout, stderr); ended {
			return
		}
		warning := settle(cmd.Flags(), &cfg, &opts)
		code = serve(&cfg, &opts, warning, stdout, stderr)
	}
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintf(stderr, "ERROR: %v\n", err)
		return 1
	}
	return code
}

const usage = "master of a Mooncake store for clients of releases 0.3.12.post1, 0.3.13.post1 and 0.3.14"

func serve(cfg *master.Config, opts *options, warning string, stdout, stderr io.Writer) int {
	if err := cfg.Validate(); err != nil {
		fmt.Fprintf(stderr, "ERROR: %v\n", err)
		return 1
	}
	if opts.checkConfig {
		if warning != "" {
			fmt.Fprintf(stderr, "WARNING: %s\n", warning)
		}
		fmt.Fprintln(stdout, cfg)
		return 0
	}
	log := logger(stderr)
	defer func() { _ = log.Sync() }() // stderr cannot be synced on every system
	if warning != "" {
		log.Warn(warning)
	}
	srv, err := master.Listen(*cfg, log)
	if err != nil {
		fmt.Fprintf(stderr, "ERROR: %v\n", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // whoever read the log may leave; the store goes on
	open := cfg.With(srv.Ports())
	log.Info(fmt.Sprintf("Master service started on port %d, %s", open.RPCPort, &open), zap.String("version", version))
	if err := srv.Run(ctx); err != nil {
		fmt.Fprintf(stderr, "ERROR: %v\n", err)
		return 1
	}
	log.Info("Shutdown signal received, exiting gracefully")
	return 0
}

// logger writes one line an event to stderr.
func logger(w io.Writer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), zap.InfoLevel))
}
