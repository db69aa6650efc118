package rdma

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mooncake/internal/limits"
)

// ErrNoDevice is the answer for a host without RDMA devices.
var ErrNoDevice = errors.New("no RDMA device in /" + classDir + ": is the driver loaded, and does the container see it?")

// candidate is a port with what was found out about it.
type candidate struct {
	Verdict
	class    gidClass
	distance int
}

// The distances that are not the firmware's. Unknown lies between: it may be near, while another node never is.
const (
	distanceNear    = 0
	distanceUnknown = 1
	distanceFar     = 2 // and more: the firmware's distance is added
)

// Choose decides which devices a segment is published on: exactly the named ones, or without names the one that is best.
// The order of devices and ports in the list makes no difference. With an error nothing is chosen, and the verdicts say
// why of each port, so the table is worth printing in any case.
func Choose(devices []Device, w Wish) (Choice, error) {
	if err := w.validate(); err != nil {
		return Choice{}, err
	}
	var all []*candidate
	for i := range devices {
		all = append(all, judgeDevice(&devices[i], &w)...)
	}
	slices.SortFunc(all, comparePlace)
	var chosen []*candidate
	var err error
	if len(w.Names) > 0 {
		chosen, err = pickNamed(all, &w)
	} else {
		chosen, err = pickBest(all, &w)
	}
	c := Choice{memoryNUMA: w.NUMA, names: w.Names}
	for _, one := range all {
		c.Verdicts = append(c.Verdicts, one.Verdict)
	}
	for _, one := range chosen {
		c.order = append(c.order, slices.Index(all, one))
	}
	return c, err
}

// judgeDevice looks at every port of a device.
func judgeDevice(d *Device, w *Wish) []*candidate {
	if len(d.Ports) == 0 {
		none := &candidate{Verdict: verdictOf(d, &Port{}, w)}
		none.Reason = cmp.Or(d.Fault, "has no port")
		return []*candidate{none}
	}
	out := make([]*candidate, 0, len(d.Ports))
	for i := range d.Ports {
		out = append(out, judgePort(d, &d.Ports[i], w))
	}
	return out
}

func verdictOf(d *Device, p *Port, w *Wish) Verdict {
	return Verdict{
		Device: d.Name, Virtual: d.Virtual, NUMA: d.NUMA,
		Port: p.Number, State: p.State, LinkLayer: p.LinkLayer, RateGbps: p.RateGbps, LID: p.LID,
		GIDIndex: -1, PKeyIndex: w.PKeyIndex,
	}
}

// judgePort tests one port. The reason is empty if it is fit.
func judgePort(d *Device, p *Port, w *Wish) *candidate {
	c := &candidate{Verdict: verdictOf(d, p, w), distance: distanceOf(d, w.NUMA)}
	gid, gidErr := pickGID(p, w.GIDIndex)
	if gid != nil { // shown even where something else is wrong
		c.GIDIndex, c.GID, c.GIDType, c.NetDev = gid.Index, gid.GID, gid.Type, gid.NetDev
		c.class = classOf(gid, p.LinkLayer)
	}
	memberErr := checkMembership(p, w.PKeyIndex)
	switch {
	case d.Fault != "":
		c.Reason = d.Fault
	case d.NodeType != "" && d.NodeType != "CA":
		c.Reason = fmt.Sprintf("is of type %s, neither InfiniBand nor RoCE", d.NodeType)
	case w.Port != 0 && p.Number != w.Port:
		c.Reason = fmt.Sprintf("is not port %d (MC_IB_PORT)", w.Port)
	case p.Fault != "":
		c.Reason = p.Fault
	case p.State != StateActive:
		c.Reason = fmt.Sprintf("port is %s", p.State)
	case p.LinkLayer != LinkEthernet && p.LinkLayer != LinkInfiniBand:
		c.Reason = fmt.Sprintf("link layer is %q, neither InfiniBand nor Ethernet", p.LinkLayer)
	case p.LinkLayer == LinkInfiniBand && p.LID == 0:
		c.Reason = "no LID: the subnet manager has not seen it"
	case memberErr != nil:
		c.Reason = memberErr.Error()
	case gidErr != nil:
		c.Reason = gidErr.Error()
	default:
		c.Usable = true
	}
	return c
}

