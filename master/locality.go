package master

import (
	"strconv"
	"strings"

	"mooncake/wire"
)

// Clients of 0.3.14 say which part of its machine a segment is close to, and want to hear it with every address. The catalog
// keeps it as a text: the number of the node, and the names of the devices, a comma after each but the last.

// localityIn writes the text; "" is nothing said.
func localityIn(l *wire.Opt[wire.SegmentLocality]) string {
	if !l.Set {
		return ""
	}
	return strconv.Itoa(int(l.Value.NumaNode)) + ":" + strings.Join(l.Value.HcaNames, ",")
}

// localityOut reads it.
func localityOut(text string) (l wire.Opt[wire.SegmentLocality]) {
	node, devices, ok := strings.Cut(text, ":")
	if !ok {
		return l
	}
	n, err := strconv.ParseInt(node, 10, 32)
	if err != nil {
		return l
	}
	l.Set, l.Value.NumaNode = true, int32(n)
	if devices != "" {
		l.Value.HcaNames = strings.Split(devices, ",")
	}
	return l
}
