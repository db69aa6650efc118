package replication

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Every file begins with a header of 64 bytes; numbers are little endian.
//
//	at  bytes
//	 0      8  "MCKJRNL1"
//	 8      4  kind: 1 journal, 2 snapshot
//	12      4  version of the format: 1
//	16      8  identity of the journal, drawn when it is begun
//	24      8  journal: number of the first record; snapshot: number of the last record it includes
//	32     28  zeros
//	60      4  CRC32C of the 60 bytes before
const (
	fileMagic       = "MCKJRNL1"
	fileHeaderBytes = 64
	fileVersion     = 1

	kindJournal  = 1
	kindSnapshot = 2
)

type fileHeader struct {
	kind     uint32
	identity uint64
	first    uint64
}

func (h *fileHeader) append(dst []byte) []byte {
	at := len(dst)
	dst = append(dst, fileMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, h.kind)
	dst = binary.LittleEndian.AppendUint32(dst, fileVersion)
	dst = binary.LittleEndian.AppendUint64(dst, h.identity)
	dst = binary.LittleEndian.AppendUint64(dst, h.first)
	dst = append(dst, make([]byte, fileHeaderBytes-4-(len(dst)-at))...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

func parseFileHeader(b []byte, kind uint32) (h fileHeader, err error) {
	if len(b) < fileHeaderBytes || string(b[:8]) != fileMagic {
		return h, fmt.Errorf("it does not begin with %q", fileMagic)
	}
	if crc32.Checksum(b[:fileHeaderBytes-4], castagnoli) != binary.LittleEndian.Uint32(b[fileHeaderBytes-4:]) {
		return h, fmt.Errorf("the checksum of its first %d bytes is wrong", fileHeaderBytes)
	}
	if v := binary.LittleEndian.Uint32(b[12:]); v != fileVersion {
		return h, fmt.Errorf("it has version %d, this program reads version %d", v, fileVersion)
	}
	h = fileHeader{binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
	if h.kind != kind {
		return h, fmt.Errorf("it is of kind %d instead of %d", h.kind, kind)
	}
	return h, nil
}

// Names of the files: the number in 16 hex digits, so that they sort.
const (
	journalPrefix  = "journal-"
	snapshotPrefix = "snapshot-"
	partSuffix     = ".part"
	lockName       = "lock"
	asidePrefix    = "aside-"
)

func journalName(first uint64) string { return fmt.Sprintf("%s%016x", journalPrefix, first) }
func snapshotName(last uint64) string { return fmt.Sprintf("%s%016x", snapshotPrefix, last) }

// listing is what a directory holds, oldest first.
type listing struct {
	journals  []numbered
	snapshots []numbered
}

type numbered struct {
	number uint64
	path   string
}

func list(dir string) (l listing, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		for _, k := range [...]struct {
			prefix string
			into   *[]numbered
		}{{journalPrefix, &l.journals}, {snapshotPrefix, &l.snapshots}} {
			text, ok := strings.CutPrefix(e.Name(), k.prefix)
			if n, err := strconv.ParseUint(text, 16, 64); ok && err == nil && len(text) == 16 {
				*k.into = append(*k.into, numbered{n, filepath.Join(dir, e.Name())})
			}
		}
	}
	byNumber := func(a, b numbered) int {
		if a.number < b.number {
			return -1
		}
		return 1
	}
	slices.SortFunc(l.journals, byNumber)
	slices.SortFunc(l.snapshots, byNumber)
	return l, nil
}
