package replication

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"mooncake/internal/limits"
)

// scanned is what a walk through the records of one file found.
type scanned struct {
	end     int64    // behind the last good record
	damaged []Damage // stretches between good records that are none
	tail    int64    // bytes that are not zero behind the last good record
}

// Damage is a stretch of a file that cannot be read.
type Damage struct {
	Path   string
	Offset int64
	Bytes  int64
}

// scan walks through the records of a file and passes each on, with its place. What is between two good records, or
// behind the last, and no zeros, is damage; whether the last stretch is only a record that was being written is for the
// caller to say.
func scan(path string, text []byte, identity uint64, visit func(h *header, payload []byte) error) (s scanned, err error) {
	at := int64(fileHeaderBytes)
	s.end = at
	for at < int64(len(text)) {
		h, payload, ok := recordAt(text, at, identity)
		if ok {
			if at > s.end {
				s.damaged = append(s.damaged, Damage{path, s.end, at - s.end})
			}
			if err := visit(&h, payload); err != nil {
				return s, fmt.Errorf("%s: record %d at byte %d: %w", path, h.number, at, err)
			}
			at = min(at+int64(padded(h.length)), int64(len(text))) // a file may be cut off behind what counts of a record
			s.end = at
			continue
		}
		if at == s.end && isZero(text[at:]) {
			return s, nil
		}
		at += recordAlign
	}
	s.tail = int64(len(bytes.TrimRight(text[s.end:], "\x00")))
	return s, nil
}

// recordAt reads the record at a place; false when there is no good one.
func recordAt(text []byte, at int64, identity uint64) (h header, payload []byte, ok bool) {
	if h, ok = parseHeader(text[at:], identity); !ok || int64(len(text))-at-headerBytes < int64(h.length) {
		return h, nil, false
	}
	payload = text[at+headerBytes : at+headerBytes+int64(h.length)]
	return h, payload, crc32.Checksum(payload, castagnoli) == h.sum
}

var zeros [limits.LogReadBytes]byte

// isZero compares by blocks: most of the bytes that are asked about are those that a file has in reserve.
func isZero(b []byte) bool {
	for len(b) > len(zeros) {
		if !bytes.Equal(b[:len(zeros)], zeros[:]) {
			return false
		}
		b = b[len(zeros):]
	}
	return bytes.Equal(b, zeros[:len(b)])
}

// readText reads a whole file. Where it has nothing but zeros the memory is not touched, so that what a file has in reserve
// costs none.
func readText(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	block := make([]byte, limits.LogReadBytes)
	for at := 0; at < len(text); {
		n, err := io.ReadFull(f, block[:min(len(block), len(text)-at)])
		if err != nil {
			return nil, fmt.Errorf("%s, byte %d: %w", path, at, err)
		}
		if !isZero(block[:n]) {
			copy(text[at:], block[:n])
		}
		at += n
	}
	return text, nil
}

// read returns the text of a file of the journal and checks its header.
func read(path string, kind uint32) (h fileHeader, text []byte, err error) {
	if text, err = readText(path); err != nil {
		return h, nil, err
	}
	if h, err = parseFileHeader(text, kind); err != nil {
		return h, nil, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return h, text, nil
}
