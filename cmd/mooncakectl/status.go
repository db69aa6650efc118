package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// statusView is a master as it is printed.
type statusView struct {
	Master     string            `json:"master"`
	Role       string            `json:"role"`
	State      string            `json:"state"`
	Ready      bool              `json:"ready"`
	Promotable bool              `json:"promotable"`
	Leader     string            `json:"leader,omitempty"`
	LeaderGRPC string            `json:"leader_grpc,omitempty"`
	Term       int64             `json:"term,omitempty"`
	Applied    uint64            `json:"applied"`
	Newest     uint64            `json:"newest"`
	Unacked    uint64            `json:"unacked"`
	NoSpace    bool              `json:"etcd_full"`
	Version    string            `json:"version"`
	HTTP       string            `json:"http"`
	Error      string            `json:"error,omitempty"`
	Keys       uint64            `json:"keys"`
	OpenKeys   uint64            `json:"open_keys"`
	Bundles    uint64            `json:"bundles"`
	Segments   uint64            `json:"segments"`
	Capacity   uint64            `json:"capacity_bytes"`
	Allocated  uint64            `json:"allocated_bytes"`
	Quarantine uint64            `json:"quarantined_bytes"`
	Clients    map[string]uint64 `json:"clients,omitempty"`
	Evicted    uint64            `json:"evicted_keys"`
	Refusals   map[string]uint64 `json:"put_refusals,omitempty"`
}

func viewOfStatus(master string, r *mooncakev1.StatusReply) statusView {
	h, to := r.GetHoldings(), r.GetLeader()
	v := statusView{
		Master: master, Role: r.GetRole(), State: r.GetState(), Ready: r.GetReady(), Promotable: r.GetPromotable(), Leader: to.GetRpcAddress(),
		LeaderGRPC: to.GetGrpcAddress(), Term: to.GetTerm(), Applied: r.GetApplied(), Newest: r.GetNewest(), Unacked: r.GetUnacked(), NoSpace: r.GetNoSpace(),
		Version: r.GetVersion(), HTTP: r.GetHttpAddress(), Keys: h.GetKeys(), OpenKeys: h.GetOpenKeys(), Bundles: h.GetBundles(), Segments: h.GetSegments(),
		Capacity: h.GetCapacityBytes(), Allocated: h.GetAllocatedBytes(), Quarantine: h.GetQuarantinedBytes(), Evicted: h.GetEvictedKeys(), Refusals: h.GetPutRefusals(),
	}
	if h != nil {
		v.Clients = map[string]uint64{"active": h.GetActiveClients(), "suspect": h.GetSuspectClients(), "suspected": h.GetSuspectedClients(), "lost": h.GetLostClients()}
	}
	return v
}

// ownStatus asks one master about itself, standby or not.
func (e *env) ownStatus(ctx context.Context, master string) (*mooncakev1.StatusReply, error) {
	c, err := e.connectTo([]string{master})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := e.short(ctx)
	defer cancel()
	var reply *mooncakev1.StatusReply
	err = c.Ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		reply, err = mooncakev1.NewAdminClient(conn).Status(ctx, &mooncakev1.StatusRequest{})
		return err
	})
	return reply, err
}

// statusAnswer is what one master says about itself.
type statusAnswer struct {
	master string
	reply  *mooncakev1.StatusReply
	err    error
}

// askAll asks masters about themselves, all at a time: however many of them are silent, it takes no longer than for one.
func (e *env) askAll(ctx context.Context, masters []string) []statusAnswer {
	out := make([]statusAnswer, len(masters))
	var group sync.WaitGroup
	for i, master := range masters {
		group.Go(func() {
			reply, err := e.ownStatus(ctx, master)
			out[i] = statusAnswer{master, reply, err}
		})
	}
	group.Wait()
	return out
}

// leading finds the master that leads, and what it says.
func (e *env) leading(ctx context.Context) (string, *mooncakev1.StatusReply, error) {
	if len(e.flags.list()) == 0 {
		_, err := e.connect()
		return "", nil, err
	}
	var last error
	asked := map[string]bool{}
	for round := e.flags.list(); len(round) > 0; {
		var next []string
		for _, a := range e.askAll(ctx, round) {
			asked[a.master] = true
			switch {
			case a.err != nil:
				last = a.err
			case a.reply.GetRole() == "leader" && a.reply.GetReady():
				return a.master, a.reply, nil
			default:
				last = fmt.Errorf("%s is %s and %s, and nobody else is known", a.master, a.reply.GetRole(), a.reply.GetState())
				if to := a.reply.GetLeader().GetGrpcAddress(); to != "" {
					next = append(next, to)
				}
			}
		}
		round = slices.DeleteFunc(next, func(master string) bool { return asked[master] })
	}
	return "", nil, last
}