// distanceOf ranks how far a device is from the memory.
func distanceOf(d *Device, memory int) int {
	switch {
	case memory < 0: // nothing to compare with
		return distanceUnknown
	case d.NUMA == memory:
		return distanceNear
	case d.NUMA < 0:
		return distanceUnknown
	case memory < len(d.Distances):
		return distanceFar + max(d.Distances[memory], 0)
	}
	return distanceFar
}

// criterion is one step of the ranking.
type criterion struct {
	compare func(a, b *candidate) int // negative: a is better
	what    string                    // that a was chosen for
	winner  string                    // how a beats b
}

// ranking is the order in which usable ports are compared. That a port is reached at all comes first, then how near it is,
// then how fast; the name only makes the choice repeatable.
var ranking = []criterion{
	{func(a, b *candidate) int { return boolCompare(a.class.poor(), b.class.poor()) }, "address", "has a better address"},
	{func(a, b *candidate) int { return cmp.Compare(a.distance, b.distance) }, "nearness to the memory", "is nearer to the memory"},
	{func(a, b *candidate) int { return boolCompare(a.Virtual, b.Virtual) }, "not being virtual", "is no virtual function"},
	{func(a, b *candidate) int { return cmp.Compare(b.RateGbps, a.RateGbps) }, "rate", "is faster"},
	{func(a, b *candidate) int { return cmp.Compare(a.class, b.class) }, "address", "has a better address"},
	{comparePlace, "name", "is as good and first by name"},
}

