//go:build rdmavm

package rdma

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
)

// TestVMStrangers shakes hands for peers that are not what they say: their queue pairs do not exist, belong to somebody else or
// to the device itself, or lie where no packet arrives. Each is refused or found out, a good peer is served meanwhile, and
// nothing is left.
func TestVMStrangers(t *testing.T) {
	before := resources(t)
	t.Run("", func(t *testing.T) {
		f := openVM(t, Config{Timeout: 14, ProbeEvery: 200 * time.Millisecond, Log: zap.NewNop()})
		region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
		must(t, err)
		key := region.Describe()[0].RKey[0]
		good := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15001")
		defer good.vanish()
		good.connect(f, self, "rxe0", 2)
		ours := f.rails[0].describe().GID
		strangers := []*descriptor.Connection{
			{LocalGID: good.gid.String(), QPNum: []uint32{1 << 20}},
			{LocalGID: good.gid.String(), QPNum: []uint32{1<<24 - 1, 1<<24 - 2}},
			{LocalGID: good.gid.String(), QPNum: []uint32{good.qps[0].number()}}, // a good peer's, which is ours already
			{LocalGID: ipv4GID(77).String(), QPNum: []uint32{17}},                // nobody has the address
			{LocalGID: ours, QPNum: []uint32{good.qps[0].number(), 18}},          // ourselves
			{LocalGID: "ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff:ff", QPNum: []uint32{19}},
			{LocalGID: GID{15: 1}.String(), QPNum: []uint32{20}}, // ::1
		}
		for round := range 5 {
			for i, s := range strangers {
				s.PeerNICPath, s.LocalNICPath = descriptor.NICPath(self, "rxe0"), fmt.Sprintf("stranger:%d@%d", i, round)
				if answer := f.Accept(self, s); answer.ReplyMsg != "" {
					t.Logf("stranger %d: %s", i, answer.ReplyMsg)
				}
			}
			must(t, good.do(round%2, opWrite, 0, 1<<16, base, key))
		}
		eventually(t, "only the good peer is left", func() bool {
			s := f.Stats()
			return len(s.Peers) == 1 && s.Peers[0].Path == good.name
		})
		must(t, good.do(0, opWrite, 0, 1<<16, base, key))
		must(t, good.do(1, opRead, 0, 1<<16, base, key))
	})
	if after := resources(t); after != before {
		t.Errorf("resources before:\n%safter:\n%s", before, after)
	}
}

// TestVMFlaps takes the port away under a peer, again and again. It fails each time, comes again when the port is back, and in
// the end holds what it held.
func TestVMFlaps(t *testing.T) {
	f := openVM(t, Config{Timeout: 14, ProbeEvery: 200 * time.Millisecond})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	key := region.Describe()[0].RKey[0]
	w := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15001")
	defer w.vanish()
	w.connect(f, self, "rxe0", 2)
	t.Cleanup(func() { run(t, "ip link set port0 up") })
	for range 8 {
		must(t, w.do(0, opWrite, 0, 1<<16, base, key))
		run(t, "ip link set port0 down")
		if err := w.do(1, opWrite, 0, 100, base, key); err == nil {
			t.Error("something arrived through a port that is down")
		}
		run(t, "ip link set port0 up")
		eventually(t, "the port is up", func() bool { return f.Stats().Devices[0].Usable })
		w.dropPairs()
		w.connect(f, self, "rxe0", 2)
	}
	must(t, w.do(0, opRead, 0, 1<<16, base, key))
	eventually(t, "the peer holds its queue pairs once", func() bool { return f.Stats().QPs == 2 })
}
