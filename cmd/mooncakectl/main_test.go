package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"mooncake/master"
)

// TestDryRun asks for everything that changes something: without --apply nothing happens, and with it it does.
func TestDryRun(t *testing.T) {
	for _, args := range [][]string{
		{"objects", "rm", "a", "--force"},
		{"bundles", "gc"},
		{"bundles", "rm", theBundle},
		{"workloads", "set", "kv", "--prefix=kv/", "--soft=10GiB"},
		{"workloads", "rm", "kv"},
		{"drain", "10.0.0.2:17111", "--to=10.0.0.1:17111"},
		{"drain", "cancel", "9-3"},
		{"rebalance", "start"},
		{"rebalance", "stop"},
	} {
		c := scripted(t)
		code, out, errs := c.ctl(t, "/", args...)
		if code != 0 || c.destroyed.Load() != 0 || !strings.Contains(out, "would ") || !strings.Contains(out, "--apply") {
			t.Errorf("%q: exit %d, %d calls, %s%s", args, code, c.destroyed.Load(), out, errs)
		}
		code, out, errs = c.ctl(t, "/", append(args, "--apply")...)
		if code != 0 || c.destroyed.Load() != 1 || !strings.Contains(out, "done: ") {
			t.Errorf("%q --apply: exit %d, %d calls, %s%s", args, code, c.destroyed.Load(), out, errs)
		}
	}
	c := scripted(t)
	if code, out, _ := c.ctl(t, "/", "objects", "put", "k", "-"); code != 0 || !strings.Contains(out, "would store 5 bytes under k") {
		t.Errorf("put: exit %d %s", code, out)
	}
	// Refused for want of room: both numbers are told.
	code, _, errs := c.ctl(t, "/", "objects", "put", "k", "-", "--apply")
	if code != 1 || !strings.Contains(errs, "5 bytes") || !strings.Contains(errs, "48.00 GB") {
		t.Errorf("put: exit %d %s", code, errs)
	}
	if code, out, _ := c.ctl(t, "/", "bench"); code != 0 || !strings.Contains(out, "would write, read and remove 100 objects") {
		t.Errorf("bench: exit %d %s", code, out)
	}
}

func TestBadInput(t *testing.T) {
	c := scripted(t)
	for want, args := range map[string][]string{
		"-o=xml":                  {"status", "-o", "xml"},
		"unknown command":         {"nothing"},
		"--state=LOST":            {"bundles", "ls", "--state=LOST"},
		"OBJECT_NOT_FOUND":        {"objects", "stat", "b"},
		"OBJECT_NOT_FOUND (-704)": {"objects", "get", "b"},
		"no such bundle":          {"bundles", "show", "x"},
		"no id of a job":          {"drain", "cancel", "x"},
		"--limit=0":               {"objects", "ls", "--limit=0"},
		"--every=1ms":             {"top", "--every=1ms"},
		"--soft":                  {"workloads", "set", "x", "--soft=lots"},
		"--segment_size":          {"doctor", "--segment_size=lots"},
		"--timeout=0s":            {"status", "--timeout=0s"},
		"names no master":         {"status", "--master=,"},
		"--tls_ca is missing":     {"status", "--tls_cert=x"},
		"--tls_ca":                {"status", "--tls_ca=/no/such/file"},
		"has no journal":          {"snapshot", "inspect", t.TempDir()},
		"--size=0":                {"bench", "--size=0"},
		"is kept from use":        {"integrity", "release", "10.0.0.3:17111", "--apply"},
		"no such file":            {"objects", "put", "k", "/no/such/file"},
	} {
		code, out, errs := c.ctl(t, "/", args...)
		if code != 1 || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit %d, %s%s; want one line with %q", args, code, out, errs, want)
		}
	}
}

// TestSnapshotInspect reads the directory of a master in use.
func TestSnapshotInspect(t *testing.T) {
	cfg := master.DefaultConfig()
	cfg.RPCAddress, cfg.MetricsHost, cfg.RPCPort, cfg.MetricsPort, cfg.GRPCPort = "127.0.0.1", "127.0.0.1", 0, 0, -1
	cfg.DataDir = t.TempDir()
	srv, err := master.Listen(cfg, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	c := scripted(t)
	code, out, errs := c.ctl(t, "/", "snapshot", "inspect", cfg.DataDir, "-o", "json")
	var v journalView
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || len(v.Files) != 1 || v.Files[0].Kind != "journal" || !v.Files[0].Used || v.Damaged != 0 {
		t.Errorf("exit %d, %v, %s%s", code, err, out, errs)
	}
	if code, out, _ := c.ctl(t, "/", "snapshot", "inspect", cfg.DataDir); code != 0 || !strings.Contains(out, "last record") {
		t.Errorf("exit %d, %s", code, out)
	}
}

// TestCompletion lets shells complete sub-commands.
func TestCompletion(t *testing.T) {
	c := scripted(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, errs := c.ctl(t, "/", "completion", shell); code != 0 || !strings.Contains(out, "mooncakectl") {
			t.Errorf("%s: exit %d, %s", shell, code, errs)
		}
	}
}

// TestGet writes files that are whole or not there at all.
func TestGet(t *testing.T) {
	c := scripted(t)
	file := filepath.Join(t.TempDir(), "x")
	if code, _, errs := c.ctl(t, "/", "objects", "get", "b", "-f", file); code != 1 || !strings.Contains(errs, "not found") && !strings.Contains(errs, "OBJECT_NOT_FOUND") {
		t.Errorf("exit %d %s", code, errs)
	}
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
}
