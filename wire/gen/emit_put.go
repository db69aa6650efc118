package main

// put writes the statements that encode x, a Go value of the richest form, in layout n.
func (e *emitter) put(n, rich *node, x string) {
	rich, x = place(n, rich, x)
	switch n.kind {
	case kindScalar:
		e.line("a.%s(%s)", scalarOf(n).method, x)
	case kindEnum:
		s := scalarOf(n)
		e.line("a.%s(%s(%s))", s.method, s.goType, x)
	case kindString:
		e.line("a.String(%s)", x)
	case kindUUID:
		e.line("a.U64(%s.Hi)\na.U64(%s.Lo)", x, x)
	case kindVoid, kindCompat:
	case kindVector, kindMap:
		e.putContainer(n, rich, x)
	case kindOptional:
		e.putOptional(n, rich, x)
	case kindExpected:
		e.line("if a.Bool(%s.Err == 0); %s.Err == 0 {", x, x)
		e.put(n.args[0], rich.args[0], x+".Value")
		e.line("} else {")
		e.put(n.args[1], rich.args[1], x+".Err")
		e.line("}")
	case kindVariant:
		e.putVariant(n, rich, x)
	case kindStruct:
		e.line("%s(a, &%s)", e.function("put", n), x)
	}
}

// hides tells whether a layout of a struct cannot show every value of the richest form: its variant knows fewer
// alternatives.
func hides(n, rich *node) bool {
	if n.kind != kindStruct || n.name != "ReplicaDescriptor" {
		return false
	}
	for _, f := range n.fields {
		if f.typ.kind == kindVariant {
			return len(f.typ.args) < len(rich.fields[indexField(rich.fields, f.name)].typ.args)
		}
	}
	return false
}

func (e *emitter) putContainer(n, rich *node, x string) {
	i := e.index()
	defer e.close()
	if n.kind == kindVector && hides(n.args[0], rich.args[0]) {
		count := e.variable("n")
		e.line("%s := 0\nfor %s := range %s {\nif shownTo12(&%s[%s]) {\n%s++\n}\n}", count, i, x, x, i, count)
		e.line("a.Len(%s)\nfor %s := range %s {\nif shownTo12(&%s[%s]) {", count, i, x, x, i)
		e.put(n.args[0], rich.args[0], x+"["+i+"]")
		e.line("}\n}")
		return
	}
	e.line("a.Len(len(%s))\nfor %s := range %s {", x, i, x)
	if n.kind == kindMap {
		e.put(n.args[0], rich.args[0], x+"["+i+"].Key")
		e.put(n.args[1], rich.args[1], x+"["+i+"].Value")
	} else {
		e.put(n.args[0], rich.args[0], x+"["+i+"]")
	}
	e.line("}")
}

func (e *emitter) putOptional(n, rich *node, x string) {
	set := x + ".Set"
	if hides(n.args[0], rich.args[0]) {
		set += " && shownTo12(&" + x + ".Value)"
	}
	e.line("if a.Bool(%s); %s {", set, set)
	e.put(n.args[0], rich.args[0], x+".Value")
	e.line("}")
}

func (e *emitter) putVariant(n, rich *node, x string) {
	e.line("switch %s.Index {", x)
	for i, a := range n.args {
		at := x + "." + alternatives[a.name]
		e.line("case %d:\na.U8(%d)", i, i)
		if i == 0 {
			e.line("%s(a, &%s)", e.function("put", a), at)
			continue
		}
		e.line("if %s != nil {\n%s(a, %s)\n} else {\n%s(a, &%s{})\n}", at, e.function("put", a), at, e.function("put", a), a.name)
	}
	e.line("default:")
	if len(n.args) < len(rich.args) {
		e.line("a.U8(VariantDisk)\n%s(a, diskTo12(&%s))", "putDiskDescriptor", x)
	} else {
		e.line("a.U8(VariantMemory)\n%s(a, &%s.Memory)", e.function("put", n.args[0]), x)
	}
	e.line("}")
}

// putStruct writes the body of a struct's put function.
func (e *emitter) putStruct(n, rich *node) {
	offset := 0
	for _, f := range n.fields {
		if n.pod {
			size := scalarOf(f.typ).size
			if p := padding(offset, size); p > 0 {
				e.line("a.Zeros(%d)", p)
				offset += p
			}
			offset += size
		}
		if fold, ok := folded[n.name+"."+f.name]; ok {
			e.line("a.%s(%s(x))", scalarOf(f.typ).method, fold.encode)
			continue
		}
		e.put(f.typ, rich.fields[indexField(rich.fields, f.name)].typ, "x."+camel(f.name))
	}
	if p := padding(offset, podAlign1(n)); p > 0 {
		e.line("a.Zeros(%d)", p)
	}
}

// more writes the second walk over a value, which appends the compatible fields.
func (e *emitter) more(n, rich *node, x string) {
	if !hasCompat(n) {
		return
	}
	switch n.kind {
	case kindCompat:
		e.line("if a.Bool(%s.Set); %s.Set {", x, x)
		e.put(n.args[0], rich.args[0], x+".Value")
		e.line("}")
	default:
		e.walk("more", "a", n, rich, x, e.more)
	}
}
