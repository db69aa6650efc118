package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mooncake/internal/gflag"
)

// otherDefaults are defaults that differ from those of the published program, with the reason.
var otherDefaults = map[string]string{
	"host": "the first address of the host, since nobody reaches 0.0.0.0",
}

// TestPublishedFlags gives every flag of the published program, of three releases, in every form: it is accepted and has the
// value; and what is in force when nothing is said is what the published program has.
func TestPublishedFlags(t *testing.T) {
	text, err := os.ReadFile("testdata/client-flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(rows) != 16 {
		t.Errorf("%d rows", len(rows))
	}
	for _, line := range rows {
		col := strings.Split(line, "\t")
		name, kind, def := col[0], col[1], col[2]
		f := newOptions(clientName).flags.Lookup(name)
		if f == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		if same := f.Value.String() == def; same == (otherDefaults[name] != "") {
			t.Errorf("%s: default %q, published %q; a known difference: %q", name, f.Value, def, otherDefaults[name])
		}
		given := []string{def}
		switch {
		case kind == "bool":
			given = []string{"true", "false"}
		case def == "":
			given = []string{"x"}
		}
		for _, value := range given {
			for _, args := range forms(t, name, kind, value) {
				accepts(t, name, value, args)
			}
		}
	}
}

// forms are all the ways to say that a flag has a value.
func forms(t *testing.T, name, kind, value string) [][]string {
	t.Helper()
	dashed, file := strings.ReplaceAll(name, "_", "-"), filepath.Join(t.TempDir(), "flags")
	if err := os.WriteFile(file, []byte("# a comment\n--"+name+"="+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := [][]string{
		{"--" + name + "=" + value},
		{"-" + name + "=" + value},
		{"--" + dashed + "=" + value},
		{"-" + dashed + "=" + value},
		{"stray", "--" + name + "=" + value, "words"},
		{"--" + name + "=" + value, "--undefok=" + name},
		{"--flagfile=" + file},
		{"--fromenv=" + name},
		{"--tryfromenv=" + name + ",host"},
	}
	switch {
	case kind != "bool":
		return append(out, []string{"--" + name, value}, []string{"-" + dashed, value})
	case value == "true":
		out = append(out, []string{"--" + name}, []string{"-" + dashed}, []string{"--" + name, "false"})
	default:
		out = append(out, []string{"--no" + name}, []string{"-no" + dashed})
	}
	return out
}

// accepts checks one command line: it is taken, and a flag has a value.
func accepts(t *testing.T, flag, value string, args []string) {
	t.Helper()
	o := newOptions(clientName)
	look := func(name string) (string, bool) { return value, name == "FLAGS_"+flag }
	_, err := gflag.Parse(o.flags, args, gflag.Program{Name: clientName, LookupEnv: look})
	if f := o.flags.Lookup(flag); err == nil && (!f.Changed || f.Value.String() != value) {
		t.Errorf("%q: %s is %q", args, flag, f.Value)
	}
	if err == nil {
		cfg, _, configErr := o.config(func(string) (string, bool) { return "", false })
		if err = configErr; err == nil {
			err = cfg.Validate()
		}
	}
	if err != nil {
		t.Errorf("%q is refused: %v", args, err)
	}
}

// TestConfigFile reads the file of the published store process, and flags win over it.
func TestConfigFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	text := `{"local_hostname": "h", "global_segment_size": 33554432, "protocol": "tcp", "client_http_port": 9, "enable_client_http_server": true, "te_port": 18000, "local_buffer_size": 5, "no_such_key": "x"}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(string) (string, bool) { return "", false }
	byEnv := func(name string) (string, bool) { return path, name == envConfigPath }
	for name, look := range map[string]func(string) (string, bool){"--config_path=" + path: none, "": byEnv} {
		o := newOptions(clientName)
		if _, err := gflag.Parse(o.flags, append(strings.Fields(name), "--te_port=18001"), gflag.Program{Name: clientName, LookupEnv: look}); err != nil {
			t.Fatal(err)
		}
		cfg, notes, err := o.config(look)
		if err != nil {
			t.Fatal(err)
		}
		if cfg.LocalHostname != "h" || cfg.SegmentBytes != 32<<20 || cfg.HTTPPort != 9 || cfg.TEPort != 18001 {
			t.Errorf("%q: %s", name, cfg)
		}
		all := strings.Join(notes, "\n")
		if !strings.Contains(all, "no_such_key in "+path) || !strings.Contains(all, "--local_buffer_size") || strings.Count(all, withoutEffect) != 1 {
			t.Errorf("%q: %q", name, all)
		}
	}
}

// TestReload has a running daemon read its file anew.
func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("task_workers: 2\n")
	d := startDaemon(t, "--shm_dir="+t.TempDir(), "--config_path="+path)
	d.until(t, "serving")
	hangUp := func(word string) string {
		t.Helper()
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		return d.until(t, word)
	}
	write("task_workers: 3\npeer_allow_from: 10.0.0.0/8\n")
	line := hangUp("reloaded")
	for _, want := range []string{"peer_allow_from:  -> 10.0.0.0/8", "left_until_restart", "task_workers: 2 -> 3"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q does not say %q", line, want)
		}
	}
	write("task_workers: many\n")
	if line = hangUp("nothing is reloaded"); !strings.Contains(line, "task_workers") {
		t.Errorf("%q does not name the key", line)
	}
	if code := d.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("code %d", code)
	}
}
