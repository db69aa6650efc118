package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"mooncake/descriptor"
	"mooncake/rdma"
)

// fakeFabric stands for the devices of a daemon: memory that is not pinned, connections that are only counted, and writes
// that go straight into the memory of another fake behind the same network.
type fakeFabric struct {
	network *fakeNetwork

	mu       sync.Mutex
	rails    []railStats
	first    uint32 // the first key given
	regions  []*fakeRegion
	peers    map[string][]uint32
	self     string
	running  bool
	closed   bool
	writes   int
	writeErr error
	news     chan struct{}
}

// fakeNetwork finds fakes by their name in nic paths.
type fakeNetwork struct {
	mu    sync.Mutex
	nodes []*fakeFabric
	keys  uint32
	err   error // of opening
}

func (n *fakeNetwork) open(c rdma.Config) (fabric, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	n.keys += 1000 // keys of one run mean nothing in the next
	f := &fakeFabric{network: n, first: n.keys, peers: map[string][]uint32{}, news: make(chan struct{}, 1)}
	for _, v := range c.Rails {
		f.rails = append(f.rails, railStats{device: v.Device, port: v.Port, up: true, state: "ACTIVE", counts: []namedCount{{"rdma_regions", "gauge", "Regions", 1}}})
	}
	n.nodes = append(n.nodes, f)
	return f, nil
}

// last is the fabric opened last.
func (n *fakeNetwork) last() *fakeFabric {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[len(n.nodes)-1]
}

// find is the living fabric whose memory has a key.
func (n *fakeNetwork) find(key uint32) *fakeFabric {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.nodes {
		f.mu.Lock()
		held := !f.closed && key >= f.first && key < f.first+uint32(len(f.rails))
		f.mu.Unlock()
		if held {
			return f
		}
	}
	return nil
}

type fakeRegion struct {
	f      *fakeFabric
	mem    []byte
	base   uint64
	closed bool
}

func (f *fakeFabric) register(_ context.Context, mem []byte, base uint64, progress func(done, total uint64)) (region, error) {
	total := uint64(len(mem))
	for done := range uint64(100) {
		progress(done*total/100, total)
	}
	progress(total, total)
	r := &fakeRegion{f: f, mem: mem, base: base}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.regions = append(f.regions, r)
	return r, nil
}

func (r *fakeRegion) publish() ([]descriptor.Device, []descriptor.Buffer) {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	var devices []descriptor.Device
	b := descriptor.Buffer{Addr: r.base, Length: uint64(len(r.mem))}
	for i, rail := range r.f.rails {
		devices = append(devices, descriptor.Device{Name: rail.device, GID: fmt.Sprintf("00:00:00:00:00:00:00:00:00:00:ff:ff:c0:a8:63:%02x", i+1)})
		b.RKey = append(b.RKey, r.f.first+uint32(i))
		b.LKey = append(b.LKey, r.f.first+uint32(i))
	}
	return devices, []descriptor.Buffer{b}
}

func (r *fakeRegion) close() error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	if r.closed {
		return errors.New("a region is closed twice")
	}
	r.closed = true
	return nil
}

func (f *fakeFabric) accept(self string, q *descriptor.Connection) descriptor.Connection {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.self = self
	if server, _, _ := descriptor.SplitNICPath(q.PeerNICPath); server != self {
		return descriptor.Connection{ReplyMsg: "not me"}
	}
	f.peers[q.LocalNICPath] = q.QPNum
	return descriptor.Connection{LocalNICPath: q.PeerNICPath, PeerNICPath: q.LocalNICPath, QPNum: q.QPNum, LocalGID: "g"}
}

func (f *fakeFabric) run(ctx context.Context) error {
	f.mu.Lock()
	f.running = true
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.running = false
	f.mu.Unlock()
	return nil
}

func (f *fakeFabric) changed() <-chan struct{} { return f.news }

