// Command yardsticks measures masters and segment daemons side by side: ours, the published ones, and any other that speaks as
// they do. Every figure has a partner that was taken seconds before or after it on the same machine.
//
//	go run ./bench/yardsticks -suite calls,batches -rounds 5 -secs 1 -json FILE
//	go run ./bench/yardsticks -contestants 13,14,ours -master 'mine=my-master --rpc_port={rpc} --metrics_port={met}'
//	go run ./bench/yardsticks table FILE...            tables, as they stand in docs/performance.md
//
// The published masters come from the wheels that the tests set up (go run ./interop/prepare test). Everything stays on
// 127.0.0.1, and whatever is started is stopped by its process id.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if ctx.Err() != nil && err != nil {
		err = errors.New("interrupted; everything it started is stopped")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "yardsticks:", err)
		os.Exit(1)
	}
}

// run is the whole program.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "table" {
		return tables(os.Stdout, args[1:])
	}
	if len(args) > 0 && args[0] == rawServeCommand {
		return serveRawHere(ctx, args[1:])
	}
	s := settings{out: os.Stdout, progress: os.Stderr}
	if err := s.parse(args); err != nil {
		return err
	}
	return measure(ctx, &s)
}
