package main

import "strings"

// emitTypes writes the message types and enums.
func (m *model) emitTypes(e *emitter) {
	for _, name := range m.names {
		n := m.union.nodes[name]
		if n.kind == kindEnum {
			m.emitEnum(e, n)
			continue
		}
		e.line("// %s is %s%s.", name, typeDocs[name], onlyIn(m.releasesOf(name)))
		e.line("type %s struct {", name)
		for _, f := range n.fields {
			note := ""
			if len(f.in) < len(m.releasesOf(name)) {
				note = " // only" + inReleases(f.in)
			}
			e.line("%s %s%s", camel(f.name), goType(f.typ), note)
		}
		e.line("}\n")
	}
}

func (m *model) releasesOf(name string) []int {
	var in []int
	for r, s := range m.schemas {
		if _, ok := s.types[name]; ok {
			in = append(in, r)
		}
	}
	return in
}

// inReleases is " in 13 and 14"; empty for all three.
func inReleases(in []int) string {
	if len(in) == len(releases) {
		return ""
	}
	var names []string
	for _, r := range in {
		names = append(names, short[r])
	}
	return " in " + strings.Join(names, " and ")
}

// onlyIn is ", only in 13 and 14"; empty for all three.
func onlyIn(in []int) string {
	if text := inReleases(in); text != "" {
		return ", only" + text
	}
	return ""
}

// emitEnum writes an enum, its constants and String, which answers the names of the public sources.
func (m *model) emitEnum(e *emitter, n *node) {
	prefix := n.name
	if p, ok := enumPrefix[n.name]; ok {
		prefix = p
	}
	e.line("// %s is %s%s.", n.name, typeDocs[n.name], onlyIn(m.releasesOf(n.name)))
	e.line("type %s %s\n", n.name, goType(n.args[0]))
	e.line("// Values of %s.", n.name)
	e.line("const (")
	for _, v := range n.values {
		note := ""
		if v.since > 0 && len(m.releasesOf(n.name)) == len(releases) {
			note = " // since " + short[v.since]
		}
		e.line("%s %s = %d%s", prefix+camel(v.name), n.name, v.value, note)
	}
	e.line(")\n")
	e.line("// String is the value's name on the other side of the wire, or its number.")
	e.line("func (v %s) String() string {", n.name)
	e.line("switch v {")
	for _, v := range n.values {
		e.line("case %s: return %q", prefix+camel(v.name), v.name)
	}
	e.line("}\nreturn unknownValue(%q, int64(v))\n}\n", n.name)
}
