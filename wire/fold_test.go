package wire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSoftPinOf12(t *testing.T) {
	for _, tt := range []struct {
		sent, read SoftPinAction
	}{
		{SoftPinPreserve, SoftPinPreserve},
		{SoftPinEnable, SoftPinEnable},
		{SoftPinDisable, SoftPinPreserve},
	} {
		req := PutStartRequest{Key: "k", Config: ReplicateConfig{SoftPinAction: tt.sent, SoftPinTTLMs: Some[uint64](7)}}
		var got PutStartRequest
		if err := PutStart.DecodeRequest(PutStart.AppendRequest(nil, V12, &req), V12, &got); err != nil {
			t.Fatal(err)
		}
		if got.Config.SoftPinAction != tt.read || got.Config.SoftPinTTLMs.Set {
			t.Errorf("%v is read as %v, ttl %v", tt.sent, got.Config.SoftPinAction, got.Config.SoftPinTTLMs)
		}
	}
}

func TestBareKeysOf12(t *testing.T) {
	req := BatchPutEndRequest{
		Objects:  []ObjectMeta{{Key: "a", ObjectChecksum: Some[uint64](1)}, {Key: "b"}},
		TenantID: "default", ReplicaType: ReplicaTypeAll,
	}
	var got BatchPutEndRequest
	if err := BatchPutEnd.DecodeRequest(BatchPutEnd.AppendRequest(nil, V12, &req), V12, &got); err != nil {
		t.Fatal(err)
	}
	req.Objects[0].ObjectChecksum = Opt[uint64]{}
	if d := cmp.Diff(req, got); d != "" {
		t.Error(d)
	}
}

// TestRepliesTo12HideWhatItCannotRead: no checksum, no distributed file system.
func TestRepliesTo12HideWhatItCannotRead(t *testing.T) {
	memory := ReplicaDescriptor{ID: 1, Status: ReplicaStatusComplete}
	dfs := ReplicaDescriptor{ID: 2, DescriptorVariant: ReplicaVariant{
		Index: VariantDFS, DFS: &DistributedFSDescriptor{FilePath: "/f", ObjectSize: 9},
	}}
	list := GetReplicaListReply{Value: GetReplicaListResponse{
		Replicas: []ReplicaDescriptor{dfs, memory, dfs}, LeaseTTLMs: 5000, ObjectChecksum: Some[uint64](3),
	}}
	var got GetReplicaListReply
	if err := GetReplicaList.DecodeReply(GetReplicaList.AppendReply(nil, V12, &list), V12, &got); err != nil {
		t.Fatal(err)
	}
	if got.Value.ObjectChecksum.Set || len(got.Value.Replicas) != 1 || got.Value.Replicas[0].ID != 1 {
		t.Errorf("12 is shown %+v", got.Value)
	}
	if err := GetReplicaList.DecodeReply(GetReplicaList.AppendReply(nil, V13, &list), V13, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(list, got); d != "" {
		t.Errorf("13 is shown something else: %s", d)
	}

	move := MoveStartReply{Value: MoveStartResponse{Source: dfs, Target: Some(dfs)}}
	var moved MoveStartReply
	if err := MoveStart.DecodeReply(MoveStart.AppendReply(nil, V12, &move), V12, &moved); err != nil {
		t.Fatal(err)
	}
	source := moved.Value.Source.DescriptorVariant
	if moved.Value.Target.Set || source.Index != VariantDisk || source.Disk.FilePath != "/f" || source.Disk.ObjectSize != 9 {
		t.Errorf("12 is shown %+v", moved.Value)
	}
	move.Value.Source.DescriptorVariant.DFS = nil
	if err := MoveStart.DecodeReply(MoveStart.AppendReply(nil, V12, &move), V12, &moved); err != nil {
		t.Fatal(err)
	}
}

// TestVariantWithoutItsDescription is written with an empty one: no index makes an encoder panic.
func TestVariantWithoutItsDescription(t *testing.T) {
	for d := V12; d <= V14; d++ {
		for index := range uint8(7) {
			rep := PutStartReply{Value: []ReplicaDescriptor{{DescriptorVariant: ReplicaVariant{Index: index}}}}
			var got PutStartReply
			if err := PutStart.DecodeReply(PutStart.AppendReply(nil, d, &rep), d, &got); err != nil {
				t.Errorf("%v, index %d: %v", d, index, err)
			}
		}
	}
}

// TestMissingArgumentIsEmpty: 12 and 13 send no tenant with BatchReplicaClear; what was in the struct before is gone.
func TestMissingArgumentIsEmpty(t *testing.T) {
	body := BatchReplicaClear.AppendRequest(nil, V13, &BatchReplicaClearRequest{Keys: []string{"k"}, TenantID: "x"})
	got := BatchReplicaClearRequest{TenantID: "old", SegmentName: "old"}
	if err := BatchReplicaClear.DecodeRequest(body, V13, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(BatchReplicaClearRequest{Keys: []string{"k"}}, got); d != "" {
		t.Error(d)
	}
}
