package rdma

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// One function per kind of file below sys/class/infiniband. Each takes the whole content and gives values that are fit to
// be printed: what a driver, a container or a hostile tree wrote reaches a table only through them.

// errContent is the answer to content that no kernel writes. It quotes a beginning of it.
func errContent(text string) error {
	const shown = 32
	if len(text) > shown {
		return fmt.Errorf("holds %q…", text[:shown])
	}
	return fmt.Errorf("holds %q", text)
}

// parseName accepts the name of a device. It becomes part of a NIC path, where "@" separates, and of lists with commas.
func parseName(text string) (string, error) {
	const longest = 63 // the kernel's IB_DEVICE_NAME_MAX with its final zero is 64
	if text == "" || len(text) > longest || text[0] == '.' {
		return "", errContent(text)
	}
	for _, c := range []byte(text) {
		if !isWord(c) && c != '-' && c != '.' && c != ':' {
			return "", errContent(text)
		}
	}
	return text, nil
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// parseNodeName reads the name of a device from a file.
func parseNodeName(text string) (string, error) { return parseName(strings.TrimSuffix(text, "\n")) }

// parseNumbered reads "4: ACTIVE" and "1: CA": a number and the word for it.
func parseNumbered(text string) (string, error) {
	number, word, ok := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
	if _, err := strconv.ParseUint(number, 10, 16); !ok || err != nil {
		return "", errContent(text)
	}
	return parseWord(word)
}

// parseWord reads the name of a state, a node type or a link layer.
func parseWord(text string) (string, error) {
	const longest = 32
	word := strings.TrimSuffix(text, "\n")
	if word == "" || len(word) > longest {
		return "", errContent(text)
	}
	for _, c := range []byte(word) {
		if !isWord(c) && c != '-' && c != ' ' {
			return "", errContent(text)
		}
	}
	return word, nil
}

// parseRate reads "400 Gb/sec (4X NDR)" and "2.5 Gb/sec (1X SDR)".
func parseRate(text string) (float64, error) {
	number, _, ok := strings.Cut(text, " Gb/sec")
	if !ok || number == "" || strings.Trim(number, "0123456789.") != "" {
		return 0, errContent(text)
	}
	const fastest = 1e6 // a thousand times of what is sold
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil || gbps > fastest {
		return 0, errContent(text)
	}
	return gbps, nil
}

// parseHex16 reads "0x1f", the form of a LID and of a partition key.
func parseHex16(text string) (uint16, error) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "0x")
	v, err := strconv.ParseUint(digits, 16, 16)
	if !ok || err != nil {
		return 0, errContent(text)
	}
	return uint16(v), nil
}

// parseGID reads eight groups of four hex digits with colons between.
func parseGID(text string) (GID, error) {
	const groups, groupLen = 8, 4
	parts := strings.Split(strings.TrimSuffix(text, "\n"), ":")
	if len(parts) != groups {
		return GID{}, errContent(text)
	}
	var g GID
	for i, part := range parts {
		if len(part) != groupLen {
			return GID{}, errContent(text)
		}
		if _, err := hex.Decode(g[2*i:], []byte(part)); err != nil {
			return GID{}, errContent(text)
		}
	}
	return g, nil
}

// parseGIDType reads the type of a GID entry.
func parseGIDType(text string) (string, error) {
	switch kind := strings.TrimSuffix(text, "\n"); kind {
	case GIDTypeIB, GIDTypeRoCEv2:
		return kind, nil
	}
	return "", errContent(text)
}

// parseNetDev reads the name of a network interface.
func parseNetDev(text string) (string, error) {
	const longest = 15 // the kernel's IFNAMSIZ without its final zero
	name := strings.TrimSuffix(text, "\n")
	if name == "" || len(name) > longest {
		return "", errContent(text)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || c == '/' {
			return "", errContent(text)
		}
	}
	return name, nil
}

// parseNode reads the NUMA node of a device, -1 where the firmware named none.
func parseNode(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "\n"), 10, 32)
	if err != nil || n < -1 || n >= limits.RDMANodes {
		return -1, errContent(text)
	}
	return int(n), nil
}

// parseDistances reads "10 21": how far every node is from the one that the file belongs to.
func parseDistances(text string) ([]int, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > limits.RDMANodes {
		return nil, errContent(text)
	}
	out := make([]int, len(words))
	for i, w := range words {
		d, err := strconv.ParseUint(w, 10, 16)
		if err != nil {
			return nil, errContent(text)
		}
		out[i] = int(d)
	}
	return out, nil
}

// parseIndex reads the name of a port, of a GID entry or of a partition key: a plain number below bound.
func parseIndex(name string, bound int) (int, error) {
	n, err := strconv.ParseUint(name, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != name {
		return 0, errors.New("is no number")
	}
	if n >= uint64(bound) {
		return 0, fmt.Errorf("is above %d", bound-1)
	}
	return int(n), nil
}
