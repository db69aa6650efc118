package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"mooncake/internal/limits"
)

// The seal is one page behind the segment's bytes, outside what is announced. It repeats the state file's text so that
// a state file and an arena can be told to belong together.
//
//	0   8 bytes  "MCSEGv01"
//	8   u32 LE   length of the text
//	12  u32 LE   CRC32C of the text
//	16  text     the state file, byte for byte
const (
	sealMagic   = "MCSEGv01"
	sealHead    = 16
	sealBytes   = 4096
	pageBytes   = 4096
	sealTextMax = sealBytes - sealHead
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Both say the same limit; this fails to compile when they part.
var _ = [1]struct{}{}[sealTextMax-limits.SegmentStateBytes]

// fileBytes is the length of the arena file of a segment of size bytes.
func fileBytes(size uint64) int64 {
	return int64(pageUp(size)) + sealBytes
}

func pageUp(n uint64) uint64 { return (n + pageBytes - 1) &^ (pageBytes - 1) }

// encodeSeal lays the text out in a page.
func encodeSeal(text []byte) ([]byte, error) {
	if len(text) > sealTextMax {
		return nil, fmt.Errorf("state of %d bytes does not fit the seal of %d", len(text), sealTextMax)
	}
	page := make([]byte, sealBytes)
	copy(page, sealMagic)
	binary.LittleEndian.PutUint32(page[8:], uint32(len(text)))
	binary.LittleEndian.PutUint32(page[12:], crc32.Checksum(text, castagnoli))
	copy(page[sealHead:], text)
	return page, nil
}

// parseSeal gives the text of a page back.
func parseSeal(page []byte) ([]byte, error) {
	if len(page) != sealBytes || string(page[:8]) != sealMagic {
		return nil, errors.New("no seal")
	}
	n := binary.LittleEndian.Uint32(page[8:])
	if n > sealTextMax {
		return nil, fmt.Errorf("seal says %d bytes, at most %d fit", n, sealTextMax)
	}
	text := page[sealHead : sealHead+n]
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(page[12:]) {
		return nil, errors.New("seal checksum is wrong")
	}
	return text, nil
}

// readSeal reads the seal of an arena file of the given length.
func readSeal(f *os.File, length int64) ([]byte, error) {
	if length < sealBytes+pageBytes || length%pageBytes != 0 {
		return nil, fmt.Errorf("length %d is no arena's", length)
	}
	page := make([]byte, sealBytes)
	if _, err := f.ReadAt(page, length-sealBytes); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parseSeal(page)
}
