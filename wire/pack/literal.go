package pack

import (
	"crypto/md5"
	"encoding/binary"
)

// Kinds of a type literal: scalars stand for themselves, the others open a composite.
const (
	LiteralI32  = "\x01"
	LiteralU32  = "\x02"
	LiteralI64  = "\x03"
	LiteralU64  = "\x04"
	LiteralI8   = "\x05"
	LiteralU8   = "\x06"
	LiteralI16  = "\x07"
	LiteralU16  = "\x08"
	LiteralBool = "\x0b"
	LiteralChar = "\x0c"
	LiteralF32  = "\x11"
	LiteralF64  = "\x12"

	LiteralString = "\x80\x0c"
	LiteralVoid   = "\xfa"
)

// ServicePrefix stands before every method name of the master when its function id is calculated.
const ServicePrefix = "mooncake::WrappedMasterService::"

// LiteralArray is the literal of array<T,N>.
func LiteralArray(elem string, n int) string { return "\x81" + elem + LiteralSize(n) }

// LiteralMap is the literal of a map, ordered or not.
func LiteralMap(key, value string) string { return "\x82" + key + value }

// LiteralSet is the literal of a set.
func LiteralSet(elem string) string { return "\x83" + elem }

// LiteralVector is the literal of a vector and of every other sequence.
func LiteralVector(elem string) string { return "\x84" + elem }

// LiteralOptional is the literal of an optional.
func LiteralOptional(elem string) string { return "\x85" + elem }

// LiteralVariant is the literal of a variant with these alternatives.
func LiteralVariant(alternatives ...string) string {
	s := "\x86"
	for _, a := range alternatives {
		s += a
	}
	return s + "\xff"
}

// LiteralExpected is the literal of expected<T,E>.
func LiteralExpected(value, err string) string { return "\x87" + value + err }

// LiteralStruct is the literal of a struct declared with the reflection macro, and of every tuple.
func LiteralStruct(members ...string) string {
	s := "\xfd"
	for _, m := range members {
		s += m
	}
	return s + "\xff"
}

// LiteralTrivial is the literal of a pair or plain aggregate that is copied as C memory: its alignment enters twice.
func LiteralTrivial(align int, members ...string) string {
	s := LiteralStruct(members...)
	size := LiteralSize(align)
	return s[:len(s)-1] + size + size + "\xff"
}

// LiteralSize writes a number inside a literal: base 127, least significant digit first, every digit but the last raised by
// 1 and the last by 129, so that no byte is zero and the last one is known by its upper bit.
func LiteralSize(n int) string {
	var b []byte
	for ; n >= 127; n /= 127 {
		b = append(b, byte(n%127+1))
	}
	return string(append(b, byte(n+129)))
}

// Hash is the type hash of a literal. Its lowest bit is free: on the wire it says whether a meta byte follows.
func Hash(literal string) uint32 { return md5Head(literal) &^ 1 }

// FunctionID is the number of a call on the wire; name is the qualified method name.
func FunctionID(name string) uint32 { return md5Head(name) }

func md5Head(s string) uint32 {
	sum := md5.Sum([]byte(s))
	return binary.BigEndian.Uint32(sum[:4])
}
