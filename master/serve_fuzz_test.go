package master

import (
	"context"
	"testing"

	"go.uber.org/zap"

	"mooncake/wire"
	"mooncake/wire/rpc"
)

// recorder is a caller that keeps what it is asked to send and says that it was refused.
type recorder struct{ bodies [][]byte }

func (r *recorder) Call(_ context.Context, _ uint32, body []byte) (uint8, []byte, error) {
	r.bodies = append(r.bodies, body)
	return rpc.CodeCanceled, nil, nil
}

// FuzzServe hands any bytes to any call of a master that holds a segment and an object. It must answer, with a reply of the
// call's own type or with the code for arguments that cannot be read.
func FuzzServe(f *testing.F) {
	for i, c := range everyCall {
		for _, d := range dialects {
			var sent recorder
			_, _ = c.make(&peer{caller: &sent, d: d}) // the request is wanted, not its end
			f.Add(uint8(i), sent.bodies[0])
		}
	}
	cfg := oneCopy()
	for _, d := range dialects {
		f.Add(uint8(wire.CallPutStart), wire.PutStart.AppendRequest(nil, d, &wire.PutStartRequest{Key: "k", Size: 9, Config: cfg}))
		f.Add(uint8(wire.CallUpsertStart), wire.UpsertStart.AppendRequest(nil, d, &wire.UpsertStartRequest{Key: "held", Size: 8, Config: cfg}))
		f.Add(uint8(wire.CallBatchPutStart), wire.BatchPutStart.AppendRequest(nil, d, &wire.BatchPutStartRequest{Keys: []string{"a", "b"}, Sizes: sizes(2), Config: cfg}))
		seg := wire.Segment{ID: newID(), Name: "n", Base: 1 << 44, Size: mib, TeEndpoint: "n:1", Protocol: "tcp"}
		f.Add(uint8(wire.CallMountSegment), wire.MountSegment.AppendRequest(nil, d, &wire.MountSegmentRequest{Segment: seg}))
		f.Add(uint8(wire.CallReMountSegment), wire.ReMountSegment.AppendRequest(nil, d, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}}))
		f.Add(uint8(wire.CallGetReplicaListByRegex), wire.GetReplicaListByRegex.AppendRequest(nil, d, &wire.GetReplicaListByRegexRequest{Regex: "^h.l"}))
	}
	for _, c := range everyCall {
		if int(c.id) >= len(everyCall) {
			f.Fatal("the calls are not numbered densely")
		}
	}
	f.Fuzz(func(t *testing.T, call uint8, body []byte) {
		id := wire.CallID(call) % wire.NumCalls
		s, err := newService(DefaultConfig(), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		defer s.cat.Close()
		owner := newID()
		seg := wire.Segment{ID: newID(), Name: "pool", Base: 1 << 40, Size: mib}
		if err := s.cat.MountSegment(s.clock.Now(), clientID(owner), segmentIn(&seg)); err != nil {
			t.Fatal(err)
		}
		_, o, _ := s.putOptions("held", 8, "", &cfg, "")
		if _, err := s.cat.PutStart(s.clock.Now(), clientID(owner), "held", 8, &o, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.cat.PutEnd(s.clock.Now(), clientID(owner), "held", 0, false, int32(wire.ReplicaTypeAll)); err != nil {
			t.Fatal(err)
		}
		p := &port{Service: s, fixed: family13}
		conn := &rpc.Conn{Tag: s.families.opened(hostA, family13)}
		reply, code, parked := p.Serve(conn, rpc.Request{FunctionID: id.FunctionID(), Body: body}, nil)
		if parked || len(reply) == 0 || code != rpc.CodeOK && code != rpc.CodeInvalidArgs {
			t.Fatalf("%s: parked %v, code %d, %d bytes", id, parked, code, len(reply))
		}
		if code == rpc.CodeInvalidArgs && rpc.ErrorText(reply) != rpc.TextInvalidArgs {
			t.Fatalf("%s: %q", id, rpc.ErrorText(reply))
		}
	})
}
