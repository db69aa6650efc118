package pack

import (
	"fmt"
	"testing"
)

// uuidLiteral is the literal of a pair of two u64.
var uuidLiteral = LiteralTrivial(8, LiteralU64, LiteralU64)

func TestLiteralAndHash(t *testing.T) {
	strings := LiteralVector(LiteralString)
	tests := []struct {
		name, literal, hex string
		hash               uint32
	}{
		{"string", LiteralString, "800c", 0x9dcffa76},
		{"i64", LiteralI64, "03", 0x86666834},
		{"uuid", uuidLiteral, "fd04048989ff", 0x3c6d83e0},
		{"tuple of two strings", LiteralStruct(LiteralString, LiteralString), "fd800c800cff", 0x7cf91ed8},
		{"expected void", LiteralExpected(LiteralVoid, LiteralI32), "87fa01", 0xaf2868cc},
		{"expected string", LiteralExpected(LiteralString, LiteralI32), "87800c01", 0x1cb3cc34},
		{"expected bool", LiteralExpected(LiteralBool, LiteralI32), "870b01", 0x90e800d2},
		{"vector of uuids", LiteralVector(uuidLiteral), "84fd04048989ff", 0xa1eea206},
		{
			"map", LiteralExpected(LiteralMap(uuidLiteral, strings), LiteralI32),
			"8782fd04048989ff84800c01", 0xf594fb3c,
		},
		{"pair of u16 and string", LiteralStruct(LiteralU16, LiteralString), "fd08800cff", 0x372be64c},
		{
			"configuration of 0.3.12", LiteralStruct(LiteralU64, LiteralU64, LiteralBool, LiteralBool, strings, LiteralString, strings,
				LiteralBool, LiteralU8, LiteralString, LiteralOptional(strings)),
			"fd04040b0b84800c800c84800c0b06800c8584800cff", 0x2626ea60,
		},
		{
			"plain aggregate of u8 and u64", LiteralTrivial(8, LiteralU8, LiteralU64),
			"fd06048989ff", 0x67d4600a,
		},
		{
			"variant", LiteralVariant(LiteralStruct(LiteralString, LiteralU64), LiteralVoid),
			"86fd800c04fffaff", Hash("\x86\xfd\x80\x0c\x04\xff\xfa\xff"),
		},
		{"array", LiteralArray(LiteralU8, 16), "810691", Hash("\x81\x06\x91")},
		{"set", LiteralSet(LiteralI8 + LiteralI16 + LiteralChar + LiteralF32 + LiteralF64), "8305070c1112", Hash("\x83\x05\x07\x0c\x11\x12")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprintf("%x", tt.literal); got != tt.hex {
				t.Errorf("literal %s, want %s", got, tt.hex)
			}
			if got := Hash(tt.literal); got != tt.hash {
				t.Errorf("hash %08x, want %08x", got, tt.hash)
			}
		})
	}
}

func TestLiteralSize(t *testing.T) {
	tests := []struct {
		n    int
		want string
	}{
		{0, "\x81"},
		{1, "\x82"},
		{8, "\x89"},
		{16, "\x91"},
		{126, "\xff"},
		{127, "\x01\x82"},
		{253, "\x7f\x82"},
		{254, "\x01\x83"},
		{300, "\x2f\x83"},
		{127 * 127, "\x01\x01\x82"},
	}
	for _, tt := range tests {
		if got := LiteralSize(tt.n); got != tt.want {
			t.Errorf("LiteralSize(%d) = %x, want %x", tt.n, got, tt.want)
		}
	}
	for n := range 70000 { // no digit is zero, and the last one alone has its upper bit set
		s := LiteralSize(n)
		for i := range len(s) {
			if s[i] == 0 || s[i] > 0x80 != (i == len(s)-1) {
				t.Fatalf("LiteralSize(%d) = %x", n, s)
			}
		}
	}
}

func TestFunctionID(t *testing.T) {
	tests := []struct {
		name string
		id   uint32
	}{
		{ServicePrefix + "ServiceReady", 0x7b81bb56},
		{ServicePrefix + "ExistKey", 0x89385f09},
		{ServicePrefix + "PutStart", 0x65ea9ac1},
		{"mooncake::RealClient::batch_get_offload_object", 0xdc8109d6},
		{"mooncake::RealClient::release_offload_buffer", 0xaa143bb9},
	}
	for _, tt := range tests {
		if got := FunctionID(tt.name); got != tt.id {
			t.Errorf("FunctionID(%q) = %08x, want %08x", tt.name, got, tt.id)
		}
	}
}
