package segment

import (
	"context"

	"mooncake/descriptor"
	"mooncake/rdma"
)

// fabric is what the daemon needs of RDMA once the devices are chosen: package rdma in production, a fake in tests.
type fabric interface {
	// register makes memory known to every device under the addresses from base on.
	register(ctx context.Context, mem []byte, base uint64, progress func(done, total uint64)) (region, error)
	// accept answers a peer that wants to connect; self is our server name in nic paths.
	accept(self string, request *descriptor.Connection) descriptor.Connection
	// run follows events and looks after peers until the context ends.
	run(ctx context.Context) error
	// changed tells that devices or keys are no longer what peers were told, or that a port went up or down.
	changed() <-chan struct{}
	// write puts bytes at an address of a peer.
	write(ctx context.Context, peer rdma.Target, addr uint64, data []byte) error
	stats() fabricStats
	close() error
}

// region is memory registered with a fabric.
type region interface {
	// publish is what descriptors say of the memory: the devices, and buffers with one key for each of them, in the same
	// order. The buffers have no names yet.
	publish() ([]descriptor.Device, []descriptor.Buffer)
	close() error
}

// fabricStats is the fabric at one moment.
type fabricStats struct {
	rails []railStats
	peers []fabricPeerStats
	// counts are those of the fabric as a whole.
	counts []labelledCount
}

// labelledCount is a figure whose series has one label more.
type labelledCount struct {
	namedCount
	labels string
}

// railStats is one device in use.
type railStats struct {
	device string
	port   int
	// up says that the port carries traffic, state is its name for that.
	up     bool
	state  string
	counts []namedCount
}

// fabricPeerStats is one connected peer over one device.
type fabricPeerStats struct {
	device, path string
	counts       []namedCount
}

// namedCount is a figure with the name and meaning of its series.
type namedCount struct {
	name, kind, help string
	value            uint64
}

// fabricOpener opens the devices.
type fabricOpener func(rdma.Config) (fabric, error)
