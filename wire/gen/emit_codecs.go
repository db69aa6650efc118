package main

import "strings"

// emitTypeCodecs writes the functions of every struct that some call uses, once for each layout.
func (m *model) emitTypeCodecs(e *emitter) {
	e.pack = true
	used := m.used()
	for _, name := range m.names {
		done := map[string]bool{}
		for r, s := range m.schemas {
			n, ok := s.nodes[name]
			if !ok || n.kind != kindStruct || !used[name] {
				continue
			}
			suffix := m.suffix(name, r)
			if done[suffix] {
				continue
			}
			done[suffix] = true
			e.r = r
			m.emitStructCodec(e, n, m.union.nodes[name])
		}
	}
}

func (m *model) emitStructCodec(e *emitter, n, rich *node) {
	e.line("func %s(d *pack.Decoder, x *%s) {", e.function("read", n), n.name)
	e.readStruct(n, rich)
	e.line("}\n")
	e.line("func %s(a *pack.Appender, x *%s) {", e.function("put", n), n.name)
	e.putStruct(n, rich)
	e.line("}\n")
	if !hasCompat(n) {
		return
	}
	each := func(visit func(n, rich *node, x string)) {
		for _, f := range n.fields {
			visit(f.typ, rich.fields[indexField(rich.fields, f.name)].typ, "x."+camel(f.name))
		}
	}
	e.line("func %s(d *pack.Decoder, x *%s) {", e.function("fill", n), n.name)
	each(e.fill)
	e.line("}\n")
	e.line("func %s(a *pack.Appender, x *%s) {", e.function("more", n), n.name)
	each(e.more)
	e.line("}\n")
}

// used is the set of structs that calls reach.
func (m *model) used() map[string]bool {
	set := map[string]bool{}
	var visit func(n *node)
	visit = func(n *node) {
		if n.name != "" {
			set[n.name] = true
		}
		for _, a := range n.args {
			visit(a)
		}
		for _, f := range n.fields {
			visit(f.typ)
		}
	}
	for _, c := range m.calls {
		for r := range releases {
			for _, a := range c.args[r] {
				visit(a)
			}
			visit(c.reply[r])
		}
	}
	return set
}

// emitCallCodecs writes four functions per call.
func (m *model) emitCallCodecs(e *emitter) {
	e.pack = true
	for _, c := range m.calls {
		req := m.requestType(c)
		requestKey := func(r int) string {
			var b strings.Builder
			for _, a := range c.args[r] {
				b.WriteString(expand(a) + ",")
			}
			return b.String()
		}
		replyKey := func(r int) string { return expand(c.reply[r]) }
		table := "callTable[Call" + c.name + "]"
		e.line("func decode%sRequest(body []byte, v Dialect, x *%s) error {\n*x = %s{}", c.name, req, req)
		if len(c.richArgs) == 0 {
			e.line("return nil\n}\n")
			e.line("func append%sRequest(dst []byte, v Dialect, x *%s) []byte {\nreturn dst\n}\n", c.name, req)
		} else {
			e.decodeBody(table+".request[v]", requestKey, func() { m.readArgs(e, c) })
			e.line("func append%sRequest(dst []byte, v Dialect, x *%s) []byte {", c.name, req)
			e.appendBody(table+".request[v]", requestKey, func() { m.putArgs(e, c) })
		}
		reply := c.name + "Reply"
		e.line("func decode%s(body []byte, v Dialect, x *%s) error {", reply, reply)
		e.line("var zero %s\n*x = zero", reply)
		e.decodeBody(table+".reply[v]", replyKey, func() {
			e.read(c.reply[e.r], c.rich, "(*x)")
			e.fill(c.reply[e.r], c.rich, "(*x)")
		})
		e.line("func append%s(dst []byte, v Dialect, x *%s) []byte {", reply, reply)
		e.appendBody(table+".reply[v]", replyKey, func() {
			e.put(c.reply[e.r], c.rich, "(*x)")
			e.more(c.reply[e.r], c.rich, "(*x)")
		})
	}
}

// decodeBody writes the rest of a decode function; inner writes one layout.
func (e *emitter) decodeBody(typ string, key func(int) string, inner func()) {
	e.line("opened := pack.NewDecoder(body, %s)\nd := &opened", typ)
	e.perLayout(key, inner)
	e.line("return d.Err()\n}\n")
}

// appendBody writes the rest of an append function.
func (e *emitter) appendBody(typ string, key func(int) string, inner func()) {
	e.line("started := pack.NewAppender(dst, %s)\na := &started\nfor {", typ)
	e.perLayout(key, inner)
	e.line("if a.Done() {\nreturn a.Bytes()\n}\n}\n}\n")
}

// perLayout writes a switch over the dialects that joins those of one layout; no switch if there is only one.
func (e *emitter) perLayout(key func(int) string, inner func()) {
	last := len(releases) - 1
	var groups [][]int
	for r := 0; r <= last; r++ {
		if r > 0 && key(r) == key(r-1) {
			g := len(groups) - 1
			groups[g] = append(groups[g], r)
			continue
		}
		groups = append(groups, []int{r})
	}
	if len(groups) == 1 {
		e.r = last
		inner()
		return
	}
	e.line("switch v {")
	for i, g := range groups {
		if i == len(groups)-1 {
			e.line("default:")
		} else {
			var names []string
			for _, r := range g {
				names = append(names, "V"+short[r])
			}
			e.line("case %s:", strings.Join(names, ", "))
		}
		// The newest of the group: a release that lacks the call borrows, and its own schema may lack the types.
		e.r = g[len(g)-1]
		inner()
	}
	e.line("}")
}

func (m *model) readArgs(e *emitter, c *call) {
	for i, a := range c.args[e.r] {
		e.read(a, c.richArgs[i], "x."+camel(c.names[i]))
	}
	for i, a := range c.args[e.r] {
		e.fill(a, c.richArgs[i], "x."+camel(c.names[i]))
	}
}

func (m *model) putArgs(e *emitter, c *call) {
	for i, a := range c.args[e.r] {
		e.put(a, c.richArgs[i], "x."+camel(c.names[i]))
	}
	for i, a := range c.args[e.r] {
		e.more(a, c.richArgs[i], "x."+camel(c.names[i]))
	}
}
