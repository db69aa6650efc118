//go:build linux && cgo && !nordma

package rdma

/*
#include <errno.h>
#include <string.h>
#include <infiniband/verbs.h>

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t send_wrs) {
	// Nothing is ever received by a request of ours, but some devices refuse a queue of none.
	struct ibv_qp_init_attr attr = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = send_wrs, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	return ibv_create_qp(pd, &attr);
}

static int to_init(struct ibv_qp *qp, uint8_t port, uint16_t pkey_index) {
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port, .pkey_index = pkey_index,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, int mtu, uint8_t port, uint8_t sgid_index, uint8_t tc, uint8_t sl, const uint8_t *dgid,
		uint16_t dlid, uint32_t dqpn, uint8_t reads) {
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = dqpn, .rq_psn = 0,
		.max_dest_rd_atomic = reads, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .dlid = dlid, .sl = sl, .port_num = port,
			.grh = {.sgid_index = sgid_index, .traffic_class = tc, .hop_limit = 16}}};
	memcpy(attr.ah_attr.grh.dgid.raw, dgid, 16);
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries, uint8_t reads) {
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retries, .rnr_retry = 7,
		.sq_psn = 0, .max_rd_atomic = reads};
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int query_qp(struct ibv_qp *qp, int *state, uint32_t *rq_psn, uint32_t *sq_psn) {
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	memset(&attr, 0, sizeof attr);
	int rc = ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN, &init);
	*state = attr.qp_state;
	*rq_psn = attr.rq_psn;
	*sq_psn = attr.sq_psn;
	return rc;
}

static int post(struct ibv_qp *qp, int opcode, uint64_t id, uint64_t local, uint32_t bytes, uint32_t lkey,
		uint64_t remote, uint32_t rkey) {
	struct ibv_sge sge = {.addr = local, .length = bytes, .lkey = lkey};
	struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = bytes ? 1 : 0, .opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED, .wr = {.rdma = {.remote_addr = remote, .rkey = rkey}}};
	struct ibv_send_wr *bad = NULL;
	int rc = ibv_post_send(qp, &wr, &bad);
	return rc < 0 ? errno : rc;
}
*/
import "C"

import (
	"math/bits"
	"sync"
	"syscall"
)

// pair is a queue pair. The lock keeps it from being destroyed under a call.
type pair struct {
	d   *device
	num uint32

	mu sync.Mutex
	qp *C.struct_ibv_qp // nil when closed
}

func (d *device) createQP(sendWRs int) (queuePair, error) {
	qp, err := C.create_qp(d.pd, d.cq, C.uint32_t(sendWRs))
	if qp == nil {
		return nil, d.verbFailed("ibv_create_qp", 0, err)
	}
	return &pair{d: d, qp: qp, num: uint32(qp.qp_num)}, nil
}

func (p *pair) number() uint32 { return p.num }

// call does something with the queue pair while it is there.
func (p *pair) call(verb string, do func(qp *C.struct_ibv_qp) C.int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.qp == nil {
		return &VerbError{Verb: verb, Device: p.d.name, Errno: syscall.EBADF}
	}
	if rc := do(p.qp); rc != 0 {
		return p.d.verbFailed(verb, rc, nil)
	}
	return nil
}

func (p *pair) connect(to qpPath) error {
	err := p.call("ibv_modify_qp(INIT)", func(qp *C.struct_ibv_qp) C.int {
		return C.to_init(qp, C.uint8_t(to.port), C.uint16_t(to.pkeyIndex))
	})
	if err != nil {
		return err
	}
	err = p.call("ibv_modify_qp(RTR)", func(qp *C.struct_ibv_qp) C.int {
		gid := to.peerGID
		return C.to_rtr(qp, C.int(bits.Len(uint(to.mtuBytes))-8), C.uint8_t(to.port), C.uint8_t(to.gidIndex),
			C.uint8_t(to.trafficClass), C.uint8_t(to.serviceLevel), (*C.uint8_t)(&gid[0]), C.uint16_t(to.peerLID), C.uint32_t(to.peerQP), C.uint8_t(to.readsServed))
	})
	if err != nil {
		return err
	}
	return p.call("ibv_modify_qp(RTS)", func(qp *C.struct_ibv_qp) C.int {
		return C.to_rts(qp, C.uint8_t(to.timeout), C.uint8_t(to.retry), C.uint8_t(to.readsOut))
	})
}

func (p *pair) status() (qpStatus, error) {
	var state C.int
	var received, sent C.uint32_t
	err := p.call("ibv_query_qp", func(qp *C.struct_ibv_qp) C.int {
		return C.query_qp(qp, &state, &received, &sent)
	})
	return qpStatus{ready: state == C.IBV_QPS_RTS, received: uint32(received), sent: uint32(sent)}, err
}

var opcodes = [...]C.int{opRead: C.IBV_WR_RDMA_READ, opWrite: C.IBV_WR_RDMA_WRITE}

func (p *pair) post(w work) error {
	return p.call("ibv_post_send", func(qp *C.struct_ibv_qp) C.int {
		return C.post(qp, opcodes[w.op], C.uint64_t(w.id), C.uint64_t(w.local), C.uint32_t(w.length), C.uint32_t(w.lkey),
			C.uint64_t(w.remote), C.uint32_t(w.rkey))
	})
}

func (p *pair) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.qp == nil {
		return nil
	}
	qp := p.qp
	p.qp = nil
	if rc, err := C.ibv_destroy_qp(qp); rc != 0 {
		return p.d.verbFailed("ibv_destroy_qp", rc, err)
	}
	return nil
}
