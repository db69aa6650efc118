package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mooncake/internal/limits"
	"mooncake/internal/units"
)

// daemonView is a segment daemon of this host as it tells of itself (GET /memory).
type daemonView struct {
	Name          string       `json:"name"`
	Endpoint      string       `json:"endpoint"`
	SizeBytes     uint64       `json:"size_bytes"`
	Regions       []regionView `json:"regions"`
	ResidentBytes uint64       `json:"resident_bytes"`
	Populate      string       `json:"populate"`
	Waiting       string       `json:"populate_waits_for,omitempty"`
	FreeBytes     uint64       `json:"free_bytes"`
	Available     uint64       `json:"available_bytes"`
	CgroupLimit   uint64       `json:"cgroup_limit_bytes,omitempty"`
	CgroupUsed    uint64       `json:"cgroup_used_bytes,omitempty"`
	CgroupFile    string       `json:"cgroup_file,omitempty"`
	ShmFreeBytes  uint64       `json:"shm_free_bytes"`
	MemoryHigh    string       `json:"memory_high,omitempty"`
	Scarce        bool         `json:"scarce"`
	Resize        resizeView   `json:"resize"`
}

type regionView struct {
	Name          string `json:"name"`
	Base          string `json:"base"`
	SizeBytes     uint64 `json:"size_bytes"`
	ResidentBytes uint64 `json:"resident_bytes"`
}

// resizeView is how far a change of size is.
type resizeView struct {
	State       string `json:"state"`
	FromBytes   uint64 `json:"from_bytes,omitempty"`
	TargetBytes uint64 `json:"target_bytes,omitempty"`
	Left        uint64 `json:"left"`
	Moved       uint64 `json:"moved"`
	MovedBytes  uint64 `json:"moved_bytes"`
	Note        string `json:"note,omitempty"`
	Error       string `json:"error,omitempty"`
}

// String is one line for people.
func (r resizeView) String() string {
	text := r.State
	switch r.State {
	case "none":
		return ""
	case "draining":
		text += fmt.Sprintf(": %d objects left, %d moved (%s)", r.Left, r.Moved, size(r.MovedBytes))
	}
	if why := r.Note + r.Error; why != "" {
		text += ": " + why
	}
	return text
}

// hostDaemon is a segment daemon of this host, by its admin socket.
type hostDaemon struct {
	socket string
	http   http.Client
}

// socketDirs are where daemons have their sockets: beside the arena, and where the unit for systemd has the state.
var socketDirs = []string{"/dev/shm", "/var/lib/mooncake-segment"}

// daemonHere finds the daemon: the one whose socket is given, or the only one there is.
func (e *env) daemonHere(socket string) (*hostDaemon, error) {
	if socket == "" {
		var found []string
		for _, dir := range socketDirs {
			here, err := filepath.Glob(filepath.Join(e.hostRoot, dir, "mooncake-segment_*.sock"))
			if err != nil {
				return nil, err
			}
			found = append(found, here...)
		}
		switch len(found) {
		case 0:
			return nil, fmt.Errorf("no segment daemon has its socket in %s: name it with --socket", strings.Join(socketDirs, " or "))
		case 1:
		default:
			return nil, fmt.Errorf("several segment daemons run here, name one with --socket: %s", strings.Join(found, ", "))
		}
		socket = found[0]
	}
	d := &hostDaemon{socket: socket}
	d.http.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	return d, nil
}

// ask makes one request and reads what the daemon tells of itself.
func (d *hostDaemon) ask(ctx context.Context, method, page string, body []byte) (v daemonView, err error) {
	q, err := http.NewRequestWithContext(ctx, method, "http://daemon"+page, bytes.NewReader(body))
	if err != nil {
		return v, err
	}
	resp, err := d.http.Do(q)
	if err != nil {
		return v, fmt.Errorf("the daemon at %s does not answer: %w", d.socket, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limits.SegmentPageBytes))
	switch {
	case err != nil:
		return v, err
	case resp.StatusCode >= http.StatusMultipleChoices:
		return v, errors.New(strings.TrimSpace(string(text)))
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, fmt.Errorf("the daemon at %s answers strangely: %w", d.socket, err)
	}
	return v, nil
}

