package main

import (
	"fmt"
	"strings"

	"mooncake/wire/pack"
)

// scalar is how one scalar looks in Go, on the wire and in a literal.
type scalar struct {
	goType  string
	method  string // of pack.Decoder and pack.Appender
	size    int
	literal string
}

var scalars = map[string]scalar{
	"u8":   {"uint8", "U8", 1, pack.LiteralU8},
	"u16":  {"uint16", "U16", 2, pack.LiteralU16},
	"u32":  {"uint32", "U32", 4, pack.LiteralU32},
	"u64":  {"uint64", "U64", 8, pack.LiteralU64},
	"i32":  {"int32", "I32", 4, pack.LiteralI32},
	"i64":  {"int64", "I64", 8, pack.LiteralI64},
	"bool": {"bool", "Bool", 1, pack.LiteralBool},
}

// scalarOf is the scalar of a scalar or enum node.
func scalarOf(n *node) scalar {
	if n.kind == kindEnum {
		return scalars[n.args[0].name]
	}
	return scalars[n.name]
}

// literal calculates a type's literal.
func literal(n *node) string {
	arg := func(i int) string { return literal(n.args[i]) }
	switch n.kind {
	case kindScalar, kindEnum:
		return scalarOf(n).literal
	case kindString:
		return pack.LiteralString
	case kindVoid:
		return pack.LiteralVoid
	case kindUUID:
		return pack.LiteralTrivial(8, pack.LiteralU64, pack.LiteralU64)
	case kindVector:
		return pack.LiteralVector(arg(0))
	case kindOptional:
		return pack.LiteralOptional(arg(0))
	case kindMap:
		return pack.LiteralMap(arg(0), arg(1))
	case kindExpected:
		return pack.LiteralExpected(arg(0), arg(1))
	case kindCompat:
		return ""
	case kindVariant:
		var alternatives []string
		for i := range n.args {
			alternatives = append(alternatives, arg(i))
		}
		return pack.LiteralVariant(alternatives...)
	}
	var members []string
	for _, f := range n.fields {
		members = append(members, literal(f.typ))
	}
	if n.pod {
		return pack.LiteralTrivial(podAlign(n), members...)
	}
	return pack.LiteralStruct(members...)
}

// podAlign is the alignment of a plain aggregate: that of its widest scalar.
func podAlign(n *node) int {
	align := 1
	for _, f := range n.fields {
		align = max(align, scalarOf(f.typ).size)
	}
	return align
}

// hasCompat tells whether compatible fields sit somewhere inside a type.
func hasCompat(n *node) bool {
	if n.kind == kindCompat {
		return true
	}
	for _, a := range n.args {
		if hasCompat(a) {
			return true
		}
	}
	for _, f := range n.fields {
		if hasCompat(f.typ) {
			return true
		}
	}
	return false
}

// minBytes is the least number of bytes a value takes, with 1-byte container lengths.
func minBytes(n *node) int {
	switch n.kind {
	case kindScalar, kindEnum:
		return scalarOf(n).size
	case kindString, kindVector, kindMap, kindOptional:
		return 1
	case kindUUID:
		return 16
	case kindVoid, kindCompat:
		return 0
	case kindExpected:
		return 1 + min(minBytes(n.args[0]), minBytes(n.args[1]))
	case kindVariant:
		least := minBytes(n.args[0])
		for _, a := range n.args {
			least = min(least, minBytes(a))
		}
		return 1 + least
	}
	if n.pod {
		return podSize(n)
	}
	sum := 0
	for _, f := range n.fields {
		sum += minBytes(f.typ)
	}
	return sum
}

// podSize is the size of a plain aggregate's memory image.
func podSize(n *node) int {
	size := 0
	for _, f := range n.fields {
		s := scalarOf(f.typ).size
		size += padding(size, s) + s
	}
	return size + padding(size, podAlign(n))
}

// padding is the number of bytes from offset to the next multiple of align.
func padding(offset, align int) int { return (align - offset%align) % align }

// expand writes a type with all its structs opened: two releases whose expansions are equal share their code.
func expand(n *node) string {
	var b strings.Builder
	expandInto(&b, n)
	return b.String()
}

func expandInto(b *strings.Builder, n *node) {
	fmt.Fprintf(b, "%d:%s(", n.kind, n.name)
	for _, a := range n.args {
		expandInto(b, a)
		b.WriteByte(',')
	}
	for _, f := range n.fields {
		b.WriteString(f.name + " ")
		expandInto(b, f.typ)
		b.WriteByte(';')
	}
	b.WriteByte(')')
}
