package wire

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"mooncake/wire/pack"
)

func TestCallTable(t *testing.T) {
	counts := map[Dialect]int{}
	var ambiguous []string
	for c := range CallID(NumCalls) {
		for d := V12; d <= V14; d++ {
			if c.Releases().Has(d) {
				counts[d]++
			}
		}
		if got, ok := Lookup(c.FunctionID()); !ok || got != c {
			t.Errorf("Lookup(%08x) = %v, %v", c.FunctionID(), got, ok)
		}
		if c.FunctionID() != pack.FunctionID(pack.ServicePrefix+c.Name()) {
			t.Errorf("%v has id %08x", c, c.FunctionID())
		}
		if c.AmbiguousReply() {
			ambiguous = append(ambiguous, c.Name())
		}
	}
	if counts[V12] != 60 || counts[V13] != 64 || counts[V14] != 81 {
		t.Errorf("calls per release: %v", counts)
	}
	want := "[GetReplicaListByRegex GetReplicaList BatchGetReplicaList PromotionAllocStart CopyStart MoveStart]"
	if fmt.Sprint(ambiguous) != want {
		t.Errorf("ambiguous replies: %v", ambiguous)
	}
	if _, ok := Lookup(0x12345678); ok {
		t.Error("an unknown function is found")
	}
	none := CallID(NumCalls)
	set, err := none.Accepts([]byte{1, 2, 3, 4, 5})
	if none.String() != "call 81" || none.FunctionID() != 0 || none.Releases() != 0 || none.AmbiguousReply() || set != 0 || err == nil ||
		UnavailableReply(nil, none, V12, nil) != nil {
		t.Errorf("a number that is no call: %v accepts %v, %v", none, set, err)
	}
}

func TestAccepts(t *testing.T) {
	put := PutStartRequest{Key: "k", Config: ReplicateConfig{ReplicaNum: 1}}
	clear := BatchReplicaClearRequest{Keys: []string{"k"}}
	mount := MountSegmentRequest{Segment: Segment{Name: "s"}}
	end := PutEndRequest{Object: ObjectMeta{Key: "k"}}
	exist := ExistKey.AppendRequest(nil, V12, &ExistKeyRequest{Key: "k"})
	tests := []struct {
		name string
		call CallID
		body []byte
		want DialectSet
		err  error
	}{
		{"PutStart of 12", CallPutStart, PutStart.AppendRequest(nil, V12, &put), SetOf(V12), nil},
		{"PutStart of 13", CallPutStart, PutStart.AppendRequest(nil, V13, &put), SetOf(V13), nil},
		{"PutStart of 14", CallPutStart, PutStart.AppendRequest(nil, V14, &put), SetOf(V14), nil},
		{"PutEnd of 12", CallPutEnd, PutEnd.AppendRequest(nil, V12, &end), SetOf(V12), nil},
		{"PutEnd of 13", CallPutEnd, PutEnd.AppendRequest(nil, V13, &end), SetOf(V13, V14), nil},
		{"PutRevoke has the hash of 12's PutEnd", CallPutRevoke, PutEnd.AppendRequest(nil, V12, &end), AllDialects, nil},
		{"MountSegment of 12", CallMountSegment, MountSegment.AppendRequest(nil, V12, &mount), SetOf(V12, V13), nil},
		{"MountSegment of 14", CallMountSegment, MountSegment.AppendRequest(nil, V14, &mount), SetOf(V14), nil},
		{"BatchReplicaClear of 13", CallBatchReplicaClear, BatchReplicaClear.AppendRequest(nil, V13, &clear), SetOf(V12, V13), nil},
		{"BatchReplicaClear of 14", CallBatchReplicaClear, BatchReplicaClear.AppendRequest(nil, V14, &clear), SetOf(V14), nil},
		{"ExistKey", CallExistKey, exist, AllDialects, nil},
		{"ProbeKey", CallProbeKey, exist, SetOf(V14), nil},
		{
			"DynamicReplicaCopyEnd", CallDynamicReplicaCopyEnd, DynamicReplicaCopyEnd.AppendRequest(nil, V12, new(DynamicReplicaCopyEndRequest)),
			SetOf(V13, V14), nil,
		},
		{"no arguments", CallServiceReady, nil, AllDialects, nil},
		{"no arguments, but a body", CallServiceReady, []byte{1}, AllDialects, nil},
		{"empty body", CallExistKey, nil, 0, pack.ErrShort},
		{"hash of another call", CallExistKey, Ping.AppendRequest(nil, V12, new(PingRequest)), 0, pack.ErrHash},
		{"wrong literal", CallExistKey, bytes.Replace(exist, []byte{0x0c, 0xff}, []byte{0x0b, 0xff}, 1), 0, pack.ErrLiteral},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.call.Accepts(tt.body)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("dialects %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

// TestUnavailable: every call says in its own reply type that it is not offered, in every dialect.
func TestUnavailable(t *testing.T) {
	for c := range CallID(NumCalls) {
		for d := V12; d <= V14; d++ {
			body := UnavailableReply([]byte("head"), c, d, nil)
			if !bytes.HasPrefix(body, []byte("head")) {
				t.Fatalf("%v: dst was lost", c)
			}
			x, err := everyCall[c].decodeReplyAny(body[4:], d)
			if err != nil {
				t.Errorf("%v %v: %v", c, d, err)
			}
			text := fmt.Sprintf("%+v", x)
			single := bytes.Contains([]byte(text), []byte("UNAVAILABLE_IN_CURRENT_MODE")) || bytes.Contains([]byte(text), []byte("NOT_READY"))
			if !single && text != "&[]" && c != CallRemoveAll {
				t.Errorf("%v %v answers %s", c, d, text)
			}
		}
	}
	request := BatchPutStart.AppendRequest(nil, V12, &BatchPutStartRequest{Keys: []string{"a", "b", "c"}})
	var rep BatchPutStartReply
	if err := BatchPutStart.DecodeReply(UnavailableReply(nil, CallBatchPutStart, V12, request), V12, &rep); err != nil {
		t.Fatal(err)
	}
	if len(rep) != 3 || rep[0].Err != ErrUnavailableInCurrentMode || rep[2].Err != ErrUnavailableInCurrentMode {
		t.Errorf("three keys are answered %+v", rep)
	}
	request = BatchProbeKey.AppendRequest(nil, V14, &BatchProbeKeyRequest{Keys: make([]string, 300)})
	var probe BatchProbeKeyReply
	if err := BatchProbeKey.DecodeReply(UnavailableReply(nil, CallBatchProbeKey, V14, request), V14, &probe); err != nil || len(probe) != 300 {
		t.Errorf("300 keys are answered by %d items, %v", len(probe), err)
	}
}

func TestErrorsNameTheCall(t *testing.T) {
	var req PutStartRequest
	if err := PutStart.DecodeRequest([]byte{1}, V13, &req); err == nil || err.Error() != "request of PutStart: byte 0: the body ends inside a field" {
		t.Errorf("error is %v", err)
	}
	body := []byte{0xa6, 0x27, 0x39, 0xc4, 0}
	var rep PutStartReply
	err := PutStart.DecodeReply(body, V13, &rep)
	if !errors.Is(err, pack.ErrNoError) && !errors.Is(err, pack.ErrShort) {
		t.Errorf("error is %v", err)
	}
	err = PutStart.DecodeReply(append(body, 0, 0, 0, 0), V13, &rep)
	if !errors.Is(err, pack.ErrNoError) {
		t.Errorf("failed with error 0: %v", err)
	}
}