// comparePlace is the order of the table.
func comparePlace(a, b *candidate) int {
	return cmp.Or(compareNames(a.Device, b.Device), cmp.Compare(a.Port, b.Port))
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// better compares two usable ports and says by which criterion.
func better(a, b *candidate) (order, by int) {
	for i := range ranking {
		if order := ranking[i].compare(a, b); order != 0 {
			return order, i
		}
	}
	return 0, len(ranking) - 1
}

// pickBest chooses one port and gives every other usable one the reason why not.
func pickBest(all []*candidate, w *Wish) ([]*candidate, error) {
	best := bestOf(all)
	switch {
	case len(all) == 0:
		return nil, ErrNoDevice
	case best == nil:
		return nil, fmt.Errorf("none of the RDMA devices is usable: %s", refusals(all))
	}
	rivals := 0
	decisive := make([]bool, len(ranking)) // the steps that told the best from another
	for _, c := range all {
		if !c.Usable || c == best {
			continue
		}
		_, by := better(best, c)
		c.Reason = fmt.Sprintf("%s port %d %s", best.Device, best.Port, ranking[by].winner)
		decisive[by] = true
		rivals++
	}
	best.Chosen = true
	best.Reason = bestReason(best, all, w, decisive, rivals)
	return []*candidate{best}, nil
}

func bestOf(all []*candidate) *candidate {
	var best *candidate
	for _, c := range all {
		if !c.Usable {
			continue
		}
		if best == nil {
			best = c
		} else if order, _ := better(c, best); order < 0 {
			best = c
		}
	}
	return best
}

// bestReason says what decided, and what the operator may want to decide otherwise.
func bestReason(best *candidate, all []*candidate, w *Wish, decisive []bool, rivals int) string {
	why := "the only usable port"
	if rivals > 0 {
		var by []string
		for i := range ranking {
			if decisive[i] && !slices.Contains(by, ranking[i].what) {
				by = append(by, ranking[i].what)
			}
		}
		why = fmt.Sprintf("best of %d usable ports by %s", rivals+1, strings.Join(by, ", then "))
	}
	return strings.Join(append([]string{why}, remarks(best, all, w)...), "; ")
}

// remarks are what is not as good as it could be about a chosen port.
func remarks(c *candidate, all []*candidate, w *Wish) []string {
	var out []string
	switch {
	case c.distance >= distanceFar:
		out = append(out, fmt.Sprintf("far: it is on node %d, the memory on node %d", c.NUMA, w.NUMA))
	case w.NUMA >= 0 && c.NUMA < 0:
		out = append(out, "its node is unknown")
	}
	if c.class.poor() {
		out = append(out, fmt.Sprintf("its address is %s: peers on other networks do not reach it", gidClassTexts[c.class]))
	}
	if c.Virtual {
		out = append(out, "a virtual function")
	}
	fastest := c
	mixed := false
	for _, other := range all {
		if !other.Usable {
			continue
		}
		if other.RateGbps > fastest.RateGbps {
			fastest = other
		}
		mixed = mixed || other.LinkLayer != c.LinkLayer
	}
	if len(w.Names) > 0 {
		return out // whoever names devices knows the others
	}
	const worthTelling = 2
	if fastest.RateGbps >= worthTelling*c.RateGbps && fastest != c {
		out = append(out, fmt.Sprintf("%s is faster (%s)", fastest.Device, formatRate(fastest.RateGbps)))
	}
	if mixed {
		out = append(out, "clients must be on "+fabric(c.LinkLayer)+" too")
	}
	return out
}

// pickNamed chooses exactly the named devices.
func pickNamed(all []*candidate, w *Wish) ([]*candidate, error) {
	flag := "--device_name=" + strings.Join(w.Names, ",")
	var chosen []*candidate
	var err error
	for _, name := range w.Names {
		ports := portsOf(all, name)
		best := bestOf(ports)
		switch {
		case best != nil:
			chosen = append(chosen, best)
		case err != nil: // the first one is enough
		case len(all) == 0:
			err = fmt.Errorf("%s: %w", flag, ErrNoDevice)
		case len(ports) == 0:
			err = fmt.Errorf("%s: no RDMA device %s; there are: %s", flag, name, deviceNames(all))
		default:
			err = fmt.Errorf("%s cannot be published: %s", flag, refusals(ports))
		}
	}
	for _, c := range all {
		if c.Usable {
			c.Reason = "not named by --device_name"
		}
	}
	for _, c := range chosen {
		for _, other := range portsOf(all, c.Device) {
			if other.Usable {
				other.Reason = fmt.Sprintf("port %d is better", c.Port)
			}
		}
		if err != nil {
			c.Reason = "named, but nothing is published while another name fails"
			continue
		}
		c.Chosen = true
		c.Reason = strings.Join(append([]string{"named by --device_name"}, remarks(c, all, w)...), "; ")
	}
	if err != nil {
		return nil, err
	}
	return chosen, nil
}

func portsOf(all []*candidate, device string) []*candidate {
	var out []*candidate
	for _, c := range all {
		if c.Device == device {
			out = append(out, c)
		}
	}
	return out
}

// refusals tells the reasons of the first few ports in one line.
func refusals(ports []*candidate) string {
	var out []string
	for _, c := range ports[:min(len(ports), limits.RDMAReasonsNamed)] {
		out = append(out, fmt.Sprintf("%s port %d: %s", c.Device, c.Port, c.Reason))
	}
	if more := len(ports) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// deviceNames names the first few devices there are.
func deviceNames(all []*candidate) string {
	var out []string
	for _, c := range all {
		if len(out) > 0 && out[len(out)-1] == c.Device {
			continue
		}
		if len(out) == limits.RDMAReasonsNamed {
			return strings.Join(out, ", ") + ", …"
		}
		out = append(out, c.Device)
	}
	return strings.Join(out, ", ")
}
