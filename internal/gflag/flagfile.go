package gflag

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mooncake/internal/limits"
)

// flagfile applies a file of flags at the place where it was named.
func (r *reader) flagfile(name string) {
	if r.err != nil {
		return
	}
	if r.depth == limits.FlagfileDepth {
		r.fail("flagfile '%s': more than %d files inside one another", name, limits.FlagfileDepth)
		return
	}
	file, err := os.Open(name)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		r.fail("flagfile '%s': %w", name, err)
		return
	}
	defer file.Close()
	r.depth++
	defer func() { r.depth-- }()
	r.lines(name, io.LimitReader(file, limits.FlagfileBytes+1))
}

func (r *reader) lines(name string, in io.Reader) {
	relevant, inPatterns, size := true, false, 0
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, limits.FlagfileBytes)
	for n := 1; scan.Scan() && r.err == nil; n++ {
		size += len(scan.Bytes()) + 1
		line := strings.TrimLeft(scan.Text(), " \t")
		line = strings.TrimSuffix(line, "\r")
		if line == "" || line[0] == '#' {
			continue
		}
		body, isFlag := stripDashes(line)
		if !isFlag {
			// Patterns on consecutive lines add up; the first after flags starts anew.
			relevant = r.matches(line) || inPatterns && relevant
			inPatterns = true
			continue
		}
		inPatterns = false
		if relevant {
			r.fileFlag(name, n, body)
		}
	}
	if err := scan.Err(); err != nil {
		r.fail("flagfile '%s': %w", name, err)
	}
	if size > limits.FlagfileBytes {
		r.fail("flagfile '%s': larger than %d bytes", name, limits.FlagfileBytes)
	}
}

func (r *reader) fileFlag(file string, line int, body string) {
	name, value, hasValue := strings.Cut(body, "=")
	f := r.find(name)
	switch {
	case f.kind == kindUnknown:
		r.out.Warnings = append(r.out.Warnings, fmt.Sprintf("flagfile '%s', line %d: no flag '%s', line ignored", file, line, name))
		return
	case f.negated && !f.isBool():
		r.fail("boolean value (%s) specified for %s command line flag", name, f.typeName())
		return
	case f.negated:
		value = "false"
	case hasValue:
	case f.isBool():
		value = "true"
	default:
		r.fail("flag '--%s' is missing its argument; flag description: %s", name, f.usage())
		return
	}
	r.set(f, value)
}

// matches tells whether one of the blank-separated patterns of a line means this program.
func (r *reader) matches(patterns string) bool {
	base := filepath.Base(r.program.Name)
	for _, p := range strings.Fields(patterns) {
		for _, name := range [...]string{base, r.program.Name} {
			if ok, err := path.Match(p, name); ok && err == nil {
				return true
			}
		}
	}
	return false
}
