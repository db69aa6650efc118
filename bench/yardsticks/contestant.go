package main

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"mooncake/bench/calls"
	"mooncake/interop"
)

// ours names this project's daemons among the contestants, base the one that all others are compared with.
const (
	ours = "ours"
	base = "13"
)

// contestant is a master that can be started.
type contestant struct {
	name    string
	release interop.Release // 0 is not a wheel's
	command []string        // of one that was given as a command
	segment []string        // command of a segment daemon that joins a master of ours
}

// running is a master that was started.
type running struct {
	contestant
	process *interop.Process
	rpc     string
	admin   string
	grpc    string // ours only
}

// start starts the master; flags are further ones.
func (c contestant) start(ctx context.Context, rig *interop.Rig, o interop.MasterOptions) (*running, error) {
	if c.command == nil {
		o.Release = c.release
		m, err := rig.StartMaster(o)
		if err != nil {
			return nil, err
		}
		return &running{c, m.Process, m.RPC, m.Admin, m.GRPC}, nil
	}
	ports, err := rig.TakePorts(2)
	if err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("{rpc}", strconv.Itoa(ports[0]), "{met}", strconv.Itoa(ports[1]))
	var args []string
	for _, word := range c.command {
		args = append(args, fill.Replace(word))
	}
	args = append(args, o.Flags...)
	p, err := rig.Start(c.name, exec.Command(args[0], args[1:]...))
	if err != nil {
		return nil, err
	}
	address := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	return &running{contestant: c, process: p, rpc: address(ports[0]), admin: address(ports[1])}, listening(ctx, p, address(ports[0]))
}

// startLimit is how long a master may take until it listens.
const startLimit = 40 * time.Second

// listening waits until somebody takes connections there.
func listening(ctx context.Context, p *interop.Process, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		var dialer net.Dialer
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on %s: %w", p.Name, address, err)
		case <-p.Done():
			return fmt.Errorf("%s ended; its output ends:\n%s", p.Name, p.Log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopGrace is how long a master may take to leave: freeing millions of objects takes the original a while.
const stopGrace = 60 * time.Second

// stop ends the master.
func (r *running) stop() error { return r.process.Stop(stopGrace) }

// seat is a running master with a session.
type seat struct {
	*running
	*calls.Session
}

// sit starts a master for a contestant and opens a session with it.
func (b *bench) sit(ctx context.Context, c contestant, o interop.MasterOptions, cfg calls.Config) (*seat, error) {
	r, err := c.start(ctx, b.rig, o)
	if err != nil {
		return nil, err
	}
	b.sessions++
	cfg.Address, cfg.Pid, cfg.Seed = r.rpc, r.process.Pid(), b.sessions
	s, err := calls.Open(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return &seat{r, s}, nil
}

// sitAll does so for all contestants; leave ends them.
func (b *bench) sitAll(ctx context.Context, o interop.MasterOptions, cfg calls.Config) (all []*seat, leave func() error, err error) {
	leave = func() error {
		var first error
		for _, s := range all {
			if err := s.leave(); err != nil && first == nil {
				first = err
			}
		}
		all = nil
		return first
	}
	for _, c := range b.contestants {
		s, err := b.sit(ctx, c, o, cfg)
		if err != nil {
			_ = leave() // the first error counts
			return nil, nil, err
		}
		all = append(all, s)
	}
	return all, leave, nil
}

// leave ends session and master.
func (s *seat) leave() error {
	err := s.Close()
	if stopped := s.stop(); err == nil {
		err = stopped
	}
	return err
}
