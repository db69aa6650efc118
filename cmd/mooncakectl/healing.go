package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// healingView is how far copies that are made again have come, as it is printed.
type healingView struct {
	On          bool            `json:"on"`
	Waiting     uint64          `json:"waiting_objects"`
	Copying     uint64          `json:"copying_objects"`
	Unhelped    uint64          `json:"unhelped_objects"`
	Surplus     uint64          `json:"surplus_objects"`
	Copied      uint64          `json:"copied_objects"`
	CopiedBytes uint64          `json:"copied_bytes"`
	Failed      uint64          `json:"failed_copies"`
	Cancelled   uint64          `json:"cancelled_copies"`
	Trimmed     uint64          `json:"trimmed_copies"`
	Hot         uint64          `json:"hot_objects"`
	Rebalancing rebalancingView `json:"rebalancing"`
}

// rebalancingView is how far objects that move to emptier segments have come, as it is printed.
type rebalancingView struct {
	Mode            string  `json:"mode"`
	Going           bool    `json:"going"`
	Moving          uint64  `json:"moving_objects"`
	Moved           uint64  `json:"moved_objects"`
	MovedBytes      uint64  `json:"moved_bytes"`
	Failed          uint64  `json:"failed_moves"`
	Fullest         string  `json:"fullest"`
	FullestPercent  float64 `json:"fullest_percent"`
	Emptiest        string  `json:"emptiest"`
	EmptiestPercent float64 `json:"emptiest_percent"`
}

func viewOfRebalancing(r *mooncakev1.Rebalancing) rebalancingView {
	return rebalancingView{
		r.GetMode(), r.GetGoing(), r.GetMovingObjects(), r.GetMovedObjects(), r.GetMovedBytes(), r.GetFailedMoves(),
		r.GetFullest(), r.GetFullestPercent(), r.GetEmptiest(), r.GetEmptiestPercent(),
	}
}

func (e *env) askHealing(ctx context.Context) (v healingView, err error) {
	err = e.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		r, err := mooncakev1.NewAdminClient(conn).Healing(ctx, &mooncakev1.HealingRequest{})
		v = healingView{
			r.GetOn(), r.GetWaitingObjects(), r.GetCopyingObjects(), r.GetUnhelpedObjects(), r.GetSurplusObjects(), r.GetCopiedObjects(), r.GetCopiedBytes(),
			r.GetFailedCopies(), r.GetCancelledCopies(), r.GetTrimmedCopies(), r.GetHotObjects(), viewOfRebalancing(r.GetRebalancing()),
		}
		return err
	})
	return v, err
}

func (e *env) healing() *cobra.Command {
	return &cobra.Command{
		Use: "healing", Short: "objects with too few copies, or too many, and what becomes of them", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := e.askHealing(cmd.Context())
			if err != nil {
				return err
			}
			state := "on"
			if !v.On {
				state = "off (--heal=false)"
			}
			return facts(e, v,
				fact{"healing", state},
				fact{"too few copies", fmt.Sprintf("%d wait, %d are copied, %d cannot be helped now", v.Waiting, v.Copying, v.Unhelped)},
				fact{"too many copies", fmt.Sprintf("%d objects", v.Surplus)},
				fact{"copied again", fmt.Sprintf("%d objects, %s", v.Copied, size(v.CopiedBytes))},
				fact{"failed, cancelled", fmt.Sprintf("%d, %d", v.Failed, v.Cancelled)},
				fact{"taken away", fmt.Sprintf("%d copies", v.Trimmed)},
				fact{"read much", fmt.Sprintf("%d objects have further copies", v.Hot)},
				fact{"rebalancing", v.Rebalancing.state()},
			)
		},
	}
}

// state says in a line whether objects move.
func (v rebalancingView) state() string {
	switch {
	case v.Mode == "off" && v.Moving > 0:
		return fmt.Sprintf("off, %d objects are still on their way", v.Moving)
	case v.Mode == "off":
		return "off"
	case v.Going:
		return v.Mode + ", objects move"
	}
	return v.Mode + ", nothing to do at the moment"
}

func (e *env) rebalance() *cobra.Command {
	cmd := &cobra.Command{Use: "rebalance", Short: "move objects from the fullest segments to the emptiest"}
	cmd.AddCommand(
		&cobra.Command{
			Use: "status", Short: "how uneven the segments are, and what moves", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				h, err := e.askHealing(cmd.Context())
				if err != nil {
					return err
				}
				v := h.Rebalancing
				lines := []fact{{"rebalancing", v.state()}}
				if v.Fullest != "" {
					lines = append(lines,
						fact{"fullest", fmt.Sprintf("%s (%.1f%%)", v.Fullest, v.FullestPercent)}, fact{"emptiest", fmt.Sprintf("%s (%.1f%%)", v.Emptiest, v.EmptiestPercent)})
				}
				return facts(e, v, append(lines,
					fact{"moving", fmt.Sprintf("%d objects", v.Moving)},
					fact{"moved", fmt.Sprintf("%d objects, %s", v.Moved, size(v.MovedBytes))},
					fact{"failed", v.Failed},
				)...)
			},
		},
		e.rebalanceCommand("start", "move objects until the segments are even", false),
		e.rebalanceCommand("stop", "let no more objects move from full segments to empty ones", true),
	)
	return cmd
}

// rebalanceCommand makes the command that begins, or ends, the moving.
func (e *env) rebalanceCommand(word, what string, stop bool) *cobra.Command {
	return e.destructive(&cobra.Command{
		Use: word, Short: what, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.do(what, func() error {
				return e.ask(cmd.Context(), func(ctx context.Context, conn grpc.ClientConnInterface) error {
					_, err := mooncakev1.NewAdminClient(conn).Rebalance(ctx, &mooncakev1.RebalanceRequest{Stop: stop})
					return err
				})
			})
		},
	})
}