func (e *env) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "what leads, and what it holds", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.printStatus(cmd.Context()) },
	}
}

func (e *env) printStatus(ctx context.Context) error {
	master, r, err := e.leading(ctx)
	if err != nil {
		return err
	}
	v := viewOfStatus(master, r)
	lines := []fact{
		{"master", v.Master},
		{"version", v.Version},
		{"role", v.Role + ", " + v.State},
		{"admin http", v.HTTP},
		{"segments", v.Segments},
		{"memory", fmt.Sprintf("%s of %s (%s), %s in quarantine", size(v.Allocated), size(v.Capacity), percent(v.Allocated, v.Capacity), size(v.Quarantine))},
		{"objects", fmt.Sprintf("%d, %d of them being written", v.Keys, v.OpenKeys)},
		{"bundles", v.Bundles},
		{"clients", fmt.Sprintf("%d active, %d suspect, %d suspected, %d lost", v.Clients["active"], v.Clients["suspect"], v.Clients["suspected"], v.Clients["lost"])},
		{"evicted", fmt.Sprintf("%d objects since the start", v.Evicted)},
	}
	if v.Leader != "" {
		lines = append(lines, fact{"term", fmt.Sprintf("%d of %s", v.Term, v.Leader)}, fact{"log", fmt.Sprintf("%d applied, %d not acknowledged yet", v.Applied, v.Unacked)})
	}
	for _, reason := range sortedKeys(v.Refusals) {
		lines = append(lines, fact{"refused", fmt.Sprintf("%d puts: %s", v.Refusals[reason], reason)})
	}
	return facts(e, v, lines...)
}

func (e *env) top() *cobra.Command {
	every, count := 2*time.Second, 0
	cmd := &cobra.Command{
		Use: "top", Short: "status, segments and bundles, again and again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond {
				return fmt.Errorf("--every=%s is below 100ms", every)
			}
			for n := 1; ; n++ {
				if err := e.topOnce(cmd.Context()); err != nil {
					return err
				}
				if n == count {
					return nil
				}
				timer := time.NewTimer(every)
				select {
				case <-timer.C:
				case <-cmd.Context().Done():
					timer.Stop()
					return nil
				}
				fmt.Fprintln(e.out)
			}
		},
	}
	cmd.Flags().DurationVar(&every, "every", every, "time between two rounds")
	cmd.Flags().IntVar(&count, "count", count, "rounds; 0 is until it is interrupted")
	return cmd
}

func (e *env) topOnce(ctx context.Context) error {
	if e.json {
		return e.printStatus(ctx)
	}
	for i, part := range []func(context.Context) error{e.printStatus, e.printSegments, e.printTotals} {
		if i > 0 {
			fmt.Fprintln(e.out)
		}
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) ha() *cobra.Command {
	cmd := &cobra.Command{Use: "ha", Short: "the masters of the cluster"}
	cmd.AddCommand(e.haTransfer(), &cobra.Command{
		Use: "status", Short: "every master named by --master, and who leads", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []statusView
			for _, a := range e.askAll(cmd.Context(), e.flags.list()) {
				v := viewOfStatus(a.master, a.reply)
				if a.err != nil {
					v.Role, v.State, v.Error = "unknown", "unreachable", e.explain(a.err)
					if why := silence(a.master); why != "" {
						v.Error = why
					}
				}
				rows = append(rows, v)
			}
			return list(e, rows,
				column[statusView]{"MASTER", func(v statusView) any { return v.Master }},
				column[statusView]{"ROLE", func(v statusView) any { return v.Role }},
				column[statusView]{"STATE", func(v statusView) any { return v.State }},
				column[statusView]{"TERM", func(v statusView) any { return v.Term }},
				column[statusView]{"LEADER", func(v statusView) any { return v.Leader }},
				column[statusView]{"APPLIED", func(v statusView) any { return fmt.Sprintf("%d of %d", v.Applied, max(v.Newest, v.Applied)) }},
				column[statusView]{"NOTE", haNote},
			)
		},
	})
	return cmd
}

func haNote(v statusView) any {
	switch {
	case v.Error != "":
		return v.Error
	case v.NoSpace:
		return "etcd is full: nothing is acknowledged"
	case v.Role == "standby" && !v.Promotable:
		return "could not lead at the moment"
	}
	return ""
}
