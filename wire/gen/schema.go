package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"mooncake/wire/pack"
)

// releases are the keys of the JSON files, in the order of the Dialect constants.
var releases = []string{"0.3.12.post1", "0.3.13.post1", "0.3.14"}

// short are the suffixes of generated functions, one per release.
var short = []string{"12", "13", "14"}

// kind is what a node of a type expression is.
type kind int

const (
	kindScalar kind = iota
	kindString
	kindVoid
	kindVector
	kindMap
	kindOptional
	kindCompat
	kindVariant
	kindExpected
	kindUUID
	kindEnum
	kindStruct
)

// node is one type as a release sees it.
type node struct {
	kind   kind
	name   string // scalar, enum or struct
	args   []*node
	fields []field // struct
	pod    bool    // struct copied as C memory
	values []enumValue
}

type field struct {
	name string
	typ  *node
	in   []int // releases that have it; filled for the union only
}

type enumValue struct {
	name  string
	value int64
	since int
}

// jsonType is one entry of types.json.
type jsonType struct {
	Kind       string
	Underlying string
	Values     json.RawMessage
	Fields     []struct{ Name, Type string }
	Pod        bool
	LiteralHex string `json:"type_literal_hex"`
	Hash       string `json:"hash_as_root"`
}

// jsonCall is one entry of rpcs.json.
type jsonCall struct {
	Name            string
	ID              uint32
	Request         []string
	Response        string
	RequestHash     string `json:"request_hash"`
	ResponseHash    string `json:"response_hash"`
	RequestLiteral  string `json:"request_type_literal_hex"`
	ResponseLiteral string `json:"response_type_literal_hex"`
}

// schema is the types of one release, or the union of all.
type schema struct {
	order []string
	types map[string]jsonType
	nodes map[string]*node
}

// readSchemas reads types.json and checks every literal and hash in it.
func readSchemas(dir string) ([]*schema, error) {
	var file struct {
		Versions map[string]json.RawMessage
	}
	if err := readJSON(filepath.Join(dir, "types.json"), &file); err != nil {
		return nil, err
	}
	var out []*schema
	for _, release := range releases {
		raw, ok := file.Versions[release]
		if !ok {
			return nil, fmt.Errorf("types.json has no release %s", release)
		}
		s := &schema{types: map[string]jsonType{}, nodes: map[string]*node{}}
		err := eachMember(raw, func(name string, value json.RawMessage) error {
			var t jsonType
			if err := json.Unmarshal(value, &t); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			s.order, s.types[name] = append(s.order, name), t
			return nil
		})
		if err != nil {
			return nil, err
		}
		if err := s.check(release); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func readJSON(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// eachMember visits the members of a JSON object in the order they are written.
func eachMember(raw json.RawMessage, visit func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := visit(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

// check recalculates the literal and hash of every struct.
func (s *schema) check(release string) error {
	for _, name := range s.order {
		t := s.types[name]
		n, err := s.parse(name)
		if err != nil {
			return fmt.Errorf("%s %s: %w", release, name, err)
		}
		if t.Kind != "struct" {
			continue
		}
		if err := checkLiteral(literal(n), t.LiteralHex, t.Hash); err != nil {
			return fmt.Errorf("%s %s: %w", release, name, err)
		}
	}
	return nil
}

// checkLiteral compares a calculated literal and its hash with the recorded ones.
func checkLiteral(lit, recordedHex, recordedHash string) error {
	if got := fmt.Sprintf("%x", lit); got != recordedHex {
		return fmt.Errorf("literal is %s, recorded %s", got, recordedHex)
	}
	if got := fmt.Sprintf("%08x", pack.Hash(lit)); got != recordedHash {
		return fmt.Errorf("hash is %s, recorded %s", got, recordedHash)
	}
	return nil
}

// parse turns a type expression into a node.
func (s *schema) parse(expr string) (*node, error) {
	if n, ok := s.nodes[expr]; ok {
		return n, nil
	}
	n, err := s.parseNew(expr)
	if err != nil {
		return nil, err
	}
	s.nodes[expr] = n
	return n, nil
}

// composites are the kinds written as name<...>, with the number of type arguments (0: any).
var composites = map[string]struct {
	kind kind
	args int
}{
	"vec": {kindVector, 1}, "opt": {kindOptional, 1}, "map": {kindMap, 2}, "expected": {kindExpected, 2}, "variant": {kindVariant, 0},
	"compat": {kindCompat, 1},
}

func (s *schema) parseNew(expr string) (*node, error) {
	switch {
	case scalars[expr].size > 0:
		return &node{kind: kindScalar, name: expr}, nil
	case expr == "string":
		return &node{kind: kindString}, nil
	case expr == "void":
		return &node{kind: kindVoid}, nil
	case expr == "pair<u64,u64>":
		return &node{kind: kindUUID}, nil
	}
	head, rest, ok := strings.Cut(expr, "<")
	if !ok {
		return s.parseNamed(expr)
	}
	c, ok := composites[head]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", expr)
	}
	args := splitArgs(strings.TrimSuffix(rest, ">"))
	if head == "compat" {
		// The walk over compatible fields runs once per version number; only number 1 is known to exist.
		if len(args) != 2 || args[1] != "1" {
			return nil, fmt.Errorf("%q: only version 1 is understood", expr)
		}
		args = args[:1]
	}
	if c.args > 0 && len(args) != c.args {
		return nil, fmt.Errorf("%q has %d type arguments", expr, len(args))
	}
	n := &node{kind: c.kind}
	for _, a := range args {
		arg, err := s.parse(a)
		if err != nil {
			return nil, err
		}
		n.args = append(n.args, arg)
	}
	return n, nil
}

func (s *schema) parseNamed(name string) (*node, error) {
	t, ok := s.types[name]
	if !ok {
		return nil, fmt.Errorf("unknown type %q", name)
	}
	if t.Kind == "enum" {
		n := &node{kind: kindEnum, name: name, args: []*node{{kind: kindScalar, name: t.Underlying}}}
		err := eachMember(t.Values, func(value string, raw json.RawMessage) error {
			v, err := strconv.ParseInt(string(raw), 10, 64)
			n.values = append(n.values, enumValue{name: value, value: v})
			return err
		})
		return n, err
	}
	n := &node{kind: kindStruct, name: name, pod: t.Pod}
	for _, f := range t.Fields {
		ft, err := s.parse(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", name, f.Name, err)
		}
		n.fields = append(n.fields, field{name: f.Name, typ: ft})
	}
	return n, nil
}

// splitArgs cuts at the commas that no angle bracket encloses.
func splitArgs(s string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range s {
		switch {
		case c == '<':
			depth++
		case c == '>':
			depth--
		case c == ',' && depth == 0:
			out, from = append(out, strings.TrimSpace(s[from:i])), i+1
		}
	}
	return append(out, strings.TrimSpace(s[from:]))
}
