//go:build linux && cgo && !nordma

package rdma

/*
#cgo LDFLAGS: -libverbs
#include <errno.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

// ibv_query_port is a macro.
static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr) {
	return ibv_query_port(ctx, port, attr);
}
*/
import "C"

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Available reports whether this build can speak verbs.
func Available() bool { return true }

// library is libibverbs.
func library() (layer, error) { return verbsLayer{}, nil }

type verbsLayer struct{}

// device is an opened device with the things that are made once for each: a protection domain, a completion channel, a
// completion queue.
type device struct {
	name    string
	entry   string // of sysfs for the library's device file, empty if there was none
	ctx     *C.struct_ibv_context
	pd      *C.struct_ibv_pd
	channel *C.struct_ibv_comp_channel
	cq      *C.struct_ibv_cq
	polled  *C.struct_ibv_wc // pollBatch of them, outside of Go's memory

	completions, events *os.File // duplicates of the library's descriptors, for Go's poller
	woken               atomic.Bool
	closed              sync.Once
}

// verbFailed makes the error of a call. Calls that return an errno are given it as rc; others leave it in errno, which cgo
// hands over as err.
func (d *device) verbFailed(verb string, rc C.int, err error) error {
	e := &VerbError{Verb: verb, Device: d.name, Errno: syscall.Errno(max(rc, 0))}
	if rc <= 0 {
		errors.As(err, &e.Errno)
	}
	return e
}

func (verbsLayer) open(name string, completions int) (nic, error) {
	d := &device{name: name}
	var count C.int
	list, err := C.ibv_get_device_list(&count)
	if list == nil {
		return nil, d.verbFailed("ibv_get_device_list", 0, err)
	}
	defer C.ibv_free_device_list(list)
	for _, entry := range unsafe.Slice(list, int(count)) {
		if C.GoString(C.ibv_get_device_name(entry)) != name {
			continue
		}
		if d.ctx, err = C.ibv_open_device(entry); d.ctx == nil {
			return nil, d.verbFailed("ibv_open_device", 0, err)
		}
		d.entry = "/sys/class/infiniband_verbs/" + C.GoString(&entry.dev_name[0])
		if _, err := os.Stat(d.entry); err != nil {
			d.entry = ""
		}
		if err := d.furnish(completions); err != nil {
			_ = d.close() // the first error is the one to tell
			return nil, err
		}
		return d, nil
	}
	return nil, &VerbError{Verb: "ibv_open_device", Device: name, Errno: syscall.ENODEV}
}

// furnish makes what every use of the device needs.
func (d *device) furnish(completions int) error {
	can, err := d.caps()
	if err != nil {
		return err
	}
	if d.pd, err = C.ibv_alloc_pd(d.ctx); d.pd == nil {
		return d.verbFailed("ibv_alloc_pd", 0, err)
	}
	if d.channel, err = C.ibv_create_comp_channel(d.ctx); d.channel == nil {
		return d.verbFailed("ibv_create_comp_channel", 0, err)
	}
	if d.cq, err = C.ibv_create_cq(d.ctx, C.int(min(completions, can.cqEntries)), nil, d.channel, 0); d.cq == nil {
		return d.verbFailed("ibv_create_cq", 0, err)
	}
	d.polled = (*C.struct_ibv_wc)(C.calloc(pollBatch, C.sizeof_struct_ibv_wc))
	if d.polled == nil {
		return d.verbFailed("calloc", C.ENOMEM, nil)
	}
	if d.completions, err = pollable(int(d.channel.fd), d.name+" completions"); err != nil {
		return err
	}
	d.events, err = pollable(int(d.ctx.async_fd), d.name+" events")
	return err
}

// pollable hands a duplicate of a descriptor to Go's poller. The library goes on to use and to close its own; that it does
// not block is a property both share.
func pollable(fd int, name string) (*os.File, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := syscall.SetNonblock(own, true); err != nil {
		syscall.Close(own)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(own), name), nil
}

func (d *device) caps() (deviceCaps, error) {
	var a C.struct_ibv_device_attr
	if rc, err := C.ibv_query_device(d.ctx, &a); rc != 0 {
		return deviceCaps{}, d.verbFailed("ibv_query_device", rc, err)
	}
	return deviceCaps{
		mrBytes: uint64(a.max_mr_size), cqEntries: int(a.max_cqe),
		readsServed: int(a.max_qp_rd_atom), readsOut: int(a.max_qp_init_rd_atom),
	}, nil
}

var portStates = map[C.enum_ibv_port_state]string{
	C.IBV_PORT_NOP: "NOP", C.IBV_PORT_DOWN: "DOWN", C.IBV_PORT_INIT: "INIT", C.IBV_PORT_ARMED: "ARMED",
	C.IBV_PORT_ACTIVE: StateActive, C.IBV_PORT_ACTIVE_DEFER: "ACTIVE_DEFER",
}

// port fails for a device that is being removed. Some drivers tell those who have it open, others wait for them to close it
// (software RoCE does) and go on to work meanwhile; then its entry in sysfs is gone.
func (d *device) port(number int) (portInfo, error) {
	if d.entry != "" {
		if _, err := os.Stat(d.entry); errors.Is(err, os.ErrNotExist) {
			return portInfo{}, &VerbError{Verb: "removal", Device: d.name, Errno: syscall.ENODEV}
		}
	}
	var a C.struct_ibv_port_attr
	if rc, err := C.query_port(d.ctx, C.uint8_t(number), &a); rc != 0 {
		return portInfo{}, d.verbFailed("ibv_query_port", rc, err)
	}
	p := portInfo{
		active: a.state == C.IBV_PORT_ACTIVE, state: portStates[a.state], lid: uint16(a.lid),
		mtuBytes: 128 << uint(a.active_mtu), link: LinkInfiniBand,
	}
	if a.link_layer == C.IBV_LINK_LAYER_ETHERNET {
		p.link = LinkEthernet
	}
	return p, nil
}

func (d *device) gid(port, index int) (GID, error) {
	var g C.union_ibv_gid
	if rc, err := C.ibv_query_gid(d.ctx, C.uint8_t(port), C.int(index), &g); rc != 0 {
		return GID{}, d.verbFailed("ibv_query_gid", rc, err)
	}
	return GID(g), nil
}

// wake makes both waits return; a closed file of Go's poller does that.
func (d *device) wake() {
	d.woken.Store(true)
	for _, f := range []*os.File{d.completions, d.events} {
		if f != nil {
			f.Close()
		}
	}
}

// close gives everything back in the reverse order. It is done once; what fails is told, and the rest is done all the same.
func (d *device) close() (err error) {
	d.closed.Do(func() {
		d.wake()
		if d.cq != nil {
			if rc, errno := C.ibv_destroy_cq(d.cq); rc != 0 {
				err = errors.Join(err, d.verbFailed("ibv_destroy_cq", rc, errno))
			}
		}
		if d.channel != nil {
			if rc, errno := C.ibv_destroy_comp_channel(d.channel); rc != 0 {
				err = errors.Join(err, d.verbFailed("ibv_destroy_comp_channel", rc, errno))
			}
		}
		if d.pd != nil {
			if rc, errno := C.ibv_dealloc_pd(d.pd); rc != 0 {
				err = errors.Join(err, d.verbFailed("ibv_dealloc_pd", rc, errno))
			}
		}
		if rc, errno := C.ibv_close_device(d.ctx); rc != 0 {
			err = errors.Join(err, d.verbFailed("ibv_close_device", rc, errno))
		}
		C.free(unsafe.Pointer(d.polled))
	})
	return err
}
