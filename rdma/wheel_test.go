package rdma

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mooncake/descriptor"
)

// wheel is a client as the published ones are: it opens a device of its own, connects queue pairs by a handshake, reads and
// writes, and says no goodbye. It works over the model and over real devices.
type wheel struct {
	t    testing.TB
	nic  nic
	gid  GID
	gids int    // the place of gid in the device's table
	name string // its nic path
	mem  []byte
	mr   memoryRegion
	qps  []queuePair
	next uint64
}

// newWheel opens a client on a device, with its first IPv4 address.
func newWheel(t testing.TB, verbs layer, device, server string) *wheel {
	t.Helper()
	return newWheelOf(t, verbs, device, server, 4<<20)
}

// newWheelOf is newWheel with so much memory of its own.
func newWheelOf(t testing.TB, verbs layer, device, server string, bytes int) *wheel {
	t.Helper()
	n, err := verbs.open(device, 64)
	must(t, err)
	w := &wheel{t: t, nic: n, name: descriptor.NICPath(server, device), mem: mapped(t, bytes)}
	for ; w.gid[10] != 0xff || w.gid[0] != 0; w.gids++ {
		w.gid, err = n.gid(1, w.gids)
		must(t, err)
	}
	w.gids--
	w.mr, err = n.register(w.mem, addressOf(w.mem), false)
	must(t, err)
	return w
}

// mapped is memory that looks like a segment's: page aligned and outside of Go's heap.
func mapped(t testing.TB, bytes int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(mem)) })
	return mem
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prepare makes queue pairs of its own, and the request for the others.
func (w *wheel) prepare(peerPath string, count int) *descriptor.Connection {
	w.t.Helper()
	req := &descriptor.Connection{
		LocalGID: w.gid.String(), LocalNICPath: w.name, PeerNICPath: peerPath, ReadyAck: new(bool),
	}
	for range count {
		qp, err := w.nic.createQP(64)
		must(w.t, err)
		w.qps = append(w.qps, qp)
		req.QPNum = append(req.QPNum, qp.number())
	}
	return req
}

// finish connects its queue pairs to those of an answer.
func (w *wheel) finish(answer descriptor.Connection) {
	w.t.Helper()
	if answer.ReplyMsg != "" || len(answer.QPNum) != len(w.qps) {
		w.t.Fatalf("handshake: %d queue pairs for %d, reply_msg %q", len(answer.QPNum), len(w.qps), answer.ReplyMsg)
	}
	gid, err := gidFromText(answer.LocalGID)
	must(w.t, err)
	for i, qp := range w.qps {
		must(w.t, qp.connect(qpPath{
			port: 1, gidIndex: w.gids, mtuBytes: 4096, peerGID: gid, peerLID: answer.LocalLID, peerQP: answer.QPNum[i],
			timeout: 14, retry: 6, readsServed: 16, readsOut: 16,
		}))
	}
}

// connect shakes hands with a fabric in this process, as a client does: two frames.
func (w *wheel) connect(f *Fabric, self, device string, count int) descriptor.Connection {
	w.t.Helper()
	req := w.prepare(descriptor.NICPath(self, device), count)
	answer := f.Accept(self, req)
	w.finish(answer)
	req.ReadyAck = new(true)
	if second := f.Accept(self, req); second.ReplyMsg != "" || len(second.QPNum) != 0 {
		w.t.Fatalf("answer to ready: %+v", second)
	}
	return answer
}

// do carries out one request over a queue pair and waits for its end.
func (w *wheel) do(qp int, op operation, local, length int, remote uint64, rkey uint32) error {
	w.next++
	lkey, _ := w.mr.keys()
	err := w.qps[qp].post(work{
		id: w.next, op: op, local: addressOf(w.mem) + uint64(local), length: uint32(length), lkey: lkey, remote: remote, rkey: rkey,
	})
	if err != nil {
		return err
	}
	var got [1]completion
	for start := time.Now(); time.Since(start) < time.Minute; {
		count, err := w.nic.poll(got[:])
		if err == nil && count == 0 {
			err = w.nic.waitCompletion()
		}
		switch {
		case err != nil:
			return err
		case count == 1 && got[0].id != w.next:
			return fmt.Errorf("completion %d, want %d", got[0].id, w.next)
		case count == 1 && got[0].status != StatusSuccess:
			return fmt.Errorf("completion: %v", got[0].status)
		case count == 1:
			return nil
		}
	}
	return fmt.Errorf("no completion")
}

// vanish ends the client as a killed process ends: everything is gone at once, and nobody is told.
func (w *wheel) vanish() {
	w.t.Helper()
	w.dropPairs()
	must(w.t, w.mr.close())
	must(w.t, w.nic.close())
}

func (w *wheel) dropPairs() {
	w.t.Helper()
	for _, qp := range w.qps {
		must(w.t, qp.close())
	}
	w.qps = nil
}
