package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/units"
)

// finding is what a check found.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, mistake, advice, or unknown: it could not be looked at
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// patient is what doctor looks at.
type patient struct {
	wish     doctorWish
	host     hostFacts
	why      map[string]string // masters that do not answer
	status   *mooncakev1.StatusReply
	segments []segmentView
	clients  []clientView
	bundles  []bundleView
	resolve  func(ctx context.Context, host string) ([]string, error)
}

// doctorWish is what the operator says about this host.
type doctorWish struct {
	devices      []string
	segmentBytes uint64
	stepBytes    uint64
}

// check looks at one kind of mistake.
type check struct {
	name string
	look func(ctx context.Context, p *patient) []finding
}

var checks = []check{
	{"master", checkMaster},
	{"loopback-address", checkLoopback},
	{"unresolvable-address", checkResolve},
	{"ephemeral-ports", checkPorts},
	{"mixed-releases", checkReleases},
	{"trainer-segments", checkTrainers},
	{"segment-size", checkSizes},
	{"rdma-missing", checkDeviceThere},
	{"rdma-down", checkDeviceUp},
	{"rdma-fabric", checkFabric},
	{"memlock", checkMemlock},
	{"cgroup-memory", checkCgroup},
}

func mistake(remedy, format string, args ...any) []finding {
	return []finding{{State: "mistake", Found: fmt.Sprintf(format, args...), Remedy: remedy}}
}

func fine(format string, args ...any) []finding {
	return []finding{{State: "ok", Found: fmt.Sprintf(format, args...)}}
}

func unknown(format string, args ...any) []finding {
	return []finding{{State: "unknown", Found: fmt.Sprintf(format, args...)}}
}

func (e *env) doctor() *cobra.Command {
	devices, segment, step := "", "", ""
	cmd := &cobra.Command{
		Use: "doctor", Short: "look for the mistakes that clusters are commonly set up with, and say what to do",
		Long: "Looks at the cluster, and at this host for what only the host can tell: run it on every host that gives memory. Ends with 2 when it finds a mistake.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := &patient{resolve: lookupHost}
			for _, f := range []struct {
				flag, text string
				to         *uint64
			}{{"segment_size", segment, &p.wish.segmentBytes}, {"step_bytes", step, &p.wish.stepBytes}} {
				if f.text == "" {
					continue
				}
				n, err := units.ParseSize(f.text)
				if err != nil {
					return fmt.Errorf("--%s: %w", f.flag, err)
				}
				*f.to = n
			}
			for name := range strings.SplitSeq(devices, ",") {
				if name = strings.TrimSpace(name); name != "" {
					p.wish.devices = append(p.wish.devices, name)
				}
			}
			e.examine(cmd.Context(), p)
			return e.report(cmd.Context(), p)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&devices, "device_names", "", "RDMA devices that this host is to use, with commas between; not given: RDMA is not looked at")
	fs.StringVar(&segment, "segment_size", "", "memory that this host is to give, as 64GiB; not given: that of its segments in the pool")
	fs.StringVar(&step, "step_bytes", "", "bytes of all bundles of one training step; not given: what the bundles in the pool suggest")
	return cmd
}

// examine gathers what the checks look at.
func (e *env) examine(ctx context.Context, p *patient) {
	p.host = readHost(e.hostRoot)
	_, status, err := e.leading(ctx)
	if p.status = status; err != nil {
		if p.why = unreachable(e.flags.list()); len(p.why) == 0 {
			p.why[e.flags.masters] = e.explain(err)
		}
		return
	}
	p.why = map[string]string{}
	for _, part := range []func() error{
		func() (err error) { p.segments, err = e.listSegments(ctx); return err },
		func() (err error) { p.clients, err = e.listClients(ctx); return err },
		func() (err error) { p.bundles, _, err = e.allBundles(ctx, nil, 100_000); return err },
	} {
		if err := part(); err != nil {
			p.why[e.flags.masters] = e.explain(err)
			return
		}
	}
}

// report carries out the checks.
func (e *env) report(ctx context.Context, p *patient) error {
	var rows []finding
	bad := false
	for _, c := range checks {
		for _, f := range c.look(ctx, p) {
			f.Check = c.name
			bad = bad || f.State == "mistake"
			rows = append(rows, f)
		}
	}
	if e.json {
		if err := e.asJSON(rows); err != nil {
			return err
		}
	} else {
		for _, f := range rows {
			fmt.Fprintf(e.out, "%-7s  %-20s  %s\n", f.State, f.Check, f.Found)
			if f.Remedy != "" {
				fmt.Fprintf(e.out, "%31s  -> %s\n", "", f.Remedy)
			}
		}
	}
	if bad {
		return errFound
	}
	return nil
}
