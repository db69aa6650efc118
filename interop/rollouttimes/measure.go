package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"mooncake/bundle"
	"mooncake/client"
	"mooncake/interop"
)

const (
	segmentBytes = 1 << 30   // a few of the largest rollouts
	bufferBytes  = 512 << 20 // a wheel waits for ever in a buffer smaller than one result
	mountLimit   = 30 * time.Second
	seed         = 7
)

// measure starts everything, lets all parties hand over all rollouts in turn, and prints what came out.
func measure(ctx context.Context, s *settings) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("not done within -limit=%v", s.limit))
	defer cancel()
	res := &result{
		Processors: runtime.NumCPU(), Load: load(), Shape: s.shape.name, Rounds: s.rounds, Times: s.times, Wheel: interop.R13.Version(),
	}
	rig, err := interop.NewRig("")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	// When the time is over the processes stop; whoever waits for them fails then.
	defer context.AfterFunc(ctx, func() { _ = rig.Close() })()
	g, w, err := start(ctx, rig, s)
	if err != nil {
		return because(ctx, err)
	}
	defer g.produce.Close()
	defer g.consume.Close()
	parties := []party{g, w}
	if s.python != "" {
		fmt.Fprintln(s.progress, "starting Ray ...")
		r, err := startRay(rig, s.python)
		if err != nil {
			return because(ctx, err)
		}
		res.Ray, parties = r.version, append(parties, r)
	}
	for _, samples := range s.samples {
		fmt.Fprintf(s.progress, "%d samples ...\n", samples)
		line, err := handAll(ctx, s, samples, g, w, parties)
		if err != nil {
			return because(ctx, fmt.Errorf("%d samples: %w", samples, err))
		}
		res.Sizes = append(res.Sizes, *line)
	}
	if s.json {
		e := json.NewEncoder(s.out)
		e.SetIndent("", " ")
		return e.Encode(res)
	}
	return res.print(s.out)
}

// because names why a context ended in place of what follows from it.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// load are the load averages of the machine.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	words := strings.Fields(string(text))
	if err != nil || len(words) < 3 {
		return "unknown"
	}
	return strings.Join(words[:3], " ")
}

// start starts both daemons, two clients in Go and two wheels.
func start(ctx context.Context, rig *interop.Rig, s *settings) (*goClients, *wheels, error) {
	if rig.Binaries = s.binaries; s.binaries == "" {
		fmt.Fprintln(s.progress, "building both daemons ...")
		rig.Binaries = filepath.Join(rig.Dir, "bin")
		if err := interop.BuildDaemons(ctx, rig.Binaries, false, "mooncake-master", "mooncake-segment"); err != nil {
			return nil, nil, err
		}
	}
	master, err := rig.StartMaster(interop.MasterOptions{})
	if err != nil {
		return nil, nil, err
	}
	if _, err := rig.StartSegment(interop.SegmentOptions{Master: master.RPC, SizeBytes: segmentBytes, Flags: interop.MemoryFound}); err != nil {
		return nil, nil, err
	}
	if _, err := master.WaitSegments(1, mountLimit); err != nil {
		return nil, nil, err
	}
	w := &wheels{}
	for _, store := range []**interop.Store{&w.produce, &w.consume} {
		if *store, err = join(rig, master); err != nil {
			return nil, nil, err
		}
	}
	g := &goClients{}
	if g.produce, err = client.New(client.Config{Masters: []string{master.GRPC}}); err != nil {
		return nil, nil, err
	}
	if g.consume, err = client.New(client.Config{Masters: []string{master.GRPC}}); err != nil {
		g.produce.Close()
		return nil, nil, err
	}
	return g, w, nil
}

