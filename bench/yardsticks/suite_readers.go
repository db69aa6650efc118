package main

import (
	"context"
	"errors"
	"fmt"

	"mooncake/bench/data"
	"mooncake/client"
)

const (
	manyReaders = 8
	readBytes   = 64 * mib
	// readersRoom holds what eight readers are given several times over: ranges that were read stay out of use for a while.
	readersRoom = 6 * manyReaders * readBytes
)

// suiteReaders has one and then eight clients at a time read objects of 64 MiB from one segment.
func suiteReaders(ctx context.Context, b *bench) error {
	var houses []*house
	for _, who := range b.contestants {
		if who.command != nil {
			continue // a master given as a command has no segment daemon
		}
		h, err := b.furnish(ctx, who, manyReaders, readersRoom)
		if err != nil {
			return fmt.Errorf("%s: %w", who.name, err)
		}
		houses = append(houses, h)
	}
	for round := range b.rounds {
		for _, n := range []int{1, manyReaders} {
			for _, h := range order(houses, round) {
				p := data.Phase{
					What: "get", Size: readBytes, Seconds: b.phase.Seconds(), Budget: int64(n) * readBytes, Tag: fmt.Sprintf("readers/%d/%d", n, round),
				}
				if err := b.moving(ctx, h.holder, h.name, dataPhase("get", readBytes, n), round, h.wheels[:n], p); err != nil {
					return err
				}
				if h.name != ours {
					continue
				}
				p.Tag = goClient + "/" + p.Tag
				if err := b.goRound(ctx, h, p, n, round); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// goRound moves by clients in Go.
func (b *bench) goRound(ctx context.Context, h *house, p data.Phase, n, round int) (err error) {
	var clients data.GoClients
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
	}()
	for range n {
		c, err := client.New(client.Config{Masters: []string{h.grpc}})
		if err != nil {
			return err
		}
		clients = append(clients, c)
	}
	return b.moving(ctx, h.holder, goClient, dataPhase(p.What, p.Size, n), round, clients, p)
}

// together is how well many readers do: what they read in all over three times what one reads or over 2 GiB/s, whichever is
// less to reach.
func together(who string) func(*report) float64 {
	return func(r *report) float64 {
		const enough = 2 * 1024 * mib / 1e9 // GB/s
		one, all := dataPhase("get", readBytes, 1), dataPhase("get", readBytes, manyReaders)
		rate := r.median("readers", all, who, "gb_s")
		return max(rate/(3*r.median("readers", one, who, "gb_s")), rate/enough)
	}
}

func readerChecks() (all []check) {
	of := dataPhase("get", readBytes, manyReaders)
	for _, by := range []struct{ who, name string }{{ours, "wheels"}, {goClient, "clients in Go"}} {
		all = append(all, check{"eight readers of one segment, " + by.name + ": of 3 times one, or of 2 GiB/s", of, together(by.who), 1, 1.25, true})
	}
	return all
}
