package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"mooncake/bundle"
	"mooncake/client"
	"mooncake/interop"
)

// A party hands rollouts over. One handing has as many times as the party has columns.
type party interface {
	columns() []string
	hand(ctx context.Context, w *work) ([]handing, error)
}

// work is a rollout that is handed over again and again.
type work struct {
	interop.Bundle
	shape shape
	want  *bundle.Rollout // as it is stored
	rows  rows            // as a program has it
	size  *size           // takes the numbers of calls
}

// same tells in which member two rollouts differ.
func same(got, want *bundle.Rollout) error {
	byName := map[string][]byte{}
	for i := range want.Fields {
		for _, m := range want.Fields[i].Members {
			byName[bundle.MemberName(want.Fields[i].Name, m.Part)] = m.Data
		}
	}
	for i := range got.Fields {
		for _, m := range got.Fields[i].Members {
			name := bundle.MemberName(got.Fields[i].Name, m.Part)
			if expected, known := byName[name]; !known || !bytes.Equal(m.Data, expected) {
				return fmt.Errorf("%s differs from what was written", name)
			}
			delete(byName, name)
		}
	}
	if len(byName) > 0 {
		return fmt.Errorf("%d members are missing", len(byName))
	}
	// What rides in the handle has been text in between, so it is compared as text.
	g, err := json.Marshal(got.MetaInfo)
	if err != nil {
		return err
	}
	w, err := json.Marshal(want.MetaInfo)
	if err != nil {
		return err
	}
	if !bytes.Equal(g, w) {
		return errors.New("what rides in the handle differs from what was written")
	}
	return nil
}

// goClients are two clients in Go, one that writes and one that reads.
type goClients struct{ produce, consume *client.Client }

func (*goClients) columns() []string { return []string{"client in Go"} }

// hand times from rows to a handle, and from the handle to rows.
func (g *goClients) hand(ctx context.Context, w *work) ([]handing, error) {
	before, began := g.produce.Stats(), time.Now()
	r, err := w.rows.pack()
	if err != nil {
		return nil, err
	}
	h, err := g.produce.PutRollout(ctx, r, client.BundleOptions{})
	if err != nil {
		return nil, err
	}
	put := time.Since(began)
	if w.size.PutCalls, err = calls("PUT", before, g.produce.Stats(), 3, w.size.PutCalls); err != nil {
		return nil, err
	}
	before, began = g.consume.Stats(), time.Now()
	got, err := g.consume.GetRollout(ctx, h)
	if err != nil {
		return nil, err
	}
	if _, err := w.shape.unpack(got); err != nil {
		return nil, err
	}
	get := time.Since(began)
	if w.size.GetCalls, err = calls("GET", before, g.consume.Stats(), 1, w.size.GetCalls); err != nil {
		return nil, err
	}
	if err := same(got, w.want); err != nil {
		return nil, err
	}
	return []handing{{ms(put), ms(get)}}, g.produce.RemoveRollout(ctx, h)
}

// calls answers with the most calls so far, and refuses more than promised of what did not have to be tried again.
func calls(what string, before, after client.Stats, promised, most uint64) (uint64, error) {
	n := after.MasterCalls - before.MasterCalls
	if after.Retries == before.Retries && n > promised {
		return n, fmt.Errorf("a %s took %d calls to the master, at most %d are promised", what, n, promised)
	}
	return max(n, most), nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// wheels are two unchanged clients.
type wheels struct{ produce, consume *interop.Store }

func (*wheels) columns() []string { return []string{"wheel " + interop.R13.Version()} }

func (p *wheels) hand(_ context.Context, w *work) ([]handing, error) {
	handle, _, put, err := p.produce.PutBundle(w.Bundle)
	if err != nil {
		return nil, err
	}
	diff, get, err := p.consume.GetBundle(handle, w.Bundle, nil, nil)
	if err != nil {
		return nil, err
	}
	if diff != "" {
		return nil, fmt.Errorf("the wheel reads something else: %s", diff)
	}
	return []handing{{put, get}}, p.produce.CleanBundle(handle)
}

//go:embed raystore.py
var rayScript []byte

// rayMemoryBytes is the object store of each of the two nodes.
const rayMemoryBytes = 1 << 30

// rayStore is Ray with two nodes.
type rayStore struct {
	worker  *interop.Client
	version string
}

// startRay starts Ray in a namespace of its own for networks, and for processes, so that nothing of it stays.
func startRay(rig *interop.Rig, python string) (*rayStore, error) {
	script := filepath.Join(rig.Dir, "raystore.py")
	if err := os.WriteFile(script, rayScript, 0o644); err != nil {
		return nil, err
	}
	args := []string{"--net", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		args = append(args, "--map-root-user")
	}
	cmd := exec.Command("unshare", append(args, python, "-u", script)...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "PYTHONPATH="+rig.Dir, "PYTHONDONTWRITEBYTECODE=1", "RAY_AUTH_MODE=disabled", "RAY_USAGE_STATS_ENABLED=0",
		"RAY_TMPDIR="+rig.Dir) // the far node looks for the address there, and in a folder of the system's otherwise, which need not exist
	worker, err := rig.StartWorker("ray", cmd)
	if err != nil {
		return nil, err
	}
	r := &rayStore{worker: worker}
	err = worker.Do("start", map[string]any{"folder": filepath.Join(rig.Dir, "ray"), "memory": rayMemoryBytes}, &r.version)
	if err != nil {
		return nil, fmt.Errorf("-ray-python=%s: %w", python, err)
	}
	return r, nil
}

func (*rayStore) columns() []string { return []string{"Ray, one node", "Ray, two nodes"} }

func (r *rayStore) hand(_ context.Context, w *work) ([]handing, error) {
	var took struct {
		Put  float64 `json:"put_ms"`
		Near float64 `json:"near_ms"`
		Far  float64 `json:"far_ms"`
		Diff string  `json:"diff"`
	}
	if err := r.worker.Do("hand", map[string]any{"rows": w.Rows, "seed": w.Seed, "only": w.Only, "shape": w.Shape}, &took); err != nil {
		return nil, err
	}
	if took.Diff != "" {
		return nil, fmt.Errorf("something else comes out of Ray: %s", took.Diff)
	}
	return []handing{{took.Put, took.Near}, {took.Put, took.Far}}, nil
}
