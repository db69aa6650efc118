package rdma

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table prints the verdicts: one line on what was asked for, then one per port. It ends in a newline.
func (c Choice) Table() string {
	var b strings.Builder
	b.WriteString("RDMA devices")
	if c.memoryNUMA >= 0 {
		fmt.Fprintf(&b, " for memory on NUMA node %d", c.memoryNUMA)
	} else {
		b.WriteString(" for memory of unknown NUMA node")
	}
	if len(c.names) > 0 {
		fmt.Fprintf(&b, ", --device_name=%s", strings.Join(c.names, ","))
	}
	if len(c.Verdicts) == 0 {
		b.WriteString(": none\n")
		return b.String()
	}
	b.WriteString(":\n")
	rows := [][]string{{"DEVICE", "PORT", "STATE", "LINK", "RATE", "NUMA", "GID", "ROUTE", "VERDICT"}}
	for i := range c.Verdicts {
		rows = append(rows, c.Verdicts[i].row())
	}
	writeAligned(&b, rows)
	return b.String()
}

// row gives the cells of one port. What does not apply is a dash.
func (v *Verdict) row() []string {
	port, node, gid, route := "-", "-", "-", "-"
	if v.Port > 0 {
		port = strconv.Itoa(v.Port)
	}
	if v.NUMA >= 0 {
		node = strconv.Itoa(v.NUMA)
	}
	if v.GIDIndex >= 0 {
		entry := GIDEntry{Index: v.GIDIndex, GID: v.GID, Type: v.GIDType, NetDev: v.NetDev}
		gid = strconv.Itoa(v.GIDIndex) + ": " + v.GID.address().String()
		route = fabric(v.LinkLayer) + " LID " + strconv.Itoa(int(v.LID))
		if v.LinkLayer != LinkInfiniBand {
			route = dash(v.NetDev) + ", " + gidClassTexts[classOf(&entry, v.LinkLayer)]
		}
	}
	verdict := "refused: "
	switch {
	case v.Chosen:
		verdict = "CHOSEN: "
	case v.Usable:
		verdict = "not chosen: "
	}
	return []string{v.Device, port, dash(v.State), dash(v.LinkLayer), formatRate(v.RateGbps), node, gid, route, verdict + v.Reason}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func formatRate(gbps float64) string {
	if gbps == 0 {
		return "-"
	}
	return strconv.FormatFloat(gbps, 'f', -1, 64) + " Gb/s"
}

// fabric names the network behind a link layer.
func fabric(linkLayer string) string {
	if linkLayer == LinkEthernet {
		return "RoCE"
	}
	return linkLayer
}

// writeAligned writes rows with the columns below each other and nothing behind the last one.
func writeAligned(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
}
