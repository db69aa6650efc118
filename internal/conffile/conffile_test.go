package conffile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// given writes a file and reads it; the answer lists key=text.
func given(t *testing.T, name, text string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := Read(path)
	var out []string
	for _, e := range entries {
		out = append(out, e.Key+"="+e.Text)
	}
	return strings.Join(out, " "), err
}

func TestRead(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.json", `{"rpc_port": 1, "io":"raw", "enable_ha": true, "none": null}`, "rpc_port=1 io=raw enable_ha=true"},
		{"a.json", "{ // of the port\n \"rpc_port\": 1, /* and\n more */ \"u\": \"http://x\" }", "rpc_port=1 u=http://x"},
		{"a.json", `{"a": {"b": {"c": 1.5}}, "d": "\"//\""}`, `a.b.c=1.5 d="//"`},
		{"a.json", `{}`, ""},
		{"a.yaml", "rpc_port: 1\nio: \"raw\"\nenable_ha: yes\nnone:\n", "rpc_port=1 io=raw enable_ha=yes"},
		{"a.yml", "# nothing\n", ""},
		{"a.yaml", "", ""},
		{"a.yaml", "a:\n  b: 0x10\n", "a.b=0x10"},
	} {
		if got, err := given(t, c.name, c.text); err != nil || got != c.want {
			t.Errorf("%s %q: %q, %v; want %q", c.name, c.text, got, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a.toml", "", ".json, .yaml or .yml"},
		{"a.json", `{"a": 1,}`, "invalid character"},
		{"a.json", `[1]`, "want an object"},
		{"a.json", `{"a": [1]}`, "a is a list"},
		{"a.json", `{"a": {"b": [1]}}`, "a.b is a list"},
		{"a.json", `{"a": 1`, "too early"},
		{"a.json", `{} {}`, "follows"},
		{"a.json", ``, "too early"},
		{"a.json", `{"a": 1, "a": 2}`, `"a" is there twice`},
		{"a.json", `{/*`, "invalid character"},
		{"a.json", strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40), "inside one another"},
		{"a.yaml", "- 1\n", "line 1: a list"},
		{"a.yaml", "a:\n  - 1\n", "line 2: a list"},
		{"a.yaml", "just words\n", "want keys"},
		{"a.yaml", "a: &x 1\nb: *x\n", "line 2: aliases"},
		{"a.yaml", "a: [\n", "line"},
		{"a.yaml", "a: 1\na: 2\n", "twice"},
		{"a.yaml", strings.Repeat("# x\n", 1<<19), "larger than"},
	} {
		if got, err := given(t, c.name, c.text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %.40q: %q, %v; want %q", c.name, c.text, got, err, c.want)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.json")); err == nil || strings.Contains(err.Error(), "none.json") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestKinds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	if err := os.WriteFile(path, []byte(`{"a":"1","b":1,"c":false}`), 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := Read(path)
	if got := fmt.Sprint(entries); err != nil || got != "[{a 1 0 } {b 1 1 } {c false 2 }]" {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a": 1, // x` + "\n" + `"b": {"c": "d"}}`))
	f.Add([]byte("a: 1\nb:\n  c: yes\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) ([]Entry, error){parseJSON, parseYAML} {
			if entries, err := parse(text); err == nil && len(entries) > len(text) {
				t.Errorf("%d entries of %d bytes", len(entries), len(text))
			}
		}
	})
}
