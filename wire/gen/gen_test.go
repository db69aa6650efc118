package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const specFolder = "../spec"

// TestCommittedFilesAreFresh: what lies in package wire is what this program writes from the JSON beside it.
func TestCommittedFilesAreFresh(t *testing.T) {
	m, err := load(specFolder)
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate in wire", name)
		}
	}
	committed, err := filepath.Glob("../*.gen*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range committed {
		if files[filepath.Base(path)] == nil {
			t.Errorf("%s is written by nobody", path)
		}
	}
}

// TestOutputIsTheSameEveryTime: no map order gets into the files.
func TestOutputIsTheSameEveryTime(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		if err := run(specFolder, dir, false, nil); err != nil {
			t.Fatal(err)
		}
	}
	names, err := filepath.Glob(filepath.Join(dirs[0], "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("wrote %d files, %v", len(names), err)
	}
	for _, name := range names {
		a, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dirs[1], filepath.Base(name)))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs, %v", filepath.Base(name), err)
		}
	}
}

// TestRefusesWrongRecords: one changed record is enough to write nothing.
func TestRefusesWrongRecords(t *testing.T) {
	tests := []struct {
		name, file, old, new string
		want                 string
	}{
		{"hash of a type", "types.json", `"hash_as_root": "5052dc22"`, `"hash_as_root": "5052dc24"`, "hash is 5052dc22"},
		{"literal of a type", "types.json", `"type_literal_hex": "fd0404800c800cff"`, `"type_literal_hex": "fd0404800cff"`, "literal is"},
		{"type of a field", "types.json", `"type": "u64"`, `"type": "u32"`, "literal is"},
		{"unknown type", "types.json", `"type": "u64"`, `"type": "u65"`, `unknown type "u65"`},
		{"unknown composite", "types.json", `"type": "vec<string>"`, `"type": "deque<string>"`, `unknown type "deque<string>"`},
		{"type argument too many", "types.json", `"type": "vec<string>"`, `"type": "vec<string,u8>"`, "2 type arguments"},
		{"second version of compatible fields", "types.json", `"compat<SegmentLocality,1>"`, `"compat<SegmentLocality,2>"`, "only version 1"},
		{"no such release", "types.json", `"0.3.13.post1": {`, `"0.3.13": {`, "no release 0.3.13.post1"},
		{"function id", "rpcs.json", `"id": 2302172937`, `"id": 2302172938`, "id is 89385f09"},
		{"request hash", "rpcs.json", `"request_hash": "7cf91ed8"`, `"request_hash": "7cf91eda"`, "request: hash is"},
		{"reply literal", "rpcs.json", `"response_type_literal_hex": "870b01"`, `"response_type_literal_hex": "870b02"`, "reply: literal is"},
		{"argument", "rpcs.json", `"vec<pair<u64,u64>>"`, `"vec<u64>"`, "request: literal is"},
		{"new call without argument names", "rpcs.json", `"name": "ExistKey"`, `"name": "ExistsKey"`, "id is"},
		{"service prefix", "rpcs.json", `"service_prefix": "mooncake::`, `"service_prefix": "other::`, "service prefix"},
		{"no JSON", "rpcs.json", `{`, `[`, "rpcs.json"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, out := t.TempDir(), t.TempDir()
			for _, name := range []string{"types.json", "rpcs.json"} {
				text, err := os.ReadFile(filepath.Join(specFolder, name))
				if err != nil {
					t.Fatal(err)
				}
				if name == tt.file {
					changed := strings.Replace(string(text), tt.old, tt.new, 1)
					if changed == string(text) {
						t.Fatalf("%s has no %s", name, tt.old)
					}
					text = []byte(changed)
				}
				if err := os.WriteFile(filepath.Join(spec, name), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := run(spec, out, false, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
			if names, err := filepath.Glob(filepath.Join(out, "*")); err != nil || len(names) > 0 {
				t.Errorf("wrote %v, %v", names, err)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := run(specFolder, t.TempDir(), true, &b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2+81 {
		t.Errorf("%d lines", len(lines))
	}
	for _, want := range []string{
		"| ExistKey | 89385f09 | 12, 13, 14 |  |",
		"| GetReplicaList | 1f7ef174 | 12, 13, 14 | yes |",
		"| DynamicReplicaCopyStart | 21118d62 | 13, 14 |  |",
		"| ProbeKey | d2180da3 | 14 |  |",
	} {
		if !strings.Contains(b.String(), want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	if err := run(t.TempDir(), "", true, &b); err == nil {
		t.Error("an empty spec folder is accepted")
	}
}

func TestCamel(t *testing.T) {
	for in, want := range map[string]string{
		"client_id": "ClientID", "soft_pin_ttl_ms": "SoftPinTTLMs", "te_endpoint": "TeEndpoint", "id": "ID", "group_ids": "GroupIDs",
		"OBJECT_NOT_FOUND": "ObjectNotFound", "OK": "OK", "None": "None", "base": "Base",
	} {
		if got := camel(in); got != want {
			t.Errorf("camel(%q) = %q, want %q", in, got, want)
		}
	}
}
