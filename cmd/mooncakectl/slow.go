package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// slowView is something that takes long.
type slowView struct {
	What  string `json:"what"`
	ID    string `json:"id"`
	Since string `json:"since"`
	Note  string `json:"note"`
}

// slow lists what has not moved for a while: bundles that are not finished, or that nobody has read, tasks and drain jobs.
func (e *env) slow() *cobra.Command {
	older := 30 * time.Second
	cmd := &cobra.Command{
		Use: "slow", Short: "what takes long: bundles unfinished or unread, tasks, drain jobs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if older < 0 {
				return fmt.Errorf("--older_than=%s is below 0", older)
			}
			limit := time.Now().Add(-older).UTC().Format(time.RFC3339)
			var rows []slowView
			add := func(what, id, since, note string) {
				if since != "" && since <= limit {
					rows = append(rows, slowView{what, id, since, note})
				}
			}
			bundles, _, err := e.allBundles(cmd.Context(), &mooncakev1.BundleFilter{OlderThanMs: older.Milliseconds()}, 100_000)
			if err != nil {
				return err
			}
			for _, b := range bundles {
				switch b.State {
				case "STAGING":
					add("bundle being written", b.ID, b.LastWrite, fmt.Sprintf("last write; %d keys, %s", b.Keys, size(b.Bytes)))
				case "PUBLISHED":
					if b.Reads == 0 {
						add("bundle unread", b.ID, b.Published, size(b.Bytes)+" since its publication")
					}
				case "RECLAIMING", "DAMAGED", "ORPHAN":
					add("bundle "+b.State, b.ID, b.LastWrite, fmt.Sprintf("%d keys, %s", b.Keys, size(b.Allocated)))
				}
			}
			tasks, err := e.listTasks(cmd.Context(), false)
			if err != nil {
				return err
			}
			for _, t := range tasks {
				add("task "+t.State, t.ID, t.Updated, t.Kind+" by client "+t.Client)
			}
			jobs, err := e.listDrains(cmd.Context())
			if err != nil {
				return err
			}
			for _, j := range jobs {
				if j.State == "CREATED" || j.State == "RUNNING" {
					add("drain job "+j.State, j.ID, j.Created, j.Message)
				}
			}
			slices.SortStableFunc(rows, func(a, b slowView) int { return strings.Compare(a.Since, b.Since) })
			return list(e, rows,
				column[slowView]{"WHAT", func(s slowView) any { return s.What }},
				column[slowView]{"ID", func(s slowView) any { return s.ID }},
				column[slowView]{"SINCE", func(s slowView) any { return s.Since }},
				column[slowView]{"NOTE", func(s slowView) any { return s.Note }},
			)
		},
	}
	cmd.Flags().DurationVar(&older, "older_than", older, "how long is long")
	return cmd
}
