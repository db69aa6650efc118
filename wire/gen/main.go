// Command gen writes the generated files of package wire from spec/types.json and spec/rpcs.json. It recalculates every
// function id, type literal and type hash, and refuses to write anything if one differs from what the JSON records.
// With -table it prints a markdown table of all calls instead.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	spec := flag.String("spec", "spec", "folder of types.json and rpcs.json")
	out := flag.String("out", ".", "folder the *.gen.go files are written to")
	table := flag.Bool("table", false, "print a markdown table of all calls and write no files")
	flag.Parse()
	if err := run(*spec, *out, *table, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(spec, out string, table bool, stdout io.Writer) error {
	m, err := load(spec)
	if err != nil {
		return err
	}
	if table {
		return m.writeTable(stdout)
	}
	files, err := m.generate()
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(out, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// load reads and checks the JSON files.
func load(spec string) (*model, error) {
	schemas, err := readSchemas(spec)
	if err != nil {
		return nil, err
	}
	m, err := unite(schemas)
	if err != nil {
		return nil, err
	}
	return m, m.readCalls(spec)
}

// generate makes the text of every generated file, by name.
func (m *model) generate() (map[string][]byte, error) {
	out := map[string][]byte{}
	for name, emit := range map[string]func(*emitter){
		"types.gen.go":        m.emitTypes,
		"codec_types.gen.go":  m.emitTypeCodecs,
		"codec_calls.gen.go":  m.emitCallCodecs,
		"calls.gen.go":        m.emitCalls,
		"calls.gen_test.go":   m.emitCallTests,
		"unavailable.gen.go":  m.emitUnavailable,
		"call_structs.gen.go": m.emitCallStructs,
	} {
		e := &emitter{m: m}
		emit(e)
		text, err := e.source()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}
