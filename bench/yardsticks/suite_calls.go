package main

import (
	"context"
	"fmt"
	"time"

	"mooncake/bench/calls"
	"mooncake/interop"
)

func suites() []suite {
	return []suite{
		{"calls", "exist, get and put on 1, 8 and 64 connections", suiteCalls},
		{"paced", "one connection, with a pause of 300 us before each call", suitePaced},
		{"batches", "batches of 100 on 1, 8 and 64 connections", suiteBatches},
		{"growth", "catalogs of 10,000 objects, of -many/10 and of -many: memory, calls on 8 connections, RemoveAll", suiteGrowth},
		{"keys", "memory with -many/10 keys of 32 bytes, and -settle after RemoveAll", suiteKeys},
		{"gaps", "the longest time without an answer while a client with -many/10 objects goes, and while a snapshot is made", suiteGaps},
		{"full", "puts on 8 connections into pools that are full, and into such with room", suiteFull},
		{"segments", "puts on 8 connections into 1 to 1,024 segments of as many owners", suiteSegments},
		{"trace", "the traffic of a training loop in a pool of which some part is live; rounds are seeds", suiteTrace},
		{"data", "objects moved by wheels, by the client in Go and over bare connections", suiteData},
		{"readers", "objects of 64 MiB read from one segment by one and by eight clients", suiteReaders},
		{"bundles", "rollouts handed over by wheels, by the client in Go and by Ray", suiteBundles},
	}
}

var connections = []int{1, 8, 64}

// pauseBefore is what a paced load waits before each call.
const pauseBefore = 300 * time.Microsecond

func suiteCalls(ctx context.Context, b *bench) error {
	return b.loops(ctx, connections, 0, calls.Exist, calls.Get, calls.Put)
}

func suiteBatches(ctx context.Context, b *bench) error {
	return b.loops(ctx, connections, 0, calls.BatchExist, calls.BatchGet, calls.BatchPut)
}

func suitePaced(ctx context.Context, b *bench) error {
	return b.loops(ctx, []int{1}, pauseBefore, calls.Exist, calls.Get, calls.Put)
}

// loops measures kinds of loads at numbers of connections, contestants in turn.
func (b *bench) loops(ctx context.Context, connections []int, pause time.Duration, kinds ...calls.Kind) (err error) {
	all, leave, err := b.sitAll(ctx, interop.MasterOptions{}, calls.Config{})
	if err != nil {
		return err
	}
	defer func() {
		if left := leave(); err == nil {
			err = left
		}
	}()
	for _, s := range all {
		if _, err := s.Fill(ctx, b.keys); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	for round := range b.rounds {
		for _, n := range connections {
			for _, k := range kinds {
				for _, s := range order(all, round) {
					l := calls.Load{Kind: k, Connections: n, For: b.phase, Pause: pause}
					if _, err := b.load(ctx, s, fmt.Sprintf("%s %d", k, n), round, l); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}
