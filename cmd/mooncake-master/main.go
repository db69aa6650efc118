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
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

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
	if name != oldName {
		name = newName
	}
	cmd := &cobra.Command{Use: name, DisableFlagParsing: true, SilenceErrors: true, SilenceUsage: true}
	cmd.Run = func(_ *cobra.Command, args []string) {
		l := newCommandLine(name)
		program := gflag.Program{Name: name, Usage: usage, Version: version}
		ended := false
		if code, ended = gflag.Handle(l.flags, args, program, stdout, stderr); ended {
			return
		}
		if err := l.settle(); err != nil {
			code = fail(stderr, err)
			return
		}
		code = serve(l, args, stdout, stderr)
	}
	cmd.SetArgs(args)
	if err := cmd.Execute(); err != nil {
		return fail(stderr, err)
	}
	return code
}

// fail says in one line why the program ends.
func fail(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "ERROR: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return 1
}

const usage = "master of a Mooncake store for clients of releases 0.3.12.post1, 0.3.13.post1 and 0.3.14"

func serve(l *commandLine, args []string, stdout, stderr io.Writer) int {
	if err := l.cfg.Validate(); err != nil {
		return fail(stderr, err)
	}
	warning := warningOf(l.without)
	if l.opts.checkConfig {
		if warning != "" {
			fmt.Fprintf(stderr, "WARNING: %s\n", warning)
		}
		fmt.Fprintln(stdout, &l.cfg)
		return 0
	}
	log, stopLog := logger(stderr, l.level, l.opts.logFormat)
	defer stopLog()
	if warning != "" {
		log.Warn(warning)
	}
	hangups := make(chan os.Signal, 1) // from now on: before, it would end the process
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	srv, err := master.Listen(l.cfg, log)
	if err != nil {
		return fail(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // whoever read the log may leave; the store goes on
	open := l.cfg.With(srv.Ports())
	log.Info(fmt.Sprintf("Master service started on port %d, %s", open.RPCPort, &open), zap.String("version", version))
	defer reloadOnSignal(hangups, l, args, srv, log)()
	if err := srv.Run(ctx); err != nil {
		return fail(stderr, err)
	}
	log.Info("Shutdown signal received, exiting gracefully")
	return 0
}
