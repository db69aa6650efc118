package framed

import "testing"

// TestNumbers holds the numbers that are on the wire.
func TestNumbers(t *testing.T) {
	for i, method := range Methods {
		number, ok := Number(method)
		if !ok || number != Hello+1+uint32(i) || Method(number) != method {
			t.Errorf("%s has number %#x, %v, which is %q", method, number, ok, Method(number))
		}
	}
	if n, _ := Number("/mooncake.v1.Objects/Placements"); n != 0x6d6f6f04 {
		t.Errorf("Placements has number %#x", n)
	}
	for _, number := range []uint32{0, 1, Hello, Hello + 1 + uint32(len(Methods)), 1<<32 - 1} {
		if method := Method(number); method != "" {
			t.Errorf("%#x is %s", number, method)
		}
	}
	if _, ok := Number("/mooncake.v1.Objects/Watch"); ok {
		t.Error("a stream has a number")
	}
}
