//go:build rdmavm

package rdma

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"

	"mooncake/descriptor"
)

// targetOf makes a target of a fabric in this process. The segment is described as the daemon does.
func targetOf(f *Fabric, region *Region, name string) Target {
	devices, buffers := region.Publish()
	for i := range buffers {
		buffers[i].Name = "cpu:0"
	}
	return Target{
		Self:    self,
		Segment: &descriptor.Segment{Name: name, Protocol: descriptor.ProtocolRDMA, TCPProtoVersion: 1, Devices: devices, Buffers: buffers},
		Handshake: func(_ context.Context, req *descriptor.Connection) (*descriptor.Connection, error) {
			answer := f.Accept(name, req)
			return &answer, nil
		},
	}
}

// TestVMCopies copies between two fabrics, from registered memory and from other, and falls back to an error when the wire
// is cut.
func TestVMCopies(t *testing.T) {
	const peer = "192.168.99.2:17001"
	holder := openVM(t, Config{Rails: rxe(t, "rxe1"), PartBytes: 2 << 20})
	theirs := mapped(t, 8<<20)
	region, err := holder.Register(t.Context(), theirs, base, nil)
	must(t, err)
	f := openVM(t, Config{})
	// One that finds out soon that nobody answers. Not for much data: on a busy host software RoCE mistakes what is sent again
	// for another request.
	hasty := openVM(t, Config{Timeout: 14})
	ours := mapped(t, 8<<20)
	for i, fabric := range []*Fabric{f, hasty} {
		_, err = fabric.Register(t.Context(), ours, uint64(2+i)*base, nil)
		must(t, err)
	}
	target := targetOf(holder, region, peer)
	_, err = rand.NewChaCha8([32]byte{}).Read(ours)
	must(t, err)
	for _, size := range []int{1, 65536, 3<<20 + 7, 8 << 20} {
		must(t, f.Write(t.Context(), target, base, ours[:size]))
		if !bytes.Equal(ours[:size], theirs[:size]) {
			t.Fatalf("%d bytes differ after write", size)
		}
		back := make([]byte, size)
		start := time.Now()
		must(t, f.Read(t.Context(), target, base, back))
		t.Logf("%d bytes read in %v", size, time.Since(start))
		if !bytes.Equal(ours[:size], back) {
			t.Fatalf("%d bytes differ after read", size)
		}
	}
	t.Logf("%+v", f.Stats())
	must(t, hasty.Read(t.Context(), target, base, ours[:1]))
	run(t, "ip link set port1 nomaster")
	t.Cleanup(func() { run(t, "ip link set port1 master fabric") })
	start := time.Now()
	err = hasty.Read(t.Context(), target, base, ours)
	t.Logf("after %v: %v", time.Since(start), err)
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("cut off: %v", err)
	}
}

// TestVMPorts takes a port down and up, and an address away: the devices are as peers should see them.
func TestVMPorts(t *testing.T) {
	f := openVM(t, Config{Rails: rxe(t, "rxe0", "rxe1"), ProbeEvery: 500 * time.Millisecond, Timeout: 14})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	names := func() (out string) {
		devices, buffers := region.Publish()
		for i, d := range devices {
			out += d.Name + " "
			if buffers[0].RKey[i] == 0 {
				t.Errorf("%s has no key", d.Name)
			}
		}
		return out
	}
	w := newWheel(t, verbsOf(t), "rxe0", "192.168.99.1:15001")
	defer w.vanish()
	w.connect(f, self, "rxe1", 2)
	run(t, "ip link set port1 down")
	eventually(t, "rxe1 is not listed", func() bool { return names() == "rxe0 " })
	<-f.Changed()
	if answer := f.Accept(self, w.prepare(descriptor.NICPath(self, "rxe1"), 1)); answer.ReplyMsg == "" {
		t.Error("accepted on a port that is down")
	}
	run(t, "ip link set port0 down")
	eventually(t, "all are listed while none works", func() bool { return names() == "rxe0 rxe1 " })
	run(t, "ip link set port0 up")
	run(t, "ip link set port1 up")
	eventually(t, "both work", func() bool { s := f.Stats(); return s.Devices[0].Usable && s.Devices[1].Usable })
	t.Logf("%+v", f.Stats())
	run(t, "ip addr del 192.168.99.2/24 dev node1")
	eventually(t, "the address is gone", func() bool { return names() == "rxe0 " })
	run(t, "ip addr add 192.168.99.2/24 dev node1")
	run(t, "ip route add 192.168.99.0/24 dev node1 src 192.168.99.2 table 101") // it went with the address
	eventually(t, "the address is back", func() bool { return names() == "rxe0 rxe1 " })
	t.Logf("%+v", f.Stats())
}

// TestVMDelete deletes a device under a fabric and its peer.
func TestVMDelete(t *testing.T) {
	f := openVM(t, Config{Rails: rxe(t, "rxe0", "rxe1"), ProbeEvery: 500 * time.Millisecond, Timeout: 14})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	w := newWheel(t, verbsOf(t), "rxe0", "192.168.99.1:15001")
	defer w.vanish()
	w.connect(f, self, "rxe1", 2)
	start := time.Now()
	run(t, "rdma link delete rxe1") // it waits until nobody has the device open
	t.Logf("deleted after %v", time.Since(start))
	eventually(t, "the device is gone", func() bool { return f.Stats().Devices[1].State == "GONE" })
	eventually(t, "nothing is left of it", func() bool {
		s := f.Stats()
		return s.QPs == 0 && s.Devices[1].Regions == 0
	})
	if devices, _ := region.Publish(); len(devices) != 1 || devices[0].Name != "rxe0" {
		t.Errorf("devices: %+v", devices)
	}
	run(t, "rdma link add rxe1 type rxe netdev node1")
}

// TestVMRounds connects and disconnects again and again; nothing is left.
func TestVMRounds(t *testing.T) {
	f := openVM(t, Config{Timeout: 14, ProbeEvery: 200 * time.Millisecond, Log: zap.NewNop()})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	key := region.Describe()[0].RKey[0]
	verbs, before := verbsOf(t), resources(t)
	for round := range 200 {
		w := newWheelOf(t, verbs, "rxe1", "192.168.99.2:"+string(rune('a'+round%20)), 4096)
		w.connect(f, self, "rxe0", 2)
		must(t, w.do(round%2, opWrite, 0, 100, base, key))
		w.vanish()
	}
	eventually(t, "all are reaped", func() bool { return f.Stats().QPs == 0 })
	if after := resources(t); after != before {
		t.Errorf("resources before:\n%safter:\n%s", before, after)
	}
	t.Logf("%+v", f.Stats())
}
