package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// sumsView is what became of checksums, as it is printed.
type sumsView struct {
	On      bool   `json:"on"`
	Daemons uint32 `json:"daemons"`
	Kept    uint64 `json:"sums_kept"`
	Right   uint64 `json:"copies_right"`
	Corrupt uint64 `json:"corrupt_copies"`
	Lost    uint64 `json:"corrupt_objects"`
	Ranges  uint64 `json:"corrupt_ranges"`
}

// corruptView is a range that is not used again, as it is printed.
type corruptView struct {
	Key     string `json:"key"`
	Segment string `json:"segment"`
	Offset  uint64 `json:"offset"`
	Size    uint64 `json:"size"`
	Since   string `json:"since"`
}

func (e *env) listCorrupt(ctx context.Context) (v sumsView, rows []corruptView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		r, err := mooncakev1.NewSegmentsClient(conn).ListCorrupt(ctx, &mooncakev1.ListCorruptRequest{})
		v = sumsView{r.GetOn(), r.GetDaemons(), r.GetSumsKept(), r.GetCopiesRight(), r.GetCorruptCopies(), r.GetCorruptObjects(), r.GetRangeCount()}
		rows = nil
		for _, c := range r.GetRanges() {
			rows = append(rows, corruptView{c.GetKey(), c.GetSegment(), c.GetOffset(), c.GetSize(), at(c.GetSinceMs())})
		}
		return err
	})
	return v, rows, err
}

// integrity tells of checksums and of copies that did not have them.
func (e *env) integrity() *cobra.Command {
	cmd := &cobra.Command{
		Use: "integrity", Short: "checksums, and copies that did not have them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, _, err := e.listCorrupt(cmd.Context())
			if err != nil {
				return err
			}
			return list(e, []sumsView{v},
				column[sumsView]{"ON", func(v sumsView) any { return v.On }},
				column[sumsView]{"DAEMONS", func(v sumsView) any { return v.Daemons }},
				column[sumsView]{"KEPT", func(v sumsView) any { return v.Kept }},
				column[sumsView]{"RIGHT", func(v sumsView) any { return v.Right }},
				column[sumsView]{"CORRUPT", func(v sumsView) any { return v.Corrupt }},
				column[sumsView]{"OBJECTS LOST", func(v sumsView) any { return v.Lost }},
				column[sumsView]{"RANGES KEPT", func(v sumsView) any { return v.Ranges }},
			)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Short: "ranges that held corrupt copies and are not used again", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, rows, err := e.listCorrupt(cmd.Context())
			if err != nil {
				return err
			}
			return list(e, rows,
				column[corruptView]{"SEGMENT", func(c corruptView) any { return c.Segment }},
				column[corruptView]{"OFFSET", func(c corruptView) any { return c.Offset }},
				column[corruptView]{"SIZE", func(c corruptView) any { return size(c.Size) }},
				column[corruptView]{"SINCE", func(c corruptView) any { return c.Since }},
				column[corruptView]{"KEY", func(c corruptView) any { return c.Key }},
			)
		},
	}, e.destructive(&cobra.Command{
		Use: "scrub", Short: "have all daemons compare everything they hold now", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.do("have everything compared with its checksum", func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					r, err := mooncakev1.NewSegmentsClient(conn).Scrub(ctx, &mooncakev1.ScrubRequest{})
					if err == nil && r.GetDaemons() == 0 {
						err = errors.New("no daemon finds checksums: the master runs without --checksum, or no segment daemon keeps a stream to it")
					}
					return err
				})
			})
		},
	}), e.destructive(&cobra.Command{
		Use: "release SEGMENT", Short: "let ranges of a segment be used again that held corrupt copies", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return fmt.Errorf("%q is no name of a segment", args[0])
			}
			return e.do("let corrupt ranges of "+args[0]+" be used again", func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					r, err := mooncakev1.NewSegmentsClient(conn).ReleaseCorrupt(ctx, &mooncakev1.ReleaseCorruptRequest{Segment: args[0]})
					if err == nil && r.GetRanges() == 0 {
						err = fmt.Errorf("no range of a segment %q is kept from use, see mooncakectl integrity ls", args[0])
					}
					return err
				})
			})
		},
	}))
	return cmd
}
