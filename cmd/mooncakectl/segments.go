package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/wire"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// segmentView is a segment as it is printed.
type segmentView struct {
	Name        string `json:"name"`
	ID          string `json:"id"`
	Client      string `json:"client"`
	Endpoint    string `json:"endpoint"`
	Protocol    string `json:"protocol"`
	Size        uint64 `json:"size"`
	Used        uint64 `json:"used"`
	Quarantined uint64 `json:"quarantined"`
	LargestFree uint64 `json:"largest_free"`
	Copies      uint64 `json:"copies"`
	State       string `json:"state"`
	Stage       string `json:"stage"`
}

func (e *env) listSegments(ctx context.Context) (rows []segmentView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewSegmentsClient(conn).List(ctx, &mooncakev1.ListSegmentsRequest{})
		rows = nil
		for _, s := range reply.GetSegments() {
			rows = append(rows, segmentView{
				s.GetName(), id(s.GetId()), id(s.GetClient()), s.GetEndpoint(), s.GetProtocol(), s.GetSize(), s.GetUsed(), s.GetQuarantined(), s.GetLargestFree(),
				s.GetCopies(), s.GetState(), s.GetStage(),
			})
		}
		return err
	})
	return rows, err
}

func (e *env) printSegments(ctx context.Context) error {
	rows, err := e.listSegments(ctx)
	if err != nil {
		return err
	}
	return list(e, rows,
		column[segmentView]{"SEGMENT", func(s segmentView) any { return s.Name }},
		column[segmentView]{"ENDPOINT", func(s segmentView) any { return s.Endpoint }},
		column[segmentView]{"PROTOCOL", func(s segmentView) any { return s.Protocol }},
		column[segmentView]{"SIZE", func(s segmentView) any { return size(s.Size) }},
		column[segmentView]{"USED", func(s segmentView) any { return size(s.Used) }},
		column[segmentView]{"FILL", func(s segmentView) any { return percent(s.Used, s.Size) }},
		column[segmentView]{"LARGEST FREE", func(s segmentView) any { return size(s.LargestFree) }},
		column[segmentView]{"COPIES", func(s segmentView) any { return s.Copies }},
		column[segmentView]{"STATE", func(s segmentView) any { return s.State }},
		column[segmentView]{"CLIENT IS", func(s segmentView) any { return s.Stage }},
	)
}

func (e *env) segments() *cobra.Command {
	return &cobra.Command{
		Use: "segments", Short: "the memory of the pool", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.printSegments(cmd.Context()) },
	}
}

// clientView is a client as it is printed.
type clientView struct {
	ID           string `json:"id"`
	Address      string `json:"address"`
	Release      string `json:"release"`
	Daemon       bool   `json:"daemon"`
	Connections  uint32 `json:"connections"`
	Segments     uint32 `json:"segments"`
	SegmentBytes uint64 `json:"segment_bytes"`
	Stage        string `json:"stage"`
}

func (e *env) listClients(ctx context.Context) (rows []clientView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewAdminClient(conn).Clients(ctx, &mooncakev1.ClientsRequest{})
		rows = nil
		for _, c := range reply.GetClients() {
			rows = append(rows, clientView{id(c.GetId()), c.GetAddress(), c.GetRelease(), c.GetDaemon(), c.GetConnections(), c.GetSegments(), c.GetSegmentBytes(), c.GetStage()})
		}
		return err
	})
	return rows, err
}

func (e *env) clients() *cobra.Command {
	return &cobra.Command{
		Use: "clients", Short: "who is connected or gives memory", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := e.listClients(cmd.Context())
			if err != nil {
				return err
			}
			return list(e, rows,
				column[clientView]{"CLIENT", func(c clientView) any { return c.ID }},
				column[clientView]{"ADDRESS", func(c clientView) any { return c.Address }},
				column[clientView]{"RELEASE", func(c clientView) any {
					if c.Daemon {
						return "segment daemon"
					}
					return c.Release
				}},
				column[clientView]{"CONNECTIONS", func(c clientView) any { return c.Connections }},
				column[clientView]{"SEGMENTS", func(c clientView) any { return c.Segments }},
				column[clientView]{"MEMORY", func(c clientView) any { return size(c.SegmentBytes) }},
				column[clientView]{"IS", func(c clientView) any { return c.Stage }},
			)
		},
	}
}

// drainView is a drain job as it is printed.
type drainView struct {
	ID       string   `json:"id"`
	State    string   `json:"state"`
	Segments []string `json:"segments"`
	Moved    uint64   `json:"moved"`
	Failed   uint64   `json:"failed"`
	Blocked  uint64   `json:"blocked"`
	Active   uint64   `json:"active"`
	Bytes    uint64   `json:"moved_bytes"`
	Message  string   `json:"message"`
	Created  string   `json:"created"`
	Updated  string   `json:"updated"`
}

