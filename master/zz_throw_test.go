package master

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"mooncake/catalog"
	"mooncake/wire"
	"mooncake/wire/rpc"
)

func TestZZUnrest(t *testing.T) {
	b := newBed(t, func(c *Config) {
		c.PutDiscard, c.PutRelease, c.LeaseTTL = 3*time.Second, 12*time.Second, 500*time.Millisecond
		c.ClientActiveTTL, c.ClientSuspicionTTL, c.ClientLostTTL = 2*time.Second, 2*time.Second, 3*time.Second
	})
	end := time.Now().Add(75 * time.Second)
	var wg sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	count := func(s string) { mu.Lock(); counts[s]++; mu.Unlock() }
	dial := func(d wire.Dialect, id wire.UUID) *peer {
		c, err := rpc.Dial(context.Background(), fmt.Sprint("127.0.0.1:", b.Ports().RPC), rpc.ClientConfig{})
		if err != nil {
			t.Error(err)
			return nil
		}
		p := &peer{caller: c, t: t, d: d, id: id}
		_, _ = try(p, &wire.PutStart, &wire.PutStartRequest{ClientID: p.id})
		return p
	}
	// owners
	for n := range 4 {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(n), 1))
			id, gen := newID(), 0
			seg := wire.Segment{ID: newID(), Name: fmt.Sprint("node", n%3), Base: 1 << 44, Size: 4 * mib, TeEndpoint: fmt.Sprint("node", n, ":1"), Protocol: "tcp"}
			p := dial(dialects[n%3], id)
			for time.Now().Before(end) {
				rep, err := try(p, &wire.Ping, &wire.PingRequest{ClientID: id})
				if err != nil {
					count("owner err")
					return
				}
				if rep.Value.ClientStatus == wire.ClientStatusNeedRemount {
					_, _ = try(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: id})
					_, _ = try(p, &wire.ReMountSegment, &wire.ReMountSegmentRequest{Segments: []wire.Segment{seg}, ClientID: id})
					count("remount")
				}
				switch dice.IntN(40) {
				case 0:
					time.Sleep(time.Duration(dice.IntN(9000)) * time.Millisecond)
					count("pause")
				case 1: // a new process at the same endpoint
					_ = p.caller.(*rpc.Client).Close()
					gen++
					id, seg.ID = newID(), newID()
					if dice.IntN(2) == 0 {
						seg.Base += 2 * mib
					}
					p = dial(dialects[n%3], id)
					count("owner replaced")
				case 2:
					_, _ = try(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg.ID, ClientID: id})
					_, _ = try(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: id})
				default:
					time.Sleep(300 * time.Millisecond)
				}
			}
			_ = p.caller.(*rpc.Client).Close()
		})
	}
	for n := range 6 {
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(n), 2))
			id := newID()
			p := dial(dialects[n%3], id)
			for time.Now().Before(end) {
				key := fmt.Sprint("k", dice.IntN(30))
				if dice.IntN(4) == 0 {
					key = fmt.Sprintf("p/%032x/%s", dice.IntN(3), []string{"meta", "buffer/a", "manifest"}[dice.IntN(3)])
				}
				cfg := oneCopy()
				cfg.ReplicaNum = uint64(1 + dice.IntN(3))
				if dice.IntN(3) == 0 {
					cfg.PreferredSegment = fmt.Sprint("node", dice.IntN(4))
				}
				if dice.IntN(5) == 0 && key[0] == 'k' {
					cfg.GroupIDs = wire.Some([]string{"g"})
				}
				size := uint64(1 + dice.IntN(600_000))
				switch dice.IntN(12) {
				case 0, 1, 2:
					rep, _ := try(p, &wire.PutStart, &wire.PutStartRequest{ClientID: id, Key: key, Size: size, Config: cfg})
					count("put " + rep.Err.String())
					if rep.Err == 0 && dice.IntN(5) > 0 {
						r, _ := try(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll})
						count("end " + r.Err.String())
					}
				case 3, 4:
					rep, _ := try(p, &wire.UpsertStart, &wire.UpsertStartRequest{ClientID: id, Key: key, Size: size, Config: cfg})
					count("upsert " + rep.Err.String())
					if rep.Err == 0 && dice.IntN(3) > 0 {
						r, _ := try(p, &wire.UpsertEnd, &wire.UpsertEndRequest{ClientID: id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll})
						count("end " + r.Err.String())
					}
				case 5:
					r, _ := try(p, &wire.PutRevoke, &wire.PutRevokeRequest{ClientID: id, Key: key, ReplicaType: wire.ReplicaTypeAll})
					count("revoke " + r.Err.String())
				case 6:
					r, _ := try(p, &wire.Remove, &wire.RemoveRequest{Key: key, Force: dice.IntN(2) == 0})
					count("remove " + r.Err.String())
				case 7:
					if dice.IntN(20) == 0 {
						_, _ = try(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: dice.IntN(2) == 0})
					}
				case 8: // dies or drops its connections
					if dice.IntN(10) == 0 {
						_ = p.caller.(*rpc.Client).Close()
						time.Sleep(time.Duration(dice.IntN(7000)) * time.Millisecond)
						if dice.IntN(2) == 0 {
							id = newID()
						}
						p = dial(dialects[n%3], id)
						count("reconnect")
					}
				case 9:
					r, _ := try(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: id, Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll})
					count("stray end " + r.Err.String())
				default:
					r, _ := try(p, &wire.GetReplicaList, &wire.GetReplicaListRequest{Key: key})
					count("get " + r.Err.String())
					_, _ = try(p, &wire.ExistKey, &wire.ExistKeyRequest{Key: key})
				}
				s := b.service.Stats()
				if s.Keys > 1<<30 || s.AllocatedBytes > s.CapacityBytes || s.QuarantinedBytes > s.CapacityBytes || s.AllocatedBytes+s.QuarantinedBytes > s.CapacityBytes || s.LostBytes > 1<<40 || s.OpenKeys > 1000 {
					t.Errorf("%+v", s)
				}
				time.Sleep(time.Millisecond)
			}
			_ = p.caller.(*rpc.Client).Close()
		})
	}
	wg.Wait()
	t.Log(counts)
	time.Sleep(14 * time.Second)
	b.service.RemoveAll(true)
	t.Logf("%+v", b.service.cat.Stats())
	_ = catalog.StageActive
}
