package rdma

import (
	"context"
	"errors"
	"slices"

	"mooncake/descriptor"
)

// leg is one way to the target: from one of our rails to one of its devices.
type leg struct {
	rail   *rail
	device string
	index  int // of the device in the target's descriptor, and of its key

	out   bool   // not to be tried again by this copy
	via   *route // open, else nil
	fresh bool   // it was opened for this copy
}

// legs are the ways to a target, the best ones first. A copy goes over the first width of them that work, in turn.
type legs struct {
	all   []*leg
	width int
	turn  int
	held  []*route
	err   error // of the last one that failed
}

// legsTo lists the ways. Devices that are near to the target's memory come first, and every rail starts with another one,
// so that all rails are used and none meets the others.
func legsTo(rails []*rail, s *descriptor.Segment, b *descriptor.Buffer) *legs {
	order := preferred(s, b)
	out := &legs{width: min(len(rails), len(order)), err: errors.New("there is no device on our side or on the other")}
	for shift := range order {
		for i, r := range rails {
			index := order[(i+shift)%len(order)]
			out.all = append(out.all, &leg{rail: r, device: s.Devices[index].Name, index: index})
		}
	}
	return out
}

// preferred are the target's devices, those that its matrix prefers for the buffer first. A location that the matrix does not
// have is any location, which is spelled as a star.
func preferred(s *descriptor.Segment, b *descriptor.Buffer) []int {
	var order []int
	add := func(names []string) {
		for _, name := range names {
			i := slices.IndexFunc(s.Devices, func(d descriptor.Device) bool { return d.Name == name })
			if i >= 0 && !slices.Contains(order, i) {
				order = append(order, i)
			}
		}
	}
	preference, found := s.PriorityMatrix[b.Name]
	if !found {
		preference = s.PriorityMatrix["*"]
	}
	add(preference[0])
	add(preference[1])
	for _, d := range s.Devices {
		add([]string{d.Name})
	}
	return order
}

// next returns the leg whose turn it is, with an open route.
func (ls *legs) next(ctx context.Context, f *Fabric, t *Target) (*leg, error) {
	for {
		var in []*leg
		for _, l := range ls.all {
			if !l.out && len(in) < ls.width {
				in = append(in, l)
			}
		}
		if len(in) == 0 {
			return nil, ls.err
		}
		ls.turn++
		l := in[ls.turn%len(in)]
		if l.via != nil {
			return l, nil
		}
		via, fresh, err := f.use(ctx, l.rail, t, l.device)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			l.out, ls.err = true, err
			continue
		}
		l.via, l.fresh = via, fresh
		ls.held = append(ls.held, via)
		return l, nil
	}
}

// strike counts a failure of a leg: its route is dropped. A route that was there before may have been stale, as after a
// restart of the peer, and a new one is tried; a leg whose new route failed is out. It reports false for a route that was
// struck before. With pause the path is not tried by others for a while.
func (ls *legs) strike(f *Fabric, l *leg, via *route, why error, pause bool) bool {
	if l.via != via || via == nil {
		return false
	}
	f.drop(via, pause && l.fresh)
	l.via, ls.err = nil, why
	l.out = l.fresh || !pause
	return true
}

// release gives back the routes that were used.
func (ls *legs) release(f *Fabric) {
	for _, via := range ls.held {
		f.routes.release(via, f.cfg.now())
	}
}
