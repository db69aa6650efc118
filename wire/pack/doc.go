// Package pack is the byte layout of one message body: struct_pack as the published wheels write it.
//
// It owns the head of a body (hash, meta byte, total length, type literal), the width of container lengths, the primitive
// values, and the calculation of literals, hashes and function ids. It refuses to know which messages exist: the
// generated code of package wire calls it field by field.
//
// Body, in order:
//
//	u32   hash, its lowest bit says that a meta byte follows
//	u8    meta: bits 0-1 size of the total length, bit 2 literal present, bits 3-4 width of every container length
//	uN    total length of the body (only messages with compatible fields)
//	bytes type literal and a zero byte
//	data  fields one after another, little endian, no padding
//	      compatible fields, in the order a second walk over the value meets them
//
// Invariants:
//   - A Decoder keeps its first error and answers zero values from then on, so reading code is a straight list and asks
//     Err once at the end. A length is compared with the bytes left before any memory is taken for it. Strings are
//     copies: the body may be reused as soon as decoding returns.
//   - An Appender writes with the narrowest width that fits the longest container of the message. It assumes one byte,
//     remembers the longest length it met, and asks for a second walk when that was too narrow.
//
// Nothing here locks; a Decoder or Appender belongs to one goroutine.
//
//	d := pack.NewDecoder(body, typ)
//	key, size := d.String(), d.U64()
//	if err := d.Err(); err != nil { ... }
package pack
