package master

import (
	"fmt"
	"strconv"
	"testing"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// bareCalls answers calls without a socket: what is measured is all between the bytes of a request and those of its reply.
type bareCalls struct {
	port *port
	conn rpc.Conn
	out  []byte
}

// newBareCalls has one segment and some objects with keys of 40 bytes.
func newBareCalls(b *testing.B, objects int) *bareCalls {
	b.Helper()
	s := &bareCalls{port: &port{newBed(b).service, familyUnknown}}
	s.port.Opened(&s.conn)
	b.Cleanup(func() { s.port.Closed(&s.conn) })
	segment := wire.Segment{ID: newID(), Name: "node:17001", Base: 1 << 44, Size: 1 << 46, TeEndpoint: "node:17001", Protocol: "tcp"}
	s.serve(b, frameOf(&wire.MountSegment, &wire.MountSegmentRequest{Segment: segment, ClientID: benchWriter}))
	for first := 0; first < objects; first += 100 {
		s.putBatch(b, first)
	}
	return s
}

var benchWriter = wire.UUID{Hi: 1, Lo: 2}

func benchKey(number int) string { return fmt.Sprintf("bench/%034d", number) }

func frameOf[Req, Rep any](call *wire.Call[Req, Rep], req *Req) rpc.Request {
	return rpc.Request{FunctionID: call.ID.FunctionID(), Body: call.AppendRequest(nil, wire.V13, req)}
}

func (s *bareCalls) serve(b *testing.B, r rpc.Request) {
	body, code, parked := s.port.Serve(&s.conn, r, s.out[:0])
	if s.out = body; code != rpc.CodeOK || parked {
		b.Fatalf("code %d, parked %v: %s", code, parked, body)
	}
}

func (s *bareCalls) putBatch(b *testing.B, first int) {
	start := wire.BatchPutStartRequest{ClientID: benchWriter, Config: oneCopy(), TenantID: defaultTenant}
	end := wire.BatchPutEndRequest{ClientID: benchWriter, ReplicaType: wire.ReplicaTypeAll, TenantID: defaultTenant}
	for i := range 100 {
		start.Keys, start.Sizes = append(start.Keys, benchKey(first+i)), append(start.Sizes, 4096)
		end.Objects = append(end.Objects, wire.ObjectMeta{Key: benchKey(first + i)})
	}
	s.serve(b, frameOf(&wire.BatchPutStart, &start))
	s.serve(b, frameOf(&wire.BatchPutEnd, &end))
}

const benchObjects = 100_000

// BenchmarkReads are look-ups of one key and of a hundred.
func BenchmarkReads(b *testing.B) {
	s := newBareCalls(b, benchObjects)
	var exist, get, exists, gets []rpc.Request
	for i := range 1000 {
		var keys []string
		for k := range 100 {
			keys = append(keys, benchKey((i*100+k)*7919%benchObjects))
		}
		exist = append(exist, frameOf(&wire.ExistKey, &wire.ExistKeyRequest{Key: keys[0], TenantID: defaultTenant}))
		get = append(get, frameOf(&wire.GetReplicaList, &wire.GetReplicaListRequest{Key: keys[0], TenantID: defaultTenant}))
		exists = append(exists, frameOf(&wire.BatchExistKey, &wire.BatchExistKeyRequest{Keys: keys, TenantID: defaultTenant}))
		gets = append(gets, frameOf(&wire.BatchGetReplicaList, &wire.BatchGetReplicaListRequest{Keys: keys, TenantID: defaultTenant}))
	}
	for name, requests := range map[string][]rpc.Request{"exist": exist, "get": get, "exist100": exists, "get100": gets} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.serve(b, requests[i%len(requests)])
			}
		})
	}
}

// BenchmarkPuts write one object, and a hundred, and take them away again where nothing is measured.
func BenchmarkPuts(b *testing.B) {
	for _, each := range []int{1, 100} {
		b.Run(strconv.Itoa(each), func(b *testing.B) {
			s := newBareCalls(b, benchObjects)
			var starts, ends []rpc.Request
			for i := range 10_000 / each {
				start := wire.BatchPutStartRequest{ClientID: benchWriter, Config: oneCopy(), TenantID: defaultTenant}
				end := wire.BatchPutEndRequest{ClientID: benchWriter, ReplicaType: wire.ReplicaTypeAll, TenantID: defaultTenant}
				for k := range each {
					key := benchKey(benchObjects + i*each + k)
					start.Keys, start.Sizes = append(start.Keys, key), append(start.Sizes, 4096)
					end.Objects = append(end.Objects, wire.ObjectMeta{Key: key})
				}
				if each > 1 {
					starts, ends = append(starts, frameOf(&wire.BatchPutStart, &start)), append(ends, frameOf(&wire.BatchPutEnd, &end))
					continue
				}
				starts = append(starts, frameOf(&wire.PutStart, &wire.PutStartRequest{ClientID: benchWriter, Key: start.Keys[0], Size: 4096, Config: oneCopy(), TenantID: defaultTenant}))
				ends = append(ends, frameOf(&wire.PutEnd, &wire.PutEndRequest{ClientID: benchWriter, Object: end.Objects[0], ReplicaType: wire.ReplicaTypeAll, TenantID: defaultTenant}))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; b.Loop(); i++ {
				at := i % len(starts)
				if i > 0 && at == 0 {
					b.StopTimer()
					for n := range 10_000 {
						s.serve(b, frameOf(&wire.Remove, &wire.RemoveRequest{Key: benchKey(benchObjects + n), Force: true, TenantID: defaultTenant}))
					}
					b.StartTimer()
				}
				s.serve(b, starts[at])
				s.serve(b, ends[at])
			}
		})
	}
}
