// Command mooncakectl looks into a Mooncake cluster and works on it: over gRPC with the master that leads, and on the host for
// what only the host can tell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mooncake/client"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// env is what every sub-command has.
type env struct {
	in       io.Reader
	out, err io.Writer
	flags    connectFlags
	json     bool
	apply    bool
	hostRoot string // "/" but in tests
	client   *client.Client
}

// errFound says that doctor found something: the exit code is 2, and there is nothing more to say.
var errFound = errors.New("mistakes were found")

// run is the whole program but for the exit: it returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	return runOn(ctx, "/", args, in, out, errs)
}

func runOn(ctx context.Context, hostRoot string, args []string, in io.Reader, out, errs io.Writer) int {
	e := &env{in: in, out: out, err: errs, hostRoot: hostRoot}
	root := e.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if e.client != nil {
		err = errors.Join(err, e.client.Close())
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFound):
		return 2
	}
	fmt.Fprintf(errs, "ERROR: %s\n", e.explain(err))
	return 1
}

// root makes the command with everything below it.
func (e *env) root() *cobra.Command {
	format := "table"
	root := &cobra.Command{
		Use: "mooncakectl", Short: "look into a Mooncake cluster and work on it", Version: version, SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			switch format {
			case "table", "json":
				e.json = format == "json"
				return nil
			}
			return fmt.Errorf("-o=%s is neither table nor json", format)
		},
	}
	fs := root.PersistentFlags()
	fs.StringVarP(&format, "output", "o", format, "how to print: table or json")
	e.flags.add(fs)
	root.AddCommand(e.status(), e.top(), e.segments(), e.segment(), e.clients(), e.objects(), e.bundles(), e.workloads(), e.drain(), e.healing(), e.rebalance(), e.tasks(), e.integrity(), e.slow(), e.snapshot(), e.ha(), e.bench(), e.doctor(), e.man())
	return root
}

// destructive gives a command the flag without which it only tells what it would do.
func (e *env) destructive(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&e.apply, "apply", false, "do it; without this flag it is only told what would be done")
	cmd.Short += " (only told without --apply)"
	return cmd
}

// deedView is what was done, or would be, as it is printed.
type deedView struct {
	Deed string `json:"deed"`
	Done bool   `json:"done"`
	Job  string `json:"job,omitempty"` // what goes on after the call
}

// do says what is done, or would be.
func (e *env) do(what string, deed func() error) error {
	return e.begin(what, func() (string, error) { return "", deed() })
}

// begin is do for what goes on as a job of the cluster, which is named.
func (e *env) begin(what string, deed func() (job string, err error)) error {
	v := deedView{Deed: what}
	if e.apply {
		var err error
		if v.Job, err = deed(); err != nil {
			return err
		}
		v.Done = true
	}
	switch {
	case e.json:
		return e.asJSON(v)
	case !v.Done:
		fmt.Fprintf(e.out, "would %s; --apply does it\n", what)
		return nil
	case v.Job != "":
		fmt.Fprintf(e.out, "job %s\n", v.Job)
	}
	fmt.Fprintf(e.out, "done: %s\n", what)
	return nil
}

// short bounds a call that has no bytes to move.
func (e *env) short(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, e.flags.timeout)
}

// defaultTimeout lets a call that nobody answers end within 5 s.
const defaultTimeout = 3 * time.Second
