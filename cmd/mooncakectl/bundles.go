package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// bundleView is a bundle as it is printed.
type bundleView struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Workload  string `json:"workload"`
	Group     string `json:"group"`
	Writer    string `json:"writer"`
	Keys      uint64 `json:"keys"`
	LostKeys  uint64 `json:"lost_keys"`
	Bytes     uint64 `json:"bytes"`
	Allocated uint64 `json:"allocated_bytes"`
	Reads     uint64 `json:"reads"`
	Evicted   bool   `json:"evicted"`
	Created   string `json:"created"`
	LastWrite string `json:"last_write"`
	Published string `json:"published"`
	LastRead  string `json:"last_read"`
	Reclaimed string `json:"reclaimed"`
}

func viewOfBundle(b *mooncakev1.Bundle) bundleView {
	return bundleView{
		b.GetId(), stateName(b.GetState()), b.GetWorkload(), b.GetGroup(), id(b.GetWriter()), b.GetKeys(), b.GetLostKeys(), b.GetBytes(), b.GetAllocatedBytes(), b.GetReads(),
		b.GetEvicted(), at(b.GetCreatedMs()), at(b.GetLastWriteMs()), at(b.GetPublishedMs()), at(b.GetLastReadMs()), at(b.GetReclaimedMs()),
	}
}

var bundleColumns = []column[bundleView]{
	{"BUNDLE", func(b bundleView) any { return quoted(b.ID) }},
	{"STATE", func(b bundleView) any { return b.State }},
	{"WORKLOAD", func(b bundleView) any { return b.Workload }},
	{"KEYS", func(b bundleView) any { return b.Keys }},
	{"LOST", func(b bundleView) any { return b.LostKeys }},
	{"BYTES", func(b bundleView) any { return size(b.Bytes) }},
	{"ALLOCATED", func(b bundleView) any { return size(b.Allocated) }},
	{"READS", func(b bundleView) any { return b.Reads }},
	{"CREATED", func(b bundleView) any { return b.Created }},
	{"PUBLISHED", func(b bundleView) any { return b.Published }},
}

func (e *env) bundles() *cobra.Command {
	cmd := &cobra.Command{Use: "bundles", Short: "rollouts: many objects that are one thing"}
	cmd.AddCommand(e.bundlesList(), e.bundlesShow(), e.bundlesCollect(), e.bundlesRemove(), e.bundlesWatch())
	return cmd
}

// allBundles lists bundles page by page, at most so many.
func (e *env) allBundles(ctx context.Context, f *mooncakev1.BundleFilter, most int) (rows []bundleView, more bool, err error) {
	for token := ""; ; {
		var page *mooncakev1.ListBundlesReply
		err := e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
			page, err = mooncakev1.NewBundlesClient(conn).List(ctx, &mooncakev1.ListBundlesRequest{Filter: f, PageToken: token})
			return err
		})
		if err != nil {
			return nil, false, err
		}
		for _, b := range page.GetBundles() {
			if len(rows) == most {
				return rows, true, nil
			}
			rows = append(rows, viewOfBundle(b))
		}
		if token = page.GetNextPageToken(); token == "" {
			return rows, false, nil
		}
	}
}

func (e *env) bundlesList() *cobra.Command {
	f := &mooncakev1.BundleFilter{}
	state, older, most := "", time.Duration(0), 1000
	cmd := &cobra.Command{
		Use: "ls", Short: "bundles in the order of their ids; ended ones for ten minutes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" {
				n, known := mooncakev1.BundleState_value["BUNDLE_STATE_"+state]
				if !known || n == 0 {
					return fmt.Errorf("--state=%s is no state of a bundle, as STAGING or PUBLISHED", state)
				}
				f.State = mooncakev1.BundleState(n)
			}
			f.OlderThanMs = older.Milliseconds()
			rows, more, err := e.allBundles(cmd.Context(), f, most)
			if err != nil {
				return err
			}
			if more {
				fmt.Fprintf(e.err, "there are more than %d: --limit\n", most)
			}
			return list(e, rows, bundleColumns...)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.Prefix, "prefix", "", "only ids that begin so")
	fs.StringVar(&f.Partition, "partition", "", "only this partition")
	fs.StringVar(&f.Group, "group", "", "only this group")
	fs.StringVar(&f.Workload, "workload", "", "only this workload")
	fs.StringVar(&state, "state", "", "only this state")
	fs.DurationVar(&older, "older_than", 0, "only those begun so long ago")
	fs.IntVar(&most, "limit", most, "most bundles to list")
	return cmd
}

// memberView is a member as it is printed.
type memberView struct {
	Name     string     `json:"name"`
	Size     uint64     `json:"size"`
	Complete bool       `json:"complete"`
	Copies   []copyView `json:"copies"`
}

