// Command run executes a command in an emulated machine with RDMA devices, for trying things by hand.
//
//	go run ./interop/vm/run [-nodes N] [-limit 3m] [-v] COMMAND [ARGUMENT...]
//
// Exit status: the command's own; 124 when time ran out, 125 when the machine failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"mooncake/interop"
	"mooncake/interop/vm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var job vm.Job
	flag.IntVar(&job.Nodes, "nodes", vm.DefaultNodes, "RDMA devices rxe0, rxe1, ...")
	flag.IntVar(&job.CPUs, "cpus", 0, "processors; 0 means one less than the host has, at most 4")
	flag.IntVar(&job.MemMiB, "mem", vm.DefaultMemMiB, "MiB of memory")
	flag.DurationVar(&job.Limit, "limit", vm.DefaultLimit, "time for everything, less what the host keeps the machine waiting")
	flag.StringVar(&job.Accel, "accel", "auto", "auto, kvm or tcg")
	verbose := flag.Bool("v", false, "show the console of the machine at the end")
	flag.Parse()
	job.Command, job.Env = flag.Args(), os.Environ()
	status, err := run(ctx, job, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		status = 125
		if errors.Is(err, vm.ErrLimit) {
			status = 124
		}
	}
	os.Exit(status)
}

func run(ctx context.Context, job vm.Job, verbose bool) (int, error) {
	machine, err := interop.GuestMachine(os.Stderr)
	if err != nil {
		return 0, err
	}
	if job.Dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	out := vm.Output{Out: os.Stdout, Err: os.Stderr}
	if verbose {
		out.Console = os.Stderr
	}
	return machine.Run(ctx, job, out)
}
