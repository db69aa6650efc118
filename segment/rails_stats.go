package segment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// labelled is one sample of a series with labels.
type labelled struct {
	labels string
	value  uint64
}

// seriesSet collects samples by series, in the order in which the series came up: a page has all samples of one name
// together.
type seriesSet struct {
	order   []string
	heads   map[string]string
	samples map[string][]labelled
}

func (s *seriesSet) add(c namedCount, labels string) {
	name := seriesPrefix + c.name
	if _, known := s.heads[name]; !known {
		s.order = append(s.order, name)
		s.heads[name] = "# HELP " + name + " " + c.help + "\n# TYPE " + name + " " + c.kind + "\n"
	}
	s.samples[name] = append(s.samples[name], labelled{labels, c.value})
}

func (s *seriesSet) writeTo(b *strings.Builder) {
	for _, name := range s.order {
		b.WriteString(s.heads[name])
		for _, sample := range s.samples[name] {
			if sample.labels == "" {
				fmt.Fprintf(b, "%s %d\n", name, sample.value)
				continue
			}
			fmt.Fprintf(b, "%s{%s} %d\n", name, sample.labels, sample.value)
		}
	}
}

// labelText makes a label of whatever a peer calls itself.
func labelText(name, value string) string {
	value = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "?"))
	return name + `="` + value + `"`
}

// writeRails appends the series of devices and peers.
func writeRails(b *strings.Builder, stats fabricStats) {
	set := seriesSet{heads: map[string]string{}, samples: map[string][]labelled{}}
	for _, rail := range stats.rails {
		labels := labelText("device", rail.device) + `,port="` + fmt.Sprint(rail.port) + `"`
		up := namedCount{"rdma_port_up", "gauge", "1 while the port carries traffic", 0}
		if rail.up {
			up.value = 1
		}
		set.add(up, labels)
		for _, c := range rail.counts {
			set.add(c, labels)
		}
	}
	for _, c := range stats.counts {
		set.add(c.namedCount, c.labels)
	}
	set.add(namedCount{"rdma_peers", "gauge", "Connected peers, one for each of their devices", uint64(len(stats.peers))}, "")
	for _, p := range boundedPeers(stats.peers) {
		for _, c := range p.counts {
			set.add(c, labelText("device", p.device)+","+labelText("peer", p.path))
		}
	}
	set.writeTo(b)
}

// boundedPeers is the peers in order of their names, the last of too many added up into one for each device.
func boundedPeers(peers []fabricPeerStats) []fabricPeerStats {
	peers = slices.SortedFunc(slices.Values(peers), func(a, b fabricPeerStats) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.device, b.device))
	})
	if len(peers) <= limits.SegmentPeerSeries {
		return peers
	}
	out, sums := peers[:limits.SegmentPeerSeries:limits.SegmentPeerSeries], map[string]int{}
	for _, p := range peers[limits.SegmentPeerSeries:] {
		at, known := sums[p.device]
		if !known {
			sums[p.device] = len(out)
			out = append(out, fabricPeerStats{device: p.device, path: "other", counts: slices.Clone(p.counts)})
			continue
		}
		for i := range p.counts {
			out[at].counts[i].value += p.counts[i].value
		}
	}
	return out
}

// railsSummary is a line for each device, for people.
func railsSummary(b *strings.Builder, stats fabricStats) {
	for _, rail := range stats.rails {
		fmt.Fprintf(b, "RDMA device %s port %d: %s", rail.device, rail.port, rail.state)
		for _, c := range rail.counts {
			fmt.Fprintf(b, ", %s %d", strings.TrimSuffix(strings.TrimPrefix(c.name, "rdma_"), "_total"), c.value)
		}
		b.WriteByte('\n')
	}
	if len(stats.rails) > 0 {
		fmt.Fprintf(b, "RDMA peers: %d\n", len(stats.peers))
	}
}
