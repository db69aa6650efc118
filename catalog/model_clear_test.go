package catalog

import (
	"slices"
	"strings"

	"pgregory.net/rapid"
)

func (r *modelRun) matching(t *rapid.T) {
	prefix, force := rapid.SampledFrom([]string{"", "k", "p/", "k3"}).Draw(t, "prefix"), rapid.Bool().Draw(t, "force")
	match := func(key string) bool { return strings.HasPrefix(key, prefix) }
	before := r.m.all()
	want := r.m.removeMatching(r.now, match, force)
	if prefix == "" {
		match = nil
	}
	if got := r.c.RemoveMatching(r.now, match, force); got != want {
		r.t.Fatalf("removed %d, the model %d", got, want)
	}
	if r.cleared {
		r.cleared = false
		r.heldInPieces(before)
	}
}

// heldInPieces takes over how the Catalog holds back what went with all objects: all that the model holds back, at least as long,
// and beside it nothing but what belonged to objects that went.
func (r *modelRun) heldInPieces(before []*modelObject) {
	m := r.m
	left := map[*modelObject]bool{}
	for _, o := range m.all() {
		left[o] = true
	}
	may, got := map[Range]bool{}, map[Range]heldRange{} // by byte
	for _, h := range m.held {
		for at := h.off; at < h.off+h.size; at++ {
			may[Range{h.seg, at, 1}] = true
		}
	}
	for _, o := range before {
		for _, rep := range o.replicas {
			for at := rep.Offset; at < rep.Offset+rep.Size && !left[o]; at++ {
				may[Range{rep.Segment.ID, at, 1}] = true
			}
		}
	}
	var pieces []modelRange
	for _, seg := range r.c.s.segments.mounted {
		for offset, h := range seg.held {
			for at := offset; at < offset+h.size; at++ {
				if got[Range{seg.info.ID, at, 1}] = h; !may[Range{seg.info.ID, at, 1}] {
					r.t.Fatalf("byte %d of %v is held back: %+v", at, seg.info.ID, h)
				}
			}
			if !slices.ContainsFunc(m.held, func(x modelRange) bool { return x.seg == seg.info.ID && x.off == offset && x.size == h.size }) {
				if pieces = append(pieces, modelRange{seg: seg.info.ID, off: offset, size: h.size, until: h.until, handed: h.handed}); h.until > r.now+Time(m.cfg.LeaseMs) {
					r.t.Fatalf("%v is held back too long: %+v", seg.info.ID, h)
				}
			}
		}
	}
	held := pieces
	for _, x := range m.held {
		for at := x.off; at < x.off+x.size; at++ {
			if h := got[Range{x.seg, at, 1}]; h.size == 0 || h.until < x.until || h.handed < x.handed {
				r.t.Fatalf("byte %d of %v is held back as %+v instead of %+v", at, x.seg, h, x)
			}
		}
		h := r.c.s.segments.byID[x.seg].held[x.off]
		if h.size != x.size {
			continue // a part of a piece
		}
		if h.handed != Never {
			x.until, x.handed = h.until, h.handed
		}
		held = append(held, x)
	}
	m.held = held
}
