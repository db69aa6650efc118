package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"mooncake/internal/limits"
)

// Arguments names the layout of a request's arguments as no release known here has it. Hash is 0 where the body is too
// short to have one.
type Arguments struct{ FunctionID, Hash uint32 }

// strangers counts requests by such layouts. Peers choose the hashes, so only the first ones have a count of their own.
// Its lock is a leaf.
type strangers struct {
	mu     sync.Mutex
	counts map[Arguments]uint64
	others uint64
}

// CountStrange counts a request with arguments of no known layout.
func (c *Calls) CountStrange(a Arguments) {
	c.strange.mu.Lock()
	defer c.strange.mu.Unlock()
	if _, known := c.strange.counts[a]; !known {
		if len(c.strange.counts) >= limits.MetricsStrangeArguments {
			c.strange.others++
			return
		}
		if c.strange.counts == nil {
			c.strange.counts = map[Arguments]uint64{}
		}
	}
	c.strange.counts[a]++
}

// Strange tells how many requests came in a layout, and how many in all those that have no count of their own.
func (c *Calls) Strange(a Arguments) (n, others uint64) {
	c.strange.mu.Lock()
	defer c.strange.mu.Unlock()
	return c.strange.counts[a], c.strange.others
}

type strangeCount struct {
	Arguments
	n uint64
}

func (s *strangers) read() (list []strangeCount, others uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, n := range s.counts {
		list = append(list, strangeCount{a, n})
	}
	slices.SortFunc(list, func(a, b strangeCount) int {
		return cmp.Or(cmp.Compare(a.FunctionID, b.FunctionID), cmp.Compare(a.Hash, b.Hash))
	})
	return list, s.others
}

// The series of such requests; "other" in both labels stands for all that have none of their own.
const (
	strangeArguments     = "mooncake_go_unknown_arguments_total"
	strangeArgumentsHelp = "Requests answered with error 4 because no known release lays out the call's arguments like that."
	strangeOther         = "other"
)

func newStrangeDesc() *prometheus.Desc {
	return prometheus.NewDesc(strangeArguments, strangeArgumentsHelp, []string{"function_id", "hash"}, nil)
}

func (c *collector) collectStrange(out chan<- prometheus.Metric) {
	list, others := c.calls.strange.read()
	for _, s := range list {
		out <- constant(c.strange, counter, s.n, HexLabel(s.FunctionID), HexLabel(s.Hash))
	}
	out <- constant(c.strange, counter, others, strangeOther, strangeOther)
}

// HexLabel is a function id or a hash as labels and log lines show it.
func HexLabel(n uint32) string {
	const digits = 8
	text := strconv.FormatUint(uint64(n), 16)
	return "0x" + "00000000"[:digits-len(text)] + text
}
