package bundle

import (
	"encoding/binary"
	"unsafe"
)

// Numbers are stored little end first. Where this machine keeps them so too, bytes and numbers are the same memory, seen in two
// ways; elsewhere they are converted.

// littleEnd tells that this machine keeps numbers as they are stored.
var littleEnd = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// storedBytes is the memory of numbers as bytes, on a machine that keeps them as they are stored.
func storedBytes[T Number](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*sizeOf[T]())
}

func sizeOf[T Number]() int { return int(unsafe.Sizeof(*new(T))) }

// appendNumbers writes numbers as they are stored.
func appendNumbers[T Number](dst []byte, values []T, littleEnd bool) []byte {
	if littleEnd {
		return append(dst, storedBytes(values)...)
	}
	dst, _ = binary.Append(dst, binary.LittleEndian, values) // it takes every slice of numbers
	return dst
}

// numbersIn shows bytes that were stored as numbers: the same memory where the machine allows it, else a copy. The length must
// be that of whole numbers.
func numbersIn[T Number](data []byte, littleEnd bool) []T {
	n := len(data) / sizeOf[T]()
	if n == 0 {
		return []T{}
	}
	at := unsafe.Pointer(unsafe.SliceData(data))
	if littleEnd && uintptr(at)%unsafe.Alignof(*new(T)) == 0 {
		return unsafe.Slice((*T)(at), n)
	}
	out := make([]T, n)
	_, _ = binary.Decode(data, binary.LittleEndian, out) // the length is right, and it takes every slice of numbers
	return out
}
