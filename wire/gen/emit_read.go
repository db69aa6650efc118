package main

// read writes the statements that decode a value of layout n into lhs, a Go value of the richest form.
func (e *emitter) read(n, rich *node, lhs string) {
	rich, lhs = place(n, rich, lhs)
	switch n.kind {
	case kindScalar:
		e.line("%s = d.%s()", lhs, scalarOf(n).method)
	case kindEnum:
		e.line("%s = %s(d.%s())", lhs, n.name, scalarOf(n).method)
	case kindString:
		e.line("%s = d.String()", lhs)
	case kindUUID:
		e.line("%s.Hi = d.U64()\n%s.Lo = d.U64()", lhs, lhs)
	case kindVoid, kindCompat:
	case kindVector, kindMap:
		e.readContainer(n, rich, lhs)
	case kindOptional:
		e.line("if d.Bool() {\n%s.Set = true", lhs)
		e.read(n.args[0], rich.args[0], lhs+".Value")
		e.line("}")
	case kindExpected:
		e.readExpected(n, rich, lhs)
	case kindVariant:
		e.readVariant(n, lhs)
	case kindStruct:
		e.line("%s(d, &%s)", e.function("read", n), lhs)
	}
}

func (e *emitter) readContainer(n, rich *node, lhs string) {
	i, s, count := e.index(), e.variable("s"), e.variable("n")
	least := 0
	for _, a := range n.args {
		least += minBytes(a)
	}
	e.line("if %s := d.Count(%d); %s > 0 {", count, least, count)
	e.line("%s := make(%s, %s)", s, goType(rich), count)
	e.line("for %s := range %s {", i, s)
	if n.kind == kindMap {
		e.read(n.args[0], rich.args[0], s+"["+i+"].Key")
		e.read(n.args[1], rich.args[1], s+"["+i+"].Value")
	} else {
		e.read(n.args[0], rich.args[0], s+"["+i+"]")
	}
	e.line("}\n%s = %s\n}", lhs, s)
	e.close()
}

func (e *emitter) readExpected(n, rich *node, lhs string) {
	if n.args[0].kind == kindVoid {
		e.line("if !d.Bool() {")
	} else {
		e.line("if d.Bool() {")
		e.read(n.args[0], rich.args[0], lhs+".Value")
		e.line("} else {")
	}
	e.read(n.args[1], rich.args[1], lhs+".Err")
	e.line("if %s.Err == 0 {\nd.Fail(pack.ErrNoError)\n}\n}", lhs)
}

func (e *emitter) readVariant(n *node, lhs string) {
	e.line("%s.Index = d.U8()", lhs)
	e.line("switch %s.Index {", lhs)
	for i, a := range n.args {
		e.line("case %d:", i)
		at := lhs + "." + alternatives[a.name]
		if i == 0 {
			e.line("%s(d, &%s)", e.function("read", a), at)
		} else {
			e.line("%s = new(%s)\n%s(d, %s)", at, a.name, e.function("read", a), at)
		}
	}
	e.line("default:\nd.Fail(pack.ErrVariant)\n}")
}

// readStruct writes the body of a struct's read function.
func (e *emitter) readStruct(n, rich *node) {
	offset := 0
	for _, f := range n.fields {
		if n.pod {
			size := scalarOf(f.typ).size
			if p := padding(offset, size); p > 0 {
				e.line("d.Skip(%d)", p)
				offset += p
			}
			offset += size
		}
		if fold, ok := folded[n.name+"."+f.name]; ok {
			e.line("%s(x, d.%s())", fold.decode, scalarOf(f.typ).method)
			continue
		}
		e.read(f.typ, rich.fields[indexField(rich.fields, f.name)].typ, "x."+camel(f.name))
	}
	if p := padding(offset, podAlign1(n)); p > 0 {
		e.line("d.Skip(%d)", p)
	}
}

// podAlign1 is podAlign for a plain aggregate and 1 for everything else.
func podAlign1(n *node) int {
	if n.pod {
		return podAlign(n)
	}
	return 1
}

// fill writes the second walk over a decoded value, which reads the compatible fields.
func (e *emitter) fill(n, rich *node, lhs string) {
	if !hasCompat(n) {
		return
	}
	switch n.kind {
	case kindCompat:
		e.line("if d.More() && d.Bool() {\n%s.Set = true", lhs)
		e.read(n.args[0], rich.args[0], lhs+".Value")
		e.line("}")
	default:
		e.walk("fill", "d", n, rich, lhs, e.fill)
	}
}

// walk writes the way to the compatible fields of a value: into its elements, its present optionals, its active
// alternative and its taken side. kind names the functions of structs, visit does the same for a part.
func (e *emitter) walk(kind, first string, n, rich *node, x string, visit func(n, rich *node, x string)) {
	switch n.kind {
	case kindStruct:
		e.line("%s(%s, &%s)", e.function(kind, n), first, x)
	case kindVector:
		i := e.index()
		e.line("for %s := range %s {", i, x)
		visit(n.args[0], rich.args[0], x+"["+i+"]")
		e.line("}")
		e.close()
	case kindMap:
		i := e.index()
		e.line("for %s := range %s {", i, x)
		visit(n.args[0], rich.args[0], x+"["+i+"].Key")
		visit(n.args[1], rich.args[1], x+"["+i+"].Value")
		e.line("}")
		e.close()
	case kindOptional:
		e.line("if %s.Set {", x)
		visit(n.args[0], rich.args[0], x+".Value")
		e.line("}")
	case kindExpected:
		e.line("if %s.Err == 0 {", x)
		visit(n.args[0], rich.args[0], x+".Value")
		e.line("}")
	case kindVariant:
		e.line("switch %s.Index {", x)
		for i, a := range n.args {
			if !hasCompat(a) {
				continue
			}
			e.line("case %d:", i)
			at := x + "." + alternatives[a.name]
			if i == 0 {
				e.line("%s(%s, &%s)", e.function(kind, a), first, at)
			} else {
				e.line("if %s != nil {\n%s(%s, %s)\n} else {\n%s(%s, &%s{})\n}", at, e.function(kind, a), first, at,
					e.function(kind, a), first, a.name)
			}
		}
		e.line("}")
	}
}
