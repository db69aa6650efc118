// Command demo starts both daemons and hands rollout bundles from one unchanged client to another.
//
//	go run ./interop/demo          builds, starts, writes, reads, compares, reclaims, stops
//	go run ./interop/demo -serve   starts both daemons and keeps them until interrupted
//
// Everything stays on 127.0.0.1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"mooncake/internal/units"
	"mooncake/interop"
)

// usual are the ports of the two daemons unless somebody holds them.
var usual = [3]int{50051, 50052, 9300}

// uses says what each port is for.
var uses = [3]string{"clients", "the master's HTTP", "the segment daemon's HTTP"}

// settings are the command line.
type settings struct {
	serve    bool
	binaries string
	size     string
	ports    [3]int
	out      io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := settings{ports: usual, out: os.Stdout}
	flag.BoolVar(&s.serve, "serve", false, "start the daemons and keep them in the foreground")
	flag.StringVar(&s.binaries, "binaries", "", "folder with the daemons; empty builds them")
	flag.StringVar(&s.size, "size", "512MiB", "size of the segment: 2gb, 512MB, 1GiB or bytes")
	flag.Parse()
	err := start(ctx, s)
	if ctx.Err() != nil && !s.serve {
		err = errors.New("interrupted; everything it started is stopped")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// cluster is what the demo has started.
type cluster struct {
	rig     *interop.Rig
	master  *interop.Master
	segment *interop.Segment
	out     io.Writer
}

func start(ctx context.Context, s settings) (err error) {
	size, err := units.ParseSize(s.size)
	if err != nil {
		return fmt.Errorf("-size: %w", err)
	}
	rig, err := interop.NewRig("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	// An interrupt stops the processes; whoever waits for them fails then and comes back here.
	defer context.AfterFunc(ctx, func() { _ = rig.Close() })()
	if rig.Binaries = s.binaries; s.binaries == "" {
		fmt.Fprintln(s.out, "Building both daemons ...")
		rig.Binaries = filepath.Join(rig.Dir, "bin")
		if err := interop.BuildDaemons(ctx, rig.Binaries, false, "mooncake-master", "mooncake-segment"); err != nil {
			return err
		}
	}
	if s.serve {
		rig.Output = os.Stderr
	}
	c := &cluster{rig: rig, out: s.out}
	if err := c.start(s.ports, int64(size)); err != nil {
		return err
	}
	if s.serve {
		return c.serve(ctx)
	}
	return c.show()
}

// start brings both daemons up and prints where they are.
func (c *cluster) start(ports [3]int, bytes int64) (err error) {
	for i, port := range ports {
		if ports[i], err = c.choose(port, uses[i]); err != nil {
			return err
		}
	}
	if c.master, err = c.rig.StartMaster(interop.MasterOptions{RPCPort: ports[0], AdminPort: ports[1]}); err != nil {
		return err
	}
	options := interop.SegmentOptions{Master: c.master.RPC, SizeBytes: bytes, HTTPPort: ports[2]}
	if c.segment, err = c.rig.StartSegment(options); err != nil {
		return err
	}
	mounted, err := c.master.WaitSegments(1, 30*time.Second)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "mooncake-master   pid %-7d  clients: %s   http://%s/metrics\n", c.master.Pid(), c.master.RPC, c.master.Admin)
	fmt.Fprintf(c.out, "mooncake-segment  pid %-7d  %s at %s   http://%s/metrics\n",
		c.segment.Pid(), mib(bytes), mounted[0].Endpoint, c.segment.HTTP)
	return nil
}

// choose takes the usual port, or another one when somebody holds it, and says who.
func (c *cluster) choose(port int, use string) (int, error) {
	by, held := interop.PortHeld(port)
	if !held {
		return port, nil
	}
	other, err := c.rig.TakePorts(1)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(c.out, "Port %d (%s) is held by %s; taking %d instead.\n", port, use, by, other[0])
	return other[0], nil
}

// serve keeps the daemons until an interrupt, or until one of them ends.
func (c *cluster) serve(ctx context.Context) error {
	fmt.Fprintf(c.out, "Serving. A client's settings: master_server_addr=%s metadata_server=P2PHANDSHAKE protocol=tcp. Ctrl-C ends it.\n",
		c.master.RPC)
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.out, "Stopping.")
		return nil
	case <-c.master.Done():
		return errors.New("mooncake-master has ended")
	case <-c.segment.Done():
		return errors.New("mooncake-segment has ended")
	}
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