// join starts a wheel without memory of its own.
func join(rig *interop.Rig, master *interop.Master) (*interop.Store, error) {
	c, err := rig.StartClient(interop.R13)
	if err != nil {
		return nil, err
	}
	store, code, err := c.Setup(interop.StoreOptions{Master: master.RPC, BufferBytes: bufferBytes})
	if err == nil && code != 0 {
		err = fmt.Errorf("setup of the wheel %s: code %d", interop.R13.Version(), code)
	}
	return store, err
}

// handAll measures one size. Who begins changes from round to round; a first round does not count.
func handAll(ctx context.Context, s *settings, samples int, g *goClients, w *wheels, parties []party) (*size, error) {
	line := &size{Samples: samples}
	job, err := prepare(ctx, s.shape, line, g, w)
	if err != nil {
		return nil, err
	}
	took := make([][]column, len(parties))
	for i, p := range parties {
		for _, name := range p.columns() {
			took[i] = append(took[i], column{Party: name})
		}
	}
	for round := range s.rounds + 1 {
		for turn := range parties {
			i := (round + turn) % len(parties)
			times, err := takeTurn(ctx, parties[i], job, s.times)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", took[i][0].Party, err)
			}
			for k := range times {
				if round > 0 {
					took[i][k].Rounds = append(took[i][k].Rounds, times[k])
				}
			}
		}
	}
	for _, columns := range took {
		line.Columns = append(line.Columns, columns...)
	}
	line.settle()
	return line, nil
}

// takeTurn hands over several times, each time what was just written: a turn's time is the median of theirs, by columns.
func takeTurn(ctx context.Context, p party, job *work, times int) (turn []handing, err error) {
	puts, gets := make([][]float64, len(p.columns())), make([][]float64, len(p.columns()))
	for range times {
		one, err := inTime(ctx, p, job)
		if err != nil {
			return nil, err
		}
		for k := range one {
			puts[k], gets[k] = append(puts[k], one[k].PutMs), append(gets[k], one[k].GetMs)
		}
	}
	for k := range puts {
		turn = append(turn, handing{median(puts[k]), median(gets[k])})
	}
	return turn, nil
}

// inTime bounds one handing as wheels bound theirs.
func inTime(ctx context.Context, p party, job *work) ([]handing, error) {
	ctx, cancel := context.WithTimeout(ctx, interop.DefaultCallLimit)
	defer cancel()
	return p.hand(ctx, job)
}

// prepare has a wheel write the rollout, takes it over, and has a wheel read what the client in Go makes of it: both hand over
// the same.
func prepare(ctx context.Context, sh shape, line *size, g *goClients, w *wheels) (*work, error) {
	job := &work{Bundle: sh.bundle, shape: sh, size: line}
	job.Rows, job.Seed, job.Keep = line.Samples, seed, true
	theirs, _, _, err := w.produce.PutBundle(job.Bundle)
	if err != nil {
		return nil, err
	}
	h, err := bundle.ParseHandle(theirs)
	if err != nil {
		return nil, err
	}
	if job.want, err = g.consume.GetRollout(ctx, h); err != nil {
		return nil, err
	}
	if job.rows, err = sh.unpack(job.want); err != nil {
		return nil, err
	}
	for i := range job.want.Fields {
		line.Members += len(job.want.Fields[i].Members)
		for _, m := range job.want.Fields[i].Members {
			line.Bytes += len(m.Data)
		}
	}
	if err := w.produce.CleanBundle(theirs); err != nil {
		return nil, err
	}
	r, err := job.rows.pack()
	if err != nil {
		return nil, err
	}
	if h, err = g.produce.PutRollout(ctx, r, client.BundleOptions{}); err != nil {
		return nil, err
	}
	text, err := h.Encode()
	if err != nil {
		return nil, err
	}
	diff, _, err := w.consume.GetBundle(text, job.Bundle, nil, nil)
	if err != nil {
		return nil, err
	}
	if diff != "" {
		return nil, fmt.Errorf("the wheel reads something else from the client in Go: %s", diff)
	}
	return job, g.produce.RemoveRollout(ctx, h)
}
