package master

import (
	"fmt"
	"slices"
	"testing"

	"mooncake/wire"
)

func (p *peer) ping() wire.PingReply {
	p.t.Helper()
	return invoke(p, &wire.Ping, &wire.PingRequest{ClientID: p.id})
}

func (p *peer) unmount(id wire.UUID) wire.ErrorCode {
	p.t.Helper()
	return invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: id, ClientID: p.id}).Err
}

func TestSegmentFromMountToUnmount(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		asked := wire.PingReply{Value: wire.PingResponse{ClientStatus: wire.ClientStatusNeedRemount}}
		alive := wire.PingReply{Value: wire.PingResponse{ClientStatus: wire.ClientStatusOK}}
		expect(t, "ping of an unknown client", p.ping(), asked)
		seg := wire.Segment{ID: newID(), Name: "node:1", Base: 1 << 44, Size: mib, TeEndpoint: "10.1.2.3:15001", Protocol: "tcp", HostID: "h"}
		mount := wire.MountSegmentRequest{Segment: seg, ClientID: p.id}
		expect(t, "mount", invoke(p, &wire.MountSegment, &mount).Err, 0)
		expect(t, "mount again", invoke(p, &wire.MountSegment, &mount).Err, 0)
		expect(t, "ping after the mount", p.ping(), asked)
		remount := wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: p.id}
		expect(t, "remount", invoke(p, &wire.ReMountSegment, &remount).Err, 0)
		expect(t, "ping after the remount", p.ping(), alive)
		expect(t, "remount again", invoke(p, &wire.ReMountSegment, &remount).Err, 0)

		changed := remount
		changed.Segments = []wire.Segment{seg}
		changed.Segments[0].Size++
		expect(t, "remount with another size", invoke(p, &wire.ReMountSegment, &changed).Err, wire.ErrInvalidParams)
		thief := b.client(p.d)
		stolen := wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: thief.id}
		expect(t, "remount by another client", invoke(thief, &wire.ReMountSegment, &stolen).Err, wire.ErrInvalidParams)
		expect(t, "the other client is not alive", thief.ping(), asked)

		status := func(name string) wire.QuerySegmentStatusReply {
			return invoke(p, &wire.QuerySegmentStatus, &wire.QuerySegmentStatusRequest{SegmentName: name})
		}
		byID := func(id wire.UUID) wire.QuerySegmentStatusByIdReply {
			return invoke(p, &wire.QuerySegmentStatusById, &wire.QuerySegmentStatusByIdRequest{SegmentID: id})
		}
		expect(t, "status by name", status("node:1"), wire.QuerySegmentStatusReply{Value: wire.SegmentStatusOK})
		expect(t, "status by id", byID(seg.ID), wire.QuerySegmentStatusByIdReply{Value: wire.SegmentStatusOK})
		expect(t, "status of an unknown name", status("gone").Err, wire.ErrSegmentNotFound)
		expect(t, "status of an unknown id", byID(newID()).Err, wire.ErrSegmentNotFound)

		hosts := invoke(p, &wire.BatchQueryIp, &wire.BatchQueryIpRequest{ClientIDs: []wire.UUID{newID(), p.id}})
		if hosts.Err != 0 || len(hosts.Value) != 1 || hosts.Value[0].Key != p.id || !slices.Equal(hosts.Value[0].Value, []string{"10.1.2.3"}) {
			t.Errorf("hosts: %+v", hosts)
		}

		p.put("k", 10)
		expect(t, "unmount", p.unmount(seg.ID), 0)
		expect(t, "unmount again", p.unmount(seg.ID), 0)
		expect(t, "object on it", p.get("k").Err, wire.ErrObjectNotFound)
		expect(t, "status after", status("node:1").Err, wire.ErrSegmentNotFound)
		stats := b.service.cat.Stats()
		expect(t, "keys after", stats.Keys, 0)
		expect(t, "capacity after", stats.CapacityBytes, 0)
	})
}

