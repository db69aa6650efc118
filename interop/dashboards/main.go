// Command dashboards shows that dashboards and alert rules get answers: Debian's Prometheus scrapes a running master while an
// unchanged client works, and every query of both dashboards and every rule is asked for.
//
//	go run ./interop/dashboards
//
// It names what it fetches: Debian's package prometheus is downloaded and unpacked into the cache, and not installed. It fails
// when a query that can be filled has no answer, or when promtool refuses rules, settings or the metrics.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"mooncake/interop"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binaries := flag.String("binaries", "", "folder with the daemons; empty builds them")
	flag.Parse()
	if err := show(ctx, *binaries, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// show does everything.
func show(ctx context.Context, binaries string, out io.Writer) (err error) {
	tools, err := fetchPrometheus(ctx, out)
	if err != nil {
		return err
	}
	rig, err := interop.NewRig("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	defer context.AfterFunc(ctx, func() { _ = rig.Close() })()
	if rig.Binaries = binaries; binaries == "" {
		rig.Binaries = filepath.Join(rig.Dir, "bin")
		if err := interop.BuildDaemons(ctx, rig.Binaries, false, "mooncake-master", "mooncake-segment"); err != nil {
			return err
		}
	}
	master, err := rig.StartMaster(interop.MasterOptions{LeaseMs: 500, Flags: []string{
		"--data_dir=" + filepath.Join(rig.Dir, "journal"), "--workloads_file=deploy/workloads.yaml",
	}})
	if err != nil {
		return err
	}
	if _, err := rig.StartSegment(interop.SegmentOptions{Master: master.RPC, SizeBytes: 64 << 20}); err != nil {
		return err
	}
	if _, err := master.WaitSegments(1, 30*time.Second); err != nil {
		return err
	}
	if err := check(ctx, tools, rig.Dir, master.Admin, out); err != nil {
		return err
	}
	db, err := startPrometheus(rig, tools, master.Admin)
	if err != nil {
		return err
	}
	if err := work(ctx, rig, master.RPC, 30*time.Second); err != nil {
		return err
	}
	return db.askAll(ctx, out)
}

// work stores more than there is room for, reads it, asks for what is gone, and hands bundles over, for some time.
func work(ctx context.Context, rig *interop.Rig, master string, long time.Duration) error {
	client, err := rig.StartClient(interop.R13)
	if err != nil {
		return err
	}
	store, code, err := client.Setup(interop.StoreOptions{Master: master, BufferBytes: 64 << 20})
	if err == nil && code != 0 {
		err = fmt.Errorf("setup of the client: code %d", code)
	}
	if err != nil {
		return err
	}
	until := time.Now().Add(long)
	for n := 0; time.Now().Before(until) && ctx.Err() == nil; n++ {
		item := interop.Item{Key: interop.Key(fmt.Sprint("dashboard-", n)), Size: 2 << 20, Seed: int64(n)}
		if _, err := store.Put(item, nil); err != nil {
			return err
		}
		if _, err := store.Get(item); err != nil {
			return err
		}
		gone := interop.Item{Key: interop.Key(fmt.Sprint("never-", n)), Size: 1}
		if _, err := store.Get(gone); err != nil {
			return err
		}
		if n%4 == 0 {
			bundle := interop.Bundle{Rows: 16, Seed: n}
			handle, _, _, err := store.PutBundle(bundle)
			if err != nil {
				return err
			}
			if _, _, err := store.GetBundle(handle, bundle, nil, nil); err != nil {
				return err
			}
			if err := store.CleanBundle(handle); err != nil {
				return err
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return ctx.Err()
}