func (e *env) bundlesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "a bundle with its members", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var reply *mooncakev1.GetReply
			err := e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
				reply, err = mooncakev1.NewBundlesClient(conn).Get(ctx, &mooncakev1.GetRequest{Tenant: e.flags.tenant, Id: args[0]})
				return err
			})
			if err != nil {
				return err
			}
			b := viewOfBundle(reply.GetBundle())
			var members []memberView
			for _, m := range reply.GetMembers() {
				v := memberView{Name: m.GetName(), Size: m.GetSize(), Complete: m.GetComplete(), Copies: []copyView{}}
				for _, p := range m.GetPlacements() {
					v.Copies = append(v.Copies, viewOfCopy(p))
				}
				members = append(members, v)
			}
			if e.json {
				return e.asJSON(struct {
					bundleView
					Members []memberView `json:"members"`
				}{b, members})
			}
			err = facts(e, b,
				fact{"bundle", b.ID}, fact{"state", b.State}, fact{"workload", b.Workload}, fact{"group", b.Group}, fact{"writer", b.Writer},
				fact{"keys", fmt.Sprintf("%d, %d lost", b.Keys, b.LostKeys)}, fact{"bytes", fmt.Sprintf("%s, %s with all copies", size(b.Bytes), size(b.Allocated))},
				fact{"created", b.Created}, fact{"last write", b.LastWrite}, fact{"published", b.Published}, fact{"last read", b.LastRead}, fact{"reclaimed", b.Reclaimed})
			if err != nil {
				return err
			}
			fmt.Fprintln(e.out)
			return list(e, members,
				column[memberView]{"MEMBER", func(m memberView) any { return m.Name }},
				column[memberView]{"SIZE", func(m memberView) any { return m.Size }},
				column[memberView]{"COMPLETE", func(m memberView) any { return m.Complete }},
				column[memberView]{"COPIES", func(m memberView) any { return len(m.Copies) }},
			)
		},
	}
}

func (e *env) bundlesCollect() *cobra.Command {
	return e.destructive(&cobra.Command{
		Use: "gc", Short: "reclaim what nobody will finish or read", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []bundleView
			err := e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
				reply, err := mooncakev1.NewBundlesClient(conn).Collect(ctx, &mooncakev1.CollectRequest{DryRun: !e.apply})
				rows = nil
				for _, b := range reply.GetBundles() {
					rows = append(rows, viewOfBundle(b))
				}
				return err
			})
			if err != nil {
				return err
			}
			if err := list(e, rows, bundleColumns...); err != nil || e.json {
				return err
			}
			if e.apply {
				fmt.Fprintf(e.out, "done: %d bundles reclaimed\n", len(rows))
			} else {
				fmt.Fprintf(e.out, "would reclaim %d bundles; --apply does it\n", len(rows))
			}
			return nil
		},
	})
}

func (e *env) bundlesRemove() *cobra.Command {
	return e.destructive(&cobra.Command{
		Use: "rm ID", Short: "reclaim a bundle whatever its state", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.do("reclaim "+args[0], func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					_, err := mooncakev1.NewBundlesClient(conn).Reclaim(ctx, &mooncakev1.ReclaimRequest{Tenant: e.flags.tenant, Id: args[0]})
					return err
				})
			})
		},
	})
}

func (e *env) bundlesWatch() *cobra.Command {
	count := 0
	cmd := &cobra.Command{
		Use: "watch [PREFIX]", Short: "bundles as they are published or withdrawn, those that are there first", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := e.connect()
			if err != nil {
				return err
			}
			prefix, seen := "", 0
			if len(args) == 1 {
				prefix = args[0]
			}
			var failed error
			err = c.WatchBundles(cmd.Context(), prefix, func(id string, withdrawn bool) bool {
				word := "published"
				if withdrawn {
					word = "withdrawn"
				}
				if e.json {
					failed = e.asJSON(map[string]string{"id": id, "event": word})
				} else {
					_, failed = fmt.Fprintf(e.out, "%s  %s\n", word, quoted(id))
				}
				seen++
				return failed == nil && seen != count
			})
			if failed != nil {
				return failed
			}
			if cmd.Context().Err() != nil {
				return nil // interrupted, as it has to be
			}
			return err
		},
	}
	cmd.Flags().IntVar(&count, "count", count, "events after which to end; 0 is until it is interrupted")
	return cmd
}

// totalView is a sum as it is printed.
type totalView struct {
	State     string `json:"state"`
	Workload  string `json:"workload"`
	Bundles   uint64 `json:"bundles"`
	Keys      uint64 `json:"keys"`
	Bytes     uint64 `json:"bytes"`
	Allocated uint64 `json:"allocated_bytes"`
}

func (e *env) printTotals(ctx context.Context) error {
	var rows []totalView
	err := e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewBundlesClient(conn).Totals(ctx, &mooncakev1.TotalsRequest{})
		rows = nil
		for _, t := range reply.GetTotals() {
			rows = append(rows, totalView{stateName(t.GetState()), t.GetWorkload(), t.GetBundles(), t.GetKeys(), t.GetBytes(), t.GetAllocatedBytes()})
		}
		return err
	})
	if err != nil {
		return err
	}
	return list(e, rows,
		column[totalView]{"BUNDLES", func(t totalView) any { return t.State }},
		column[totalView]{"WORKLOAD", func(t totalView) any { return t.Workload }},
		column[totalView]{"COUNT", func(t totalView) any { return t.Bundles }},
		column[totalView]{"KEYS", func(t totalView) any { return t.Keys }},
		column[totalView]{"BYTES", func(t totalView) any { return size(t.Bytes) }},
		column[totalView]{"ALLOCATED", func(t totalView) any { return size(t.Allocated) }},
	)
}