// write shakes hands and puts the bytes into the memory that the descriptor's key stands for.
func (f *fakeFabric) write(ctx context.Context, to rdma.Target, addr uint64, data []byte) error {
	f.mu.Lock()
	f.writes++
	err := f.writeErr
	f.mu.Unlock()
	if err != nil {
		return err
	}
	b := to.Segment.Remote(addr, uint64(len(data)))
	if b == nil {
		return errors.New("the address is in no buffer of the peer")
	}
	answer, err := to.Handshake(ctx, &descriptor.Connection{
		LocalNICPath: descriptor.NICPath(to.Self, "fake"), QPNum: []uint32{1, 2},
		PeerNICPath: descriptor.NICPath(to.Segment.ServerName(), to.Segment.Devices[0].Name),
	})
	if err != nil {
		return err
	}
	if answer.ReplyMsg != "" {
		return errors.New(answer.ReplyMsg)
	}
	holder := f.network.find(b.RKey[0])
	if holder == nil {
		return errors.New("remote access error")
	}
	return holder.store(addr, data)
}

// store is what a device does with a peer's write.
func (f *fakeFabric) store(addr uint64, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.regions {
		if !r.closed && addr >= r.base && addr-r.base < uint64(len(r.mem)) {
			copy(r.mem[addr-r.base:], data)
			return nil
		}
	}
	return errors.New("remote access error")
}

// held tells whether any memory is still registered. The lock is held.
func (f *fakeFabric) held() bool {
	return slices.ContainsFunc(f.regions, func(r *fakeRegion) bool { return !r.closed })
}

func (f *fakeFabric) stats() (s fabricStats) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.rails = slices.Clone(f.rails)
	for _, path := range slices.Sorted(maps.Keys(f.peers)) {
		s.peers = append(s.peers, fabricPeerStats{device: "rxe0", path: path, counts: []namedCount{{"rdma_peer_qps", "gauge", "Queue pairs", uint64(len(f.peers[path]))}}})
	}
	return s
}

func (f *fakeFabric) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.running || f.held() {
		return fmt.Errorf("closed %v, running %v, regions %+v", f.closed, f.running, f.regions)
	}
	f.closed = true
	return nil
}

// set changes the rails and tells of it. A nil change removes the last one.
func (f *fakeFabric) set(change func(*railStats)) {
	f.mu.Lock()
	if change == nil {
		f.rails = f.rails[:len(f.rails)-1]
	} else {
		for i := range f.rails {
			change(&f.rails[i])
		}
	}
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
}

func down(r *railStats) { r.up, r.state = false, "DOWN" }
func up(r *railStats)   { r.up, r.state = true, "ACTIVE" }

// withRDMA makes a daemon's configuration one of RDMA over fakes of the named devices.
func withRDMA(t *testing.T, c *Config, n *fakeNetwork, devices ...string) *Config {
	t.Helper()
	c.Protocol, c.openFabric = descriptor.ProtocolRDMA, n.open
	c.getenv = func(string) string { return "" }
	c.fsRoot = deviceTree(t, devices...)
	return c
}

// deviceTree is a host with plenty of memory and RoCE devices, as the kernel shows them.
func deviceTree(t *testing.T, devices ...string) string {
	t.Helper()
	files := map[string]string{
		"proc/meminfo":     "MemAvailable: 8000000 kB\n",
		"proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         unlimited            unlimited            bytes     \n",
	}
	for i, name := range devices {
		at := "sys/class/infiniband/" + name + "/"
		files[at+"node_type"] = "1: CA\n"
		port := at + "ports/1/"
		files[port+"state"], files[port+"link_layer"], files[port+"rate"] = "4: ACTIVE\n", "Ethernet\n", "100 Gb/sec (4X EDR)\n"
		files[port+"lid"], files[port+"pkeys/0"] = "0x0\n", "0xffff\n"
		files[port+"gids/0"] = fmt.Sprintf("0000:0000:0000:0000:0000:ffff:c0a8:63%02x\n", i+1)
		files[port+"gid_attrs/types/0"], files[port+"gid_attrs/ndevs/0"] = "RoCE v2\n", fmt.Sprintf("eth%d\n", i)
	}
	return hostTree(t, files)
}

// contents is the file of an arena, read without sharing memory with the goroutines that wrote it.
func contents(t *testing.T, a *Arena) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Clean(a.Path()))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(text)
}
