package master

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/replication"
	"mooncake/wire"
)

// TestTransfer asks the leader of three to hand over: another leads with everything, no call fails, and the first follows and can
// be the next.
func TestTransfer(t *testing.T) {
	etcd := startEtcd(t)
	first := newMember(t, etcd)
	first.awaitState("serving")
	alone := mooncakev1.NewAdminClient(first.grpc())
	_, err := alone.Transfer(soon(t), &mooncakev1.TransferRequest{})
	refusedAs(t, "without another master", err, codes.FailedPrecondition)
	others := []*bed{newMember(t, etcd), newMember(t, etcd)}
	all := append(others, first)
	for _, b := range all {
		b.cluster.successor = time.Minute // however slow the machine is
	}
	for _, b := range others {
		b.awaitState("standby")
	}
	owner := first.client(wire.V13)
	owner.mount("pool", 1<<44, 64*mib)
	owner.put("before", mib)
	expect(t, "a put's start", owner.putStart("during", mib).Err, 0)
	leading := func() (at int) {
		at = -1
		for i, b := range all {
			if b.cluster.Standing().Role == "leader" {
				at = i
			}
		}
		return at
	}
	from := first
	for round := range 2 {
		waitFor(t, "two that could lead", func() bool {
			n := 0
			for _, b := range all {
				if s := b.cluster.Standing(); s.State == "standby" && s.Promotable {
					n++
				}
			}
			return n == 2
		})
		var reply *mooncakev1.TransferReply
		waitFor(t, "a transfer", func() (done bool) {
			var err error
			reply, err = mooncakev1.NewAdminClient(from.grpc()).Transfer(soon(t), &mooncakev1.TransferRequest{})
			if status.Code(err) == codes.FailedPrecondition {
				return false // a standby that has not heard of etcd for a moment, on a slow machine
			}
			if err != nil {
				t.Fatal(err)
			}
			return true
		})
		waitFor(t, "another leader", func() bool { at := leading(); return at >= 0 && all[at] != from })
		next := all[leading()]
		if reply.GetLeader().GetRpcAddress() != next.cluster.self {
			t.Errorf("round %d: %q leads, not %q", round, reply.GetLeader().GetRpcAddress(), next.cluster.self)
		}
		from.awaitState("standby")
		next.awaitState("serving")
		expect(t, "get", owner.get("before").Err, 0)
		if round == 0 {
			expect(t, "the put's end at the next leader", owner.putEnd("during"), 0)
		}
		_, err := mooncakev1.NewAdminClient(from.grpc()).Transfer(soon(t), &mooncakev1.TransferRequest{})
		refusedAs(t, "a standby", err, codes.Unavailable)
		from = next
	}
	fresh := from.client(wire.V13)
	for _, key := range []string{"before", "during"} {
		if !fresh.exists(key) {
			t.Errorf("%s is lost", key)
		}
	}
}

// saved receives a snapshot and checks its sum.
func saved(t *testing.T, conn *grpcPeer) ([]byte, *mooncakev1.SavedSnapshot) {
	t.Helper()
	stream := got[grpc.ServerStreamingClient[mooncakev1.SaveSnapshotReply]](t, "save")(mooncakev1.NewAdminClient(conn).SaveSnapshot(soon(t), &mooncakev1.SaveSnapshotRequest{}))
	var text bytes.Buffer
	for {
		reply, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		text.Write(reply.GetData())
		if e := reply.GetEnd(); e != nil {
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %v", err)
			}
			sum := sha256.Sum256(text.Bytes())
			if hex.EncodeToString(sum[:]) != e.GetSha256() || e.GetBytes() != uint64(text.Len()) {
				t.Errorf("%d bytes of sum %x, told: %v", text.Len(), sum, e)
			}
			return text.Bytes(), e
		}
	}
}

// TestSaveSnapshot saves what a master with a journal and one with etcd hold, and begins others with it.
func TestSaveSnapshot(t *testing.T) {
	_, err := got[grpc.ServerStreamingClient[mooncakev1.SaveSnapshotReply]](t, "save")(
		mooncakev1.NewAdminClient(newBed(t, withGRPC).grpc()).SaveSnapshot(soon(t), &mooncakev1.SaveSnapshotRequest{})).Recv()
	refusedAs(t, "a master that keeps nothing", err, codes.FailedPrecondition)

	fill := func(b *bed) []byte {
		p := b.client(wire.V13)
		p.mount("pool", 1<<44, 64*mib)
		for _, key := range []string{"a", "b", "c"} {
			p.put(key, mib)
		}
		text, end := saved(t, b.grpc())
		if end.GetObjects() != 3 || end.GetLast() == 0 {
			t.Errorf("%v", end)
		}
		p.put("later", mib)
		return text
	}
	open := func(text []byte) *replication.SavedHistory {
		t.Helper()
		file := filepath.Join(t.TempDir(), "snapshot")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := replication.OpenSaved(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	holds := func(b *bed) {
		t.Helper()
		p := b.client(wire.V14)
		for key, want := range map[string]bool{"a": true, "b": true, "c": true, "later": false} {
			if p.exists(key) != want {
				t.Errorf("%s: %v, want %v", key, !want, want)
			}
		}
	}
	etcd := startEtcd(t)
	member := newMember(t, etcd)
	member.awaitState("serving")
	for name, text := range map[string][]byte{
		"a journal": fill(newBed(t, withGRPC, func(c *Config) { c.DataDir = t.TempDir() })),
		"etcd":      fill(member),
	} {
		s := open(text)
		dir := filepath.Join(t.TempDir(), "data")
		if err := s.RestoreDir(soon(t), dir); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		holds(newBed(t, func(c *Config) { c.DataDir = dir }))
		if err := s.RestoreDir(soon(t), dir); err == nil {
			t.Errorf("%s: restored where something is", name)
		}
	}
}
