package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/units"
)

// workloadView is a workload as it is printed.
type workloadView struct {
	Name     string            `json:"name"`
	Prefixes []string          `json:"prefixes"`
	Tenants  []string          `json:"tenants"`
	Soft     uint64            `json:"soft_bytes"`
	Hard     uint64            `json:"hard_bytes"`
	Reserved uint64            `json:"reserved_bytes"`
	Evict    string            `json:"evict"`
	Unread   string            `json:"unread"`
	TTLMs    int64             `json:"ttl_ms"`
	Priority int32             `json:"priority"`
	Keys     uint64            `json:"keys"`
	Bytes    uint64            `json:"bytes"`
	Evicted  uint64            `json:"evicted_bytes"`
	Refused  map[string]uint64 `json:"put_refusals"`
}

func (e *env) workloads() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workloads", Short: "rules that keep parts of the objects apart, and what each holds", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.printWorkloads(cmd.Context()) },
	}
	cmd.AddCommand(e.workloadSet(), e.destructive(&cobra.Command{
		Use: "rm NAME", Short: "take a rule away", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.do("take the rule of workload "+args[0]+" away", func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					_, err := mooncakev1.NewWorkloadsClient(conn).Delete(ctx, &mooncakev1.DeleteWorkloadRequest{Name: args[0]})
					return err
				})
			})
		},
	}))
	return cmd
}

func (e *env) printWorkloads(ctx context.Context) error {
	var reply *mooncakev1.ListWorkloadsReply
	err := e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		reply, err = mooncakev1.NewWorkloadsClient(conn).List(ctx, &mooncakev1.ListWorkloadsRequest{})
		return err
	})
	if err != nil {
		return err
	}
	rules := map[string]*mooncakev1.Workload{}
	for _, w := range reply.GetWorkloads() {
		rules[w.GetName()] = w
	}
	var rows []workloadView
	for _, u := range reply.GetUse() {
		w := rules[u.GetName()]
		rows = append(rows, workloadView{
			u.GetName(), w.GetPrefixes(), w.GetTenants(), w.GetSoftBytes(), w.GetHardBytes(), w.GetReservedBytes(), w.GetEvict(), w.GetUnread(), w.GetTtlMs(), w.GetPriority(),
			u.GetKeys(), u.GetBytes(), u.GetEvictedBytes(), u.GetPutRefusals(),
		})
	}
	bound := func(n uint64) any {
		if n == 0 {
			return ""
		}
		return size(n)
	}
	return list(e, rows,
		column[workloadView]{"WORKLOAD", func(w workloadView) any {
			if w.Name == "" {
				return "(others)"
			}
			return w.Name
		}},
		column[workloadView]{"PREFIXES", func(w workloadView) any { return strings.Join(w.Prefixes, " ") }},
		column[workloadView]{"KEYS", func(w workloadView) any { return w.Keys }},
		column[workloadView]{"BYTES", func(w workloadView) any { return size(w.Bytes) }},
		column[workloadView]{"SHARE", func(w workloadView) any { return bound(w.Soft) }},
		column[workloadView]{"LIMIT", func(w workloadView) any { return bound(w.Hard) }},
		column[workloadView]{"RESERVED", func(w workloadView) any { return bound(w.Reserved) }},
		column[workloadView]{"EVICT", func(w workloadView) any { return w.Evict }},
		column[workloadView]{"UNREAD", func(w workloadView) any { return w.Unread }},
		column[workloadView]{"EVICTED", func(w workloadView) any { return size(w.Evicted) }},
	)
}

func (e *env) workloadSet() *cobra.Command {
	w := &mooncakev1.Workload{}
	soft, hard, reserved, ttl := "", "", "", time.Duration(0)
	cmd := e.destructive(&cobra.Command{
		Use: "set NAME", Short: "add a rule, or replace the one of its name", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, f := range []struct {
				flag, text string
				to         *uint64
			}{{"soft", soft, &w.SoftBytes}, {"hard", hard, &w.HardBytes}, {"reserved", reserved, &w.ReservedBytes}} {
				if f.text == "" {
					continue
				}
				n, err := units.ParseSize(f.text)
				if err != nil {
					return fmt.Errorf("--%s: %w", f.flag, err)
				}
				*f.to = n
			}
			w.Name, w.TtlMs = args[0], ttl.Milliseconds()
			return e.do(fmt.Sprintf("set workload %s: prefixes %q, tenants %q, share %d, limit %d, reserved %d, evict %q, unread %q, ttl %s, priority %d",
				w.Name, w.Prefixes, w.Tenants, w.SoftBytes, w.HardBytes, w.ReservedBytes, w.Evict, w.Unread, ttl, w.Priority), func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					_, err := mooncakev1.NewWorkloadsClient(conn).Set(ctx, &mooncakev1.SetWorkloadRequest{Workload: w})
					return err
				})
			})
		},
	})
	fs := cmd.Flags()
	fs.StringSliceVar(&w.Prefixes, "prefix", nil, "keys that begin so")
	fs.StringSliceVar(&w.Tenants, "for_tenant", nil, "what these tenants write")
	fs.StringVar(&soft, "soft", "", "share, as 10GiB: with more it loses first")
	fs.StringVar(&hard, "hard", "", "the most it may have")
	fs.StringVar(&reserved, "reserved", "", "room that nobody else gets")
	fs.StringVar(&w.Evict, "evict", "lru", "what may go: lru, never or bundle")
	fs.StringVar(&w.Unread, "unread", "drop", "published bundles that nobody read: drop or keep")
	fs.DurationVar(&ttl, "ttl", 0, "time that an object lives; 0 is for ever")
	fs.Int32Var(&w.Priority, "priority", 0, "the lowest loses first among those above their share")
	return cmd
}