func (e *env) segment() *cobra.Command {
	socket := ""
	cmd := &cobra.Command{Use: "segment", Short: "the segment daemon of this host: its memory, and how to change it"}
	cmd.PersistentFlags().StringVar(&socket, "socket", "", "admin socket of the daemon (its --admin_socket); not given: the only one in "+strings.Join(socketDirs, " or "))
	cmd.AddCommand(&cobra.Command{
		Use: "show", Short: "regions, what of them is in memory, and what the host has left", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := e.daemonHere(socket)
			if err != nil {
				return err
			}
			ctx, cancel := e.short(cmd.Context())
			defer cancel()
			v, err := d.ask(ctx, http.MethodGet, "/memory", nil)
			if err != nil {
				return err
			}
			return e.printDaemon(v)
		},
	}, e.resize(&socket))
	return cmd
}

func (e *env) printDaemon(v daemonView) error {
	lines := []fact{
		{"segment", v.Name},
		{"endpoint", v.Endpoint},
		{"size", size(v.SizeBytes)},
		{"in memory", fmt.Sprintf("%s (%s)", size(v.ResidentBytes), percent(v.ResidentBytes, v.SizeBytes))},
		{"finding memory ahead", v.Populate},
		{"waits", v.Waiting},
		{"change of size", v.Resize},
		{"free", size(v.FreeBytes)},
		{"available", size(v.Available)},
		{"free for arenas", size(v.ShmFreeBytes)},
		{"memory_high", v.MemoryHigh},
	}
	if v.CgroupLimit > 0 {
		lines = append(lines, fact{"cgroup limit", fmt.Sprintf("%s, %s used (%s)", size(v.CgroupLimit), size(v.CgroupUsed), v.CgroupFile)})
	}
	if v.Scarce {
		lines = append(lines, fact{"memory is", "scarce"})
	}
	for _, r := range v.Regions {
		lines = append(lines, fact{"region " + r.Name, fmt.Sprintf("%s at %s, %s in memory", size(r.SizeBytes), r.Base, size(r.ResidentBytes))})
	}
	return facts(e, v, lines...)
}

func (e *env) resize(socket *string) *cobra.Command {
	within := time.Minute
	cmd := e.destructive(&cobra.Command{
		Use: "resize SIZE", Short: "make the segment larger by a region, or smaller by its latest ones", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := units.ParseSize(args[0])
			if err != nil {
				return fmt.Errorf("SIZE: %w", err)
			}
			if within < time.Millisecond {
				return fmt.Errorf("--within=%s is too short", within)
			}
			d, err := e.daemonHere(*socket)
			if err != nil {
				return err
			}
			ctx, cancel := e.short(cmd.Context())
			defer cancel()
			v, err := d.ask(ctx, http.MethodGet, "/memory", nil)
			if err != nil {
				return err
			}
			return e.do(fmt.Sprintf("resize %s from %s to %s", v.Name, size(v.SizeBytes), size(want)), func() error {
				return e.resizeTo(cmd.Context(), d, want, within)
			})
		},
	})
	cmd.Flags().DurationVar(&within, "within", within, "when smaller: how long it may take to move away what lies on the regions that go")
	return cmd
}

// resizePoll is the time between two looks at a change of size.
const resizePoll = 100 * time.Millisecond

// resizeTo gives the order and follows it to its end. The daemon goes on when nobody follows.
func (e *env) resizeTo(ctx context.Context, d *hostDaemon, bytes uint64, within time.Duration) error {
	order, err := json.Marshal(struct {
		Bytes    uint64 `json:"bytes"`
		WithinMs int64  `json:"within_ms"`
	}{bytes, within.Milliseconds()})
	if err != nil {
		return err
	}
	method, page, said := http.MethodPost, "/resize", ""
	for {
		call, cancel := e.short(ctx)
		v, err := d.ask(call, method, page, order)
		cancel()
		if err != nil {
			return err
		}
		method, page, order = http.MethodGet, "/memory", nil
		switch v.Resize.State {
		case "done":
			return nil
		case "failed":
			return errors.New(v.Resize.Error)
		}
		if line := v.Resize.String(); line != said {
			said = line
			fmt.Fprintln(e.err, line)
		}
		select {
		case <-ctx.Done():
			return errors.New("no longer followed: the daemon goes on, see mooncakectl segment show")
		case <-time.After(resizePoll):
		}
	}
}