func (e *env) listDrains(ctx context.Context) (rows []drainView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewSegmentsClient(conn).ListDrains(ctx, &mooncakev1.ListDrainsRequest{})
		rows = nil
		for _, j := range reply.GetJobs() {
			rows = append(rows, drainView{
				id(j.GetId()), j.GetState(), j.GetSegments(), j.GetMoved(), j.GetFailed(), j.GetBlocked(), j.GetActive(), j.GetMovedBytes(), j.GetMessage(),
				at(j.GetCreatedMs()), at(j.GetUpdatedMs()),
			})
		}
		return err
	})
	return rows, err
}

func (e *env) drain() *cobra.Command {
	var targets []string
	var concurrency uint32
	cmd := e.destructive(&cobra.Command{
		Use: "drain SEGMENT...", Short: "move everything off segments", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			what := "move everything off " + strings.Join(names, ", ")
			if len(targets) > 0 {
				what += " to " + strings.Join(targets, ", ")
			}
			return e.begin(what, func() (job string, err error) {
				err = e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					reply, err := mooncakev1.NewSegmentsClient(conn).Drain(ctx, &mooncakev1.DrainRequest{Segments: names, Targets: targets, Concurrency: concurrency})
					job = id(reply.GetId())
					return err
				})
				return job, err
			})
		},
	})
	cmd.Flags().StringSliceVar(&targets, "to", nil, "segments that take what is moved; not given: all others")
	cmd.Flags().Uint32Var(&concurrency, "concurrency", 0, "objects moved at a time; 0 is the master's default")
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Short: "drain jobs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := e.listDrains(cmd.Context())
			if err != nil {
				return err
			}
			return list(e, rows,
				column[drainView]{"JOB", func(j drainView) any { return j.ID }},
				column[drainView]{"STATE", func(j drainView) any { return j.State }},
				column[drainView]{"SEGMENTS", func(j drainView) any { return strings.Join(j.Segments, " ") }},
				column[drainView]{"MOVED", func(j drainView) any { return fmt.Sprintf("%d (%s)", j.Moved, size(j.Bytes)) }},
				column[drainView]{"ACTIVE", func(j drainView) any { return j.Active }},
				column[drainView]{"BLOCKED", func(j drainView) any { return j.Blocked }},
				column[drainView]{"FAILED", func(j drainView) any { return j.Failed }},
				column[drainView]{"MESSAGE", func(j drainView) any { return j.Message }},
			)
		},
	}, e.destructive(&cobra.Command{
		Use: "cancel JOB", Short: "end a drain job; its segments take objects again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := wire.ParseUUID(args[0])
			if err != nil {
				return fmt.Errorf("%q is no id of a job: two numbers with a dash between", args[0])
			}
			return e.do("end the drain job "+args[0], func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					_, err := mooncakev1.NewSegmentsClient(conn).CancelDrain(ctx, &mooncakev1.CancelDrainRequest{Id: &mooncakev1.Uuid{High: job.Hi, Low: job.Lo}})
					return err
				})
			})
		},
	}))
	return cmd
}

// taskView is a task as it is printed.
type taskView struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	State   string `json:"state"`
	Client  string `json:"client"`
	Created string `json:"created"`
	Updated string `json:"updated"`
	Message string `json:"message"`
}

func (e *env) listTasks(ctx context.Context, ended bool) (rows []taskView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		reply, err := mooncakev1.NewAdminClient(conn).Tasks(ctx, &mooncakev1.TasksRequest{Ended: ended})
		rows = nil
		for _, t := range reply.GetTasks() {
			rows = append(rows, taskView{id(t.GetId()), t.GetKind(), t.GetState(), id(t.GetClient()), at(t.GetCreatedMs()), at(t.GetUpdatedMs()), t.GetMessage()})
		}
		return err
	})
	return rows, err
}

func (e *env) tasks() *cobra.Command {
	ended := false
	cmd := &cobra.Command{
		Use: "tasks", Short: "copies and moves that clients were asked for", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := e.listTasks(cmd.Context(), ended)
			if err != nil {
				return err
			}
			return list(e, rows, taskColumns...)
		},
	}
	cmd.Flags().BoolVar(&ended, "all", false, "ended ones too")
	return cmd
}

var taskColumns = []column[taskView]{
	{"TASK", func(t taskView) any { return t.ID }},
	{"KIND", func(t taskView) any { return t.Kind }},
	{"STATE", func(t taskView) any { return t.State }},
	{"CLIENT", func(t taskView) any { return t.Client }},
	{"CREATED", func(t taskView) any { return t.Created }},
	{"UPDATED", func(t taskView) any { return t.Updated }},
	{"MESSAGE", func(t taskView) any { return t.Message }},
}
