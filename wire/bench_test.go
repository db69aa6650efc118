package wire

import (
	"fmt"
	"testing"
)

// putStart is a put as a training step sends it: one preferred segment, a group of its own.
func putStart() *PutStartRequest {
	return &PutStartRequest{
		ClientID: UUID{1, 2}, Key: "rollout/step-000123/3f2b9c0d5e8a4f71b6c2d9e0a1b3c4d5/7", Size: 12 << 20, TenantID: "default",
		Config: ReplicateConfig{
			ReplicaNum: 1, PreferredSegments: []string{"10.0.0.7:17001"}, HostID: "node-7",
			GroupIDs: Some([]string{"3f2b9c0d5e8a4f71b6c2d9e0a1b3c4d5"}),
		},
	}
}

func replica(id uint64) ReplicaDescriptor {
	return ReplicaDescriptor{
		ID: id, Status: ReplicaStatusComplete,
		DescriptorVariant: ReplicaVariant{Memory: MemoryDescriptor{BufferDescriptor: BufferDescriptor{
			Size: 12 << 20, BufferAddress: 1<<45 + id<<24, Protocol: "tcp", TransportEndpoint: "10.0.0.7:17001",
		}}},
	}
}

func batchPutStart(n int) (*BatchPutStartRequest, *BatchPutStartReply) {
	one := putStart()
	req := &BatchPutStartRequest{ClientID: one.ClientID, Config: one.Config, TenantID: one.TenantID}
	var rep BatchPutStartReply
	for i := range n {
		req.Keys = append(req.Keys, fmt.Sprintf("%s-%d", one.Key, i))
		req.Sizes = append(req.Sizes, one.Size)
		rep = append(rep, PutStartReply{Value: []ReplicaDescriptor{replica(uint64(i))}})
	}
	return req, &rep
}

// TestAllocationsOfPutStart: reading a put and writing its answer takes at most 3 pieces of memory besides its strings.
func TestAllocationsOfPutStart(t *testing.T) {
	const stringsOfPutStart = 4 // key, preferred segment, host, group; "default" is free
	rep := PutStartReply{Value: []ReplicaDescriptor{replica(1)}}
	for d := V12; d <= V14; d++ {
		body := PutStart.AppendRequest(nil, d, putStart())
		buf := make([]byte, 0, 4096)
		allocs := testing.AllocsPerRun(200, func() {
			var req PutStartRequest
			if err := PutStart.DecodeRequest(body, d, &req); err != nil {
				t.Fatal(err)
			}
			buf = PutStart.AppendReply(buf[:0], d, &rep)
		})
		if allocs > 3+stringsOfPutStart {
			t.Errorf("%v: %v allocations", d, allocs)
		}
	}
}

// TestAllocationsOfReplies: an answer is written into the given buffer without any other memory.
func TestAllocationsOfReplies(t *testing.T) {
	list := &GetReplicaListReply{Value: GetReplicaListResponse{Replicas: []ReplicaDescriptor{replica(1)}, LeaseTTLMs: 5000}}
	_, batch := batchPutStart(100)
	buf := make([]byte, 0, 64<<10)
	for d := V12; d <= V14; d++ {
		allocs := testing.AllocsPerRun(100, func() {
			buf = GetReplicaList.AppendReply(buf[:0], d, list)
			buf = BatchPutStart.AppendReply(buf[:0], d, batch)
		})
		if allocs != 0 {
			t.Errorf("%v: %v allocations", d, allocs)
		}
	}
}

func perDialect(b *testing.B, run func(b *testing.B, d Dialect)) {
	for d := V12; d <= V14; d++ {
		b.Run(d.String(), func(b *testing.B) {
			b.ReportAllocs()
			run(b, d)
		})
	}
}

func BenchmarkPutStart(b *testing.B) {
	rep := PutStartReply{Value: []ReplicaDescriptor{replica(1)}}
	perDialect(b, func(b *testing.B, d Dialect) {
		body := PutStart.AppendRequest(nil, d, putStart())
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			var req PutStartRequest
			if err := PutStart.DecodeRequest(body, d, &req); err != nil {
				b.Fatal(err)
			}
			buf = PutStart.AppendReply(buf[:0], d, &rep)
		}
	})
}

func BenchmarkGetReplicaListReply(b *testing.B) {
	rep := GetReplicaListReply{Value: GetReplicaListResponse{Replicas: []ReplicaDescriptor{replica(1)}, LeaseTTLMs: 5000}}
	perDialect(b, func(b *testing.B, d Dialect) {
		buf := make([]byte, 0, 4096)
		for b.Loop() {
			buf = GetReplicaList.AppendReply(buf[:0], d, &rep)
		}
	})
}

func BenchmarkGetReplicaListRequest(b *testing.B) {
	perDialect(b, func(b *testing.B, d Dialect) {
		body := GetReplicaList.AppendRequest(nil, d, &GetReplicaListRequest{Key: putStart().Key, TenantID: "default"})
		for b.Loop() {
			if set, err := CallGetReplicaList.Accepts(body); err != nil || !set.Has(d) {
				b.Fatal(set, err)
			}
			var req GetReplicaListRequest
			if err := GetReplicaList.DecodeRequest(body, d, &req); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkBatchPutStart100 reads a put of a hundred keys and writes its answer.
func BenchmarkBatchPutStart100(b *testing.B) {
	req, rep := batchPutStart(100)
	perDialect(b, func(b *testing.B, d Dialect) {
		body := BatchPutStart.AppendRequest(nil, d, req)
		buf := make([]byte, 0, 64<<10)
		for b.Loop() {
			var got BatchPutStartRequest
			if err := BatchPutStart.DecodeRequest(body, d, &got); err != nil {
				b.Fatal(err)
			}
			buf = BatchPutStart.AppendReply(buf[:0], d, rep)
		}
	})
}
