package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"mooncake/wire/pack"
)

// emitCallStructs writes the argument structs and the names of the answers.
func (m *model) emitCallStructs(e *emitter) {
	for _, c := range m.calls {
		req := m.requestType(c)
		e.line("// %s holds the arguments of %s.", req, c.name)
		e.line("type %s struct {", req)
		for i, a := range c.richArgs {
			var in []int
			for r := range releases {
				if c.in[r] && i < len(c.args[r]) {
					in = append(in, r)
				}
			}
			note := ""
			if len(in) < len(c.releases()) {
				note = " // only" + inReleases(in)
			}
			e.line("%s %s%s", camel(c.names[i]), goType(a), note)
		}
		e.line("}\n")
		e.line("// %sReply is the answer to %s.", c.name, c.name)
		e.line("type %sReply = %s\n", c.name, goType(c.rich))
	}
}

func (c *call) releases() []int {
	var in []int
	for r := range releases {
		if c.in[r] {
			in = append(in, r)
		}
	}
	return in
}

// typeName is the Go variable of a root type.
func typeName(n *node) string {
	name := fmt.Sprintf("type%08x", pack.Hash(literal(n)))
	if hasCompat(n) {
		name += "Compat"
	}
	return name
}

// emitCalls writes the call numbers, the table, and one variable per call.
func (m *model) emitCalls(e *emitter) {
	e.pack = true
	e.line("// The calls of all releases.\nconst (")
	for i, c := range m.calls {
		if i == 0 {
			e.line("Call%s CallID = iota", c.name)
		} else {
			e.line("Call%s", c.name)
		}
	}
	e.line(")\n")
	e.line("// NumCalls is the number of calls.\nconst NumCalls = %d\n", len(m.calls))
	m.emitRoots(e)
	e.line("var callTable = [NumCalls]callInfo{")
	for _, c := range m.calls {
		var in, req, rep []string
		for r := range releases {
			if c.in[r] {
				in = append(in, "1<<V"+short[r])
			}
			root := requestRoot(c.args[r])
			if root == nil {
				req = append(req, "nil")
			} else {
				req = append(req, typeName(root))
			}
			rep = append(rep, typeName(c.reply[r]))
		}
		e.line("Call%s: {%q, 0x%08x, %s, [numDialects]*pack.Type{%s}, [numDialects]*pack.Type{%s}, %t},", c.name, c.name, c.id,
			strings.Join(in, "|"), strings.Join(req, ", "), strings.Join(rep, ", "), c.ambiguous())
	}
	e.line("}\n")
	e.line("// Lookup finds the call of a function id.")
	e.line("func Lookup(functionID uint32) (CallID, bool) {\nswitch functionID {")
	for _, c := range m.calls {
		e.line("case 0x%08x: return Call%s, true", c.id, c.name)
	}
	e.line("}\nreturn 0, false\n}\n")
	e.line("// The calls with their types.\nvar (")
	for _, c := range m.calls {
		req, reply := m.requestType(c), c.name+"Reply"
		e.line("%s = Call[%s, %s]{Call%s, decode%sRequest, append%sRequest, decode%s, append%s}", c.name, req, reply, c.name,
			c.name, c.name, reply, reply)
	}
	e.line(")")
}

// emitRoots writes the root types, each once.
func (m *model) emitRoots(e *emitter) {
	roots := map[string]*node{}
	for _, c := range m.calls {
		for r := range releases {
			if root := requestRoot(c.args[r]); root != nil {
				roots[typeName(root)] = root
			}
			roots[typeName(c.reply[r])] = c.reply[r]
		}
	}
	var names []string
	for name := range roots {
		names = append(names, name)
	}
	sort.Strings(names)
	e.line("// The types at the root of bodies, named by their hash.\nvar (")
	for _, name := range names {
		e.line("%s = pack.NewType(%s, %t)", name, hexString(literal(roots[name])), hasCompat(roots[name]))
	}
	e.line(")\n")
}

// hexString is a Go string literal with every byte in hex.
func hexString(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "\\x%02x", s[i])
	}
	return `"` + b.String() + `"`
}

// emitUnavailable writes how each call says that it is not offered.
func (m *model) emitUnavailable(e *emitter) {
	e.line("var unavailable = [NumCalls]func(dst []byte, v Dialect, request []byte) []byte{")
	for _, c := range m.calls {
		e.line("Call%s: func(dst []byte, v Dialect, request []byte) []byte {", c.name)
		switch c.rich.kind {
		case kindExpected:
			e.line("return append%sReply(dst, v, &%sReply{Err: %s})", c.name, c.name, notOffered(c.rich))
		case kindVector:
			e.line("var req %s", m.requestType(c))
			e.line("if decode%sRequest(request, v, &req) != nil {\nreturn append%sReply(dst, v, &%sReply{})\n}", c.name, c.name, c.name)
			e.line("rep := make(%sReply, len(req.%s))\nfor i := range rep {\nrep[i].Err = %s\n}", c.name, c.items(),
				notOffered(c.rich.args[0]))
			e.line("return append%sReply(dst, v, &rep)", c.name)
		default:
			e.line("return append%sReply(dst, v, new(%sReply))", c.name, c.name)
		}
		e.line("},")
	}
	e.line("}")
}

// notOffered is the error an expected holds when its call is not offered.
func notOffered(expected *node) string {
	if expected.args[1].name == "ErrorCode" {
		return "ErrUnavailableInCurrentMode"
	}
	return "WeightErrNotReady"
}

// items is the argument that a batch call answers item by item: its first list.
func (c *call) items() string {
	for i, a := range c.richArgs {
		if a.kind == kindVector {
			return camel(c.names[i])
		}
	}
	return ""
}

// emitCallTests writes the list of all calls that the tests of package wire walk through.
func (m *model) emitCallTests(e *emitter) {
	e.line("var everyCall = [NumCalls]anyCall{")
	for _, c := range m.calls {
		e.line("Call%s: callOf(&%s),", c.name, c.name)
	}
	e.line("}")
}

// writeTable prints all calls in markdown.
func (m *model) writeTable(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| call | id | releases | reply differs behind one request |\n|---|---|---|---|\n")
	for _, c := range m.calls {
		var in []string
		for _, r := range c.releases() {
			in = append(in, short[r])
		}
		ambiguous := ""
		if c.ambiguous() {
			ambiguous = "yes"
		}
		fmt.Fprintf(&b, "| %s | %08x | %s | %s |\n", c.name, c.id, strings.Join(in, ", "), ambiguous)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
