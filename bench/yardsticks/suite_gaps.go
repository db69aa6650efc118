package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/bench/calls"
	"mooncake/client"
	"mooncake/interop"
)

// suiteGaps looks for the longest time without an answer while a client that is gone takes a tenth of -many objects with it,
// and while a snapshot of as many is made.
func suiteGaps(ctx context.Context, b *bench) error {
	for round := range min(b.rounds, 3) {
		for _, who := range order(b.contestants, round) {
			if err := b.expire(ctx, who, round); err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
			if who.name != ours {
				continue
			}
			if err := b.snapshot(ctx, who, round); err != nil {
				return fmt.Errorf("%s: %w", who.name, err)
			}
		}
	}
	return nil
}

// forgotten is how long a master may take until it has forgotten a client.
const forgotten = 60 * time.Second

// expire lets the owner of everything fall silent.
func (b *bench) expire(ctx context.Context, who contestant, round int) (err error) {
	o := interop.MasterOptions{ClientTTLSec: 3}
	if who.name == ours {
		o.Flags = []string{"--client_suspicion_ttl_sec=1", "--client_lost_ttl_sec=1"}
	}
	s, err := b.sit(ctx, who, o, calls.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.leave()) }()
	if _, err := s.Fill(ctx, b.many/10); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, forgotten)
	defer cancel()
	out, took, err := s.Watch(ctx, func(ctx context.Context) error {
		s.FallSilent()
		for {
			n, err := countKeys(s.admin)
			if err != nil || n == 0 {
				return err
			}
			if err := pauseFor(ctx, 200*time.Millisecond); err != nil {
				return fmt.Errorf("%d objects of a client that is gone are still there: %w", n, err)
			}
		}
	})
	if err != nil {
		return err
	}
	b.note("expiry of a client", who.name, round, watched(out, took, s.Keys()))
	return nil
}

// snapshot has a master with a journal make a snapshot and send it.
func (b *bench) snapshot(ctx context.Context, who contestant, round int) (err error) {
	s, err := b.sit(ctx, who, interop.MasterOptions{Flags: []string{
		fmt.Sprintf("--data_dir=%s/journal-%d", b.rig.Dir, round), "--journal_sync=never",
	}}, calls.Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.leave()) }()
	if _, err := s.Fill(ctx, b.many/10); err != nil {
		return err
	}
	c, err := client.New(client.Config{Masters: []string{s.grpc}, Timeout: startLimit})
	if err != nil {
		return err
	}
	defer c.Close()
	conn, err := c.Connection()
	if err != nil {
		return err
	}
	out, took, err := s.Watch(ctx, func(ctx context.Context) error {
		stream, err := mooncakev1.NewAdminClient(conn).SaveSnapshot(ctx, &mooncakev1.SaveSnapshotRequest{})
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	b.note("snapshot", who.name, round, watched(out, took, s.Keys()))
	return nil
}
