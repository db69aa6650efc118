//go:build linux && cgo && !nordma

package rdma

/*
#include <errno.h>
#include <infiniband/verbs.h>

// A macro again; the version that knows about optional access flags is chosen by their being there.
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *mem, size_t bytes, uint64_t iova, unsigned int access) {
	return ibv_reg_mr_iova2(pd, mem, bytes, iova, access);
}
*/
import "C"

import (
	"sync"
	"unsafe"
)

type memory struct {
	d      *device
	mr     *C.struct_ibv_mr
	closed sync.Once
}

// register asks for relaxed ordering, without which a PCIe switch holds writes back behind each other. It is an optional
// flag, that libraries and kernels which do not know it leave away; a device that refuses it is asked again without.
func (d *device) register(mem []byte, iova uint64, remote bool) (memoryRegion, error) {
	access := C.uint(C.IBV_ACCESS_LOCAL_WRITE)
	if remote {
		access |= C.IBV_ACCESS_REMOTE_WRITE | C.IBV_ACCESS_REMOTE_READ
	}
	at, bytes := unsafe.Pointer(unsafe.SliceData(mem)), C.size_t(len(mem))
	mr, err := C.reg_mr(d.pd, at, bytes, C.uint64_t(iova), access|C.IBV_ACCESS_RELAXED_ORDERING)
	if mr == nil {
		mr, err = C.reg_mr(d.pd, at, bytes, C.uint64_t(iova), access)
	}
	if mr == nil {
		return nil, d.verbFailed("ibv_reg_mr", 0, err)
	}
	return &memory{d: d, mr: mr}, nil
}

func (m *memory) keys() (lkey, rkey uint32) { return uint32(m.mr.lkey), uint32(m.mr.rkey) }

func (m *memory) close() (err error) {
	m.closed.Do(func() {
		if rc, errno := C.ibv_dereg_mr(m.mr); rc != 0 {
			err = m.d.verbFailed("ibv_dereg_mr", rc, errno)
		}
	})
	return err
}
