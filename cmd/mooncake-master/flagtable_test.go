package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mooncake/internal/gflag"
)

// row is one flag of the published masters, over their releases.
type row struct{ name, kind, def, fileKey string }

// published reads the list of flags of all three releases.
func published(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("testdata/master-flags.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		col := strings.Split(line, "\t")
		out = append(out, row{col[0], col[1], col[2], col[5]})
	}
	if len(out) != 108 {
		t.Fatalf("%d rows", len(out))
	}
	return out
}

// values are given to flags whose default is nothing, or cannot be given alone.
var values = map[string]string{
	"rpc_interface": "lo", "root_fs_dir": "/shared", "ha_backend_connstring": "h:1", "etcd_endpoints": "h:1", "rpc_port": "7", "port": "7",
	"tenant_quota_connector_uri": "h:1",
}

// company are the flags without which another one is refused.
var company = map[string][]string{
	"enable_ha":            {"--rpc_address=127.0.0.1", "--etcd_endpoints=h:1"},
	"enable_kv_events":     {"--kv_events_bind_endpoint=tcp://127.0.0.1:7", "--kv_events_backend_id=b"},
	"enable_multi_tenants": {"--tenant_quota_connector_type=etcd", "--tenant_quota_connector_uri=h:1"},
}

// forms are all the ways to say that a flag has a value. What they need in files and in the environment is in dir and env.
func forms(t *testing.T, r row, value string, env map[string]string) [][]string {
	t.Helper()
	dashed, file := strings.ReplaceAll(r.name, "_", "-"), filepath.Join(t.TempDir(), "flags")
	written := "# a comment\n--" + r.name + "=" + value + "\n"
	env["FLAGS_"+r.name] = value
	out := [][]string{
		{"--" + r.name + "=" + value},
		{"-" + r.name + "=" + value},
		{"--" + dashed + "=" + value},
		{"-" + dashed + "=" + value},
		{"stray", "--" + r.name + "=" + value, "words"},
		{"--" + r.name + "=" + value, "--undefok=" + r.name},
		{"--flagfile=" + file},
		{"--flagfile", file},
		{"--fromenv=" + r.name},
		{"--tryfromenv=" + r.name + ",rpc_address"},
	}
	switch {
	case r.kind != "bool":
		out = append(out, []string{"--" + r.name, value}, []string{"-" + dashed, value}, []string{"--" + r.name, "nonsense", "--" + r.name, value})
		if r.kind != "string" {
			out[len(out)-1][1] = "1" // the last one counts, but all are read
		}
	case value == "true":
		out = append(out, []string{"--" + r.name}, []string{"-" + r.name}, []string{"--" + dashed}, []string{"--" + r.name, "false"})
		for _, word := range []string{"1", "t", "T", "y", "yes", "YES", "True"} {
			out = append(out, []string{"--" + r.name + "=" + word})
		}
		written = "--" + r.name + "\n"
	default:
		out = append(out, []string{"--no" + r.name}, []string{"-no" + r.name}, []string{"--no" + dashed})
		for _, word := range []string{"0", "f", "F", "n", "no", "NO", "False"} {
			out = append(out, []string{"--" + r.name + "=" + word})
		}
		written = "-no" + r.name + "\n"
	}
	if err := os.WriteFile(file, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPublishedFlags gives every flag of three releases in every form: it is accepted, and has the value.
func TestPublishedFlags(t *testing.T) {
	config := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range published(t) {
		given := []string{r.def}
		switch {
		case r.kind == "bool":
			given = []string{"true", "false"}
		case r.name == flagConfigPath:
			given = []string{config}
		case values[r.name] != "":
			given = []string{values[r.name]}
		case r.def == "":
			given = []string{"x"}
		}
		for _, value := range given {
			env := map[string]string{}
			for _, args := range forms(t, r, value, env) {
				if slices.Contains(args, "nonsense") && (newCommandLine(newName).flags.Lookup(r.name).Value.Type() != "string" || strings.HasSuffix(r.name, "_ttl") || r.name == "allocation_strategy" || r.name == "memory_allocator") {
					continue // these look at each value
				}
				all := append(args[:len(args):len(args)], company[r.name]...)
				accepts(t, r.name, value, all, env)
			}
		}
	}
}

// accepts checks one command line: it is taken, and a flag has a value.
func accepts(t *testing.T, flag, value string, args []string, env map[string]string) {
	t.Helper()
	l := newCommandLine(oldName)
	look := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	_, err := gflag.Parse(l.flags, args, gflag.Program{Name: oldName, LookupEnv: look})
	if err == nil {
		f := l.flags.Lookup(flag)
		got, want := f.Value.String(), newCommandLine(oldName).flags.Lookup(flag).Value
		if err := want.Set(value); err != nil || !f.Changed || got != want.String() {
			t.Errorf("%q: %s is %q, want %q (%v)", args, flag, got, want, err)
		}
		if err = l.settle(); err == nil {
			err = l.cfg.Validate()
		}
	}
	if err != nil {
		t.Errorf("%q is refused: %v", args, err)
	}
}

// otherDefaults are defaults that differ from those of the published masters, with the reason.
var otherDefaults = map[string]string{
	"rpc_port": "50051, since 0 takes a free port here; --port is the older name, as there",
}

// TestPublishedDefaults starts under the published name and compares what is in force when nothing is said.
func TestPublishedDefaults(t *testing.T) {
	l := newCommandLine(oldName)
	for _, r := range published(t) {
		f := l.flags.Lookup(r.name)
		if f == nil {
			t.Errorf("there is no %s", r.name)
			continue
		}
		got, want := f.Value.String(), f.Value
		if r.def != "" {
			if err := want.Set(r.def); err != nil {
				t.Errorf("%s does not take its published default %q: %v", r.name, r.def, err)
			}
		}
		if same := got == want.String(); same == (otherDefaults[r.name] != "") {
			t.Errorf("%s: default %q, published %q; a known difference: %q", r.name, got, r.def, otherDefaults[r.name])
		}
	}
}

// TestHelpForms asks for help and for the version in every way.
func TestHelpForms(t *testing.T) {
	for _, arg := range []string{"--help", "-help", "--helpfull", "--helpshort", "--helpxml", "--helpon=master", "--helpmatch=m", "--helppackage"} {
		code, out, errs := call(oldName, arg)
		if code != 1 || errs != "" || !strings.Contains(out, "rpc_port") || !strings.Contains(out, "enable_cxl") {
			t.Errorf("%s: code %d, %d bytes, %q", arg, code, len(out), errs)
		}
	}
	for _, args := range [][]string{{"--version"}, {"-version"}, {"--version", "--rpc_port=1"}, {"--version=true"}} {
		if code, out, errs := call(oldName, args...); code != 0 || errs != "" || !strings.HasPrefix(out, oldName+" version ") {
			t.Errorf("%q: code %d, %q, %q", args, code, out, errs)
		}
	}
}

// TestConfigFile sets every flag that a file can set, in both formats.
func TestConfigFile(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		var lines []string
		want := map[string]string{}
		for _, r := range published(t) {
			if slices.Contains(fileKeys.FlagsOnly, r.name) && r.name != flagClientTTL || r.name == "rpc_interface" || strings.HasPrefix(r.name, "enable_") {
				continue
			}
			key, value := r.name, r.def
			if r.name == flagClientTTL {
				key = "client_live_ttl_sec"
			}
			if v := values[r.name]; v != "" {
				value = v
			}
			if value == "" {
				value = "x"
			}
			want[r.name] = value
			if r.kind == "string" {
				value = fmt.Sprintf("%q", value)
			}
			if format == "json" {
				lines = append(lines, fmt.Sprintf("  %q: %s", key, value))
			} else {
				lines = append(lines, key+": "+value)
			}
		}
		text := strings.Join(lines, "\n")
		if format == "json" {
			text = "{ // all of them\n" + strings.Join(lines, ",\n") + "\n}"
		}
		path := filepath.Join(t.TempDir(), "c."+format)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l := given(t, oldName, "--config_path="+path)
		if err := l.cfg.Validate(); err != nil {
			t.Error(err)
		}
		for name, value := range want {
			f := l.flags.Lookup(name)
			got := f.Value.String()
			if err := f.Value.Set(value); err != nil || f.Value.String() != got {
				t.Errorf("%s: %s is %q after the file says %q (%v)", format, name, got, value, err)
			}
		}
	}
}

// TestConfigFileRules looks at what wins, what is told and what is refused.
func TestConfigFileRules(t *testing.T) {
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "--config_path=" + path
	}
	l := given(t, newName, file("c.yaml", "client_live_ttl_sec: 33\nrpc_port: 7\nenable_ha: no\nenable_http_metadata_server: \"on\"\n"), "--client_ttl=10")
	if l.cfg.ClientActiveTTL.Seconds() != 10 || l.cfg.RPCPort != 7 || l.cfg.HA || !l.cfg.MetadataServer {
		t.Errorf("%s", &l.cfg)
	}
	if l := given(t, newName, file("c.json", `{"client_live_ttl_sec": 33}`)); l.cfg.ClientActiveTTL.Seconds() != 33 || l.cfg.RPCPort != 50051 {
		t.Errorf("%s", &l.cfg)
	}
	if l := given(t, newName, file("c.json", `{"default_kv_lease_ttl": 5000, "default_kv_soft_pin_ttl": "3 s", "enable_http_metadata_server": 1}`)); l.cfg.LeaseTTL.Seconds() != 5 || l.cfg.SoftPinTTL.Seconds() != 3 || !l.cfg.MetadataServer {
		t.Errorf("%s", &l.cfg)
	}
	warning := warningOf(given(t, newName, file("c.json", `{"client_ttl": 3, "port": 4, "nested": {"key": 1}, "no_such_key": "x", "pod_name": "p"}`)).without)
	for _, w := range []string{"client_ttl in", "port in", "nested.key in", "no_such_key in", "--pod_name"} {
		if !strings.Contains(warning, w) {
			t.Errorf("%q does not name %q", warning, w)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"c.json", `{"rpc_port": "7"}`, "rpc_port"},
		{"c.json", `{"rpc_port": 70000}`, "rpc_port"},
		{"c.json", `{"rpc_port": true}`, "rpc_port"},
		{"c.json", `{"enable_ha": "true"}`, "enable_ha"},
		{"c.json", `{"enable_ha": 2}`, "enable_ha"},
		{"c.json", `{"cluster_id": 7}`, "cluster_id"},
		{"c.json", `{"eviction_ratio": 1.5}`, "eviction_ratio"},
		{"c.json", `{"default_kv_lease_ttl": "5q"}`, "default_kv_lease_ttl"},
		{"c.json", `{"rpc_port": 7,}`, "config_path"},
		{"c.json", `[]`, "config_path"},
		{"c.yaml", "a: [1]\n", "config_path"},
		{"c.yaml", "rpc_port: seven\n", "rpc_port"},
		{"c.toml", "", "config_path"},
	} {
		code, out, errs := call(newName, file(c.name, c.text), "--check_config")
		if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: code %d, %q, %q", c.text, code, out, errs)
		}
	}
	if code, _, errs := call(newName, "--config_path=/no/such/file.yaml"); code != 1 || !strings.Contains(errs, "/no/such/file.yaml") {
		t.Errorf("code %d, %q", code, errs)
	}
}
