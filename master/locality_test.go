package master

import (
	"fmt"
	"testing"

	"mooncake/wire"
)

// TestLocality hands what a segment is close to on to those who read from it.
func TestLocality(t *testing.T) {
	b := newBed(t)
	p := b.client(wire.V14)
	near := wire.Some(wire.SegmentLocality{NumaNode: 3, HcaNames: []string{"mlx5_0", "mlx5_1"}})
	seg := wire.Segment{ID: newID(), Name: "a", Base: 1 << 44, Size: mib, TeEndpoint: "a:1", Protocol: "tcp", Locality: near}
	expect(t, "mount", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, 0)
	put := p.putStart("k", 9)
	expect(t, "put", fmt.Sprint(put.Value[0].DescriptorVariant.Memory.BufferDescriptor.Locality), fmt.Sprint(near))
	expect(t, "end", p.putEnd("k"), 0)
	expect(t, "read", fmt.Sprint(p.get("k").Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.Locality), fmt.Sprint(near))
	seg.Locality = wire.Some(wire.SegmentLocality{NumaNode: -1})
	expect(t, "remount from elsewhere", invoke(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id}).Err, 0)
	for _, l := range []wire.Opt[wire.SegmentLocality]{{}, near, seg.Locality, wire.Some(wire.SegmentLocality{NumaNode: 1 << 30, HcaNames: []string{"x"}})} {
		if got := localityOut(localityIn(&l)); fmt.Sprint(got) != fmt.Sprint(l) {
			t.Errorf("%v came back as %v", l, got)
		}
	}
	for _, text := range []string{"", "3", "x:y", "99999999999:a"} {
		if got := localityOut(text); got.Set {
			t.Errorf("%q became %v", text, got)
		}
	}
}