func TestMountArguments(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		for _, tc := range []struct {
			name       string
			base, size uint64
			want       wire.ErrorCode
		}{
			{"base 0", 0, mib, wire.ErrInvalidParams},
			{"size 0", 1 << 44, 0, wire.ErrInvalidParams},
			{"both 0", 0, 0, wire.ErrInvalidParams},
			{"past the end of the address space", 1<<64 - mib, mib + 1, wire.ErrInvalidParams},
			{"far past the end", 1 << 63, 1<<63 + 5, wire.ErrInvalidParams},
			{"all there is and one more", 1, 1<<64 - 1, wire.ErrInvalidParams},
			{"one byte", 1 << 44, 1, 0},
			{"1 TiB", 1 << 44, 1 << 40, 0},
			{"as large as an address space", 1, 1 << 47, 0},
			{"larger than any address space", 1, 1<<47 + 1, wire.ErrInvalidParams},
			{"2^63", 1, 1 << 63, wire.ErrInvalidParams},
			{"up to the last byte but one", 1<<64 - mib, mib - 1, 0},
		} {
			seg := wire.Segment{ID: newID(), Name: "n", Base: tc.base, Size: tc.size, TeEndpoint: "n:1", Protocol: "tcp"}
			expect(t, "mount: "+tc.name, invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, tc.want)
			want := uint64(0)
			if tc.want == 0 {
				want = tc.size
			}
			expect(t, "capacity: "+tc.name, b.service.cat.Stats().CapacityBytes, want)
			expect(t, "unmount: "+tc.name, p.unmount(seg.ID), 0)
		}
		expect(t, "segments left", len(b.service.cat.Segments()), 0)
	})
}

// TestOneNameForTwoSegments has two clients that call themselves the same: each keeps what is its own.
func TestOneNameForTwoSegments(t *testing.T) {
	inEachRelease(t, func(t *testing.T, b *bed, p *peer) {
		q := b.client(p.d)
		mine, theirs := p.mount("same:50061", 1<<44, mib), q.mount("same:50061", 1<<45, mib)
		on := map[bool][]string{}
		for i := range 40 {
			key := fmt.Sprint("k", i)
			p.put(key, 100)
			at := p.get(key).Value.Replicas[0].DescriptorVariant.Memory.BufferDescriptor.BufferAddress
			on[at >= theirs.Base] = append(on[at >= theirs.Base], key)
		}
		if len(on[true]) == 0 || len(on[false]) == 0 {
			t.Fatalf("one of two segments took everything: %v", on)
		}
		expect(t, "unmount", p.unmount(mine.ID), 0)
		for _, key := range on[true] {
			expect(t, "on the other's "+key, p.get(key).Err, 0)
		}
		for _, key := range on[false] {
			expect(t, "on the unmounted "+key, p.get(key).Err, wire.ErrObjectNotFound)
		}
		status := invoke(q, &wire.QuerySegmentStatus, &wire.QuerySegmentStatusRequest{SegmentName: "same:50061"})
		expect(t, "status of the name", status, wire.QuerySegmentStatusReply{Value: wire.SegmentStatusOK})
	})
}

func TestSession(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		expect(t, "ready", invoke(p, &wire.ServiceReady, &wire.ServiceReadyRequest{}), wire.ServiceReadyReply{Value: "2.0.0"})
		expect(t, "directory", invoke(p, &wire.GetFsdir, &wire.GetFsdirRequest{}), wire.GetFsdirReply{})
		config := invoke(p, &wire.GetStorageConfig, &wire.GetStorageConfigRequest{})
		expect(t, "storage", config.Err, 0)
		expect(t, "storage directory", config.Value.Fsdir, "")
	})
}

func TestTasksOfAProvedClient(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		p.mount("node", 1<<44, mib)
		tasks := invoke(p, &wire.FetchTasks, &wire.FetchTasksRequest{ClientID: p.id, BatchSize: 16})
		if tasks.Err != 0 || len(tasks.Value) != 0 {
			t.Errorf("tasks: %+v", tasks)
		}
		done := wire.MarkTaskToCompleteRequest{ClientID: p.id, Task: wire.TaskCompleteRequest{ID: newID(), Status: wire.TaskStatusSuccess}}
		expect(t, "end of an unknown task", invoke(p, &wire.MarkTaskToComplete, &done).Err, wire.ErrTaskNotFound)
	})
}
