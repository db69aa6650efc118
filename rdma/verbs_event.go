//go:build linux && cgo && !nordma

package rdma

/*
#include <errno.h>
#include <infiniband/verbs.h>

// ibv_poll_cq and ibv_req_notify_cq are inline functions over the device's table of operations.
static int poll_cq(struct ibv_cq *cq, int entries, struct ibv_wc *wc) { return ibv_poll_cq(cq, entries, wc); }
static int arm_cq(struct ibv_cq *cq) { return ibv_req_notify_cq(cq, 0); }

// take_completion_event and take_async_event take one event, or return the errno. It is acknowledged at once:
// nothing of it is needed later.
static int take_completion_event(struct ibv_comp_channel *channel) {
	struct ibv_cq *cq;
	void *context;
	if (ibv_get_cq_event(channel, &cq, &context)) return errno;
	ibv_ack_cq_events(cq, 1);
	return 0;
}

static int take_async_event(struct ibv_context *ctx, int *type, int *port, uint32_t *qp_num) {
	struct ibv_async_event e;
	if (ibv_get_async_event(ctx, &e)) return errno;
	*type = e.event_type;
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		*qp_num = e.element.qp->qp_num; // the queue pair lasts until the acknowledgement
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		*port = e.element.port_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&e);
	return 0;
}
*/
import "C"

import (
	"os"
	"unsafe"
)

func (d *device) poll(into []completion) (int, error) {
	count, err := d.pollOnce(into)
	if count != 0 || err != nil {
		return count, err
	}
	if rc, errno := C.arm_cq(d.cq); rc != 0 {
		return 0, d.verbFailed("ibv_req_notify_cq", rc, errno)
	}
	return d.pollOnce(into) // what came before the queue was armed wakes nobody
}

func (d *device) pollOnce(into []completion) (int, error) {
	count, err := C.poll_cq(d.cq, C.int(min(len(into), pollBatch)), d.polled)
	if count < 0 {
		return 0, d.verbFailed("ibv_poll_cq", -count, err)
	}
	for i, wc := range unsafe.Slice(d.polled, int(count)) {
		into[i] = completion{id: uint64(wc.wr_id), status: Status(wc.status), vendor: uint32(wc.vendor_err)}
	}
	return int(count), nil
}

func (d *device) waitCompletion() error {
	return d.wait(d.completions, "ibv_get_cq_event", func() C.int { return C.take_completion_event(d.channel) })
}

var eventNames = map[C.int]event{
	C.IBV_EVENT_CQ_ERR:            {kind: eventDevice, name: "completion queue error"},
	C.IBV_EVENT_QP_FATAL:          {kind: eventQP, name: "queue pair fatal"},
	C.IBV_EVENT_QP_REQ_ERR:        {kind: eventQP, name: "queue pair request error"},
	C.IBV_EVENT_QP_ACCESS_ERR:     {kind: eventQP, name: "queue pair access error"},
	C.IBV_EVENT_DEVICE_FATAL:      {kind: eventDevice, name: "device fatal"},
	C.IBV_EVENT_PORT_ACTIVE:       {kind: eventPort, name: "port active"},
	C.IBV_EVENT_PORT_ERR:          {kind: eventPort, name: "port down"},
	C.IBV_EVENT_LID_CHANGE:        {kind: eventPort, name: "LID change"},
	C.IBV_EVENT_PKEY_CHANGE:       {kind: eventPort, name: "partition change"},
	C.IBV_EVENT_SM_CHANGE:         {kind: eventPort, name: "subnet manager change"},
	C.IBV_EVENT_CLIENT_REREGISTER: {kind: eventPort, name: "client reregister"},
	C.IBV_EVENT_GID_CHANGE:        {kind: eventPort, name: "GID change"},
}

func (d *device) waitEvent() (event, error) {
	var kind, port C.int
	var qp C.uint32_t
	err := d.wait(d.events, "ibv_get_async_event", func() C.int {
		return C.take_async_event(d.ctx, &kind, &port, &qp)
	})
	if err != nil {
		return event{}, err
	}
	e, known := eventNames[kind]
	if !known {
		e.name = C.GoString(C.ibv_event_type_str(C.enum_ibv_event_type(kind)))
	}
	e.port, e.qp = int(port), uint32(qp)
	return e, nil
}

// wait calls take whenever the descriptor may have something, until it got it.
func (d *device) wait(file *os.File, verb string, take func() C.int) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return d.waited(err)
	}
	var failed error
	err = raw.Read(func(uintptr) bool {
		rc := take()
		for rc == C.EINTR {
			rc = take()
		}
		if rc != 0 && rc != C.EAGAIN {
			failed = d.verbFailed(verb, rc, nil)
		}
		return rc != C.EAGAIN
	})
	if err != nil {
		return d.waited(err)
	}
	return failed
}

func (d *device) waited(err error) error {
	if d.woken.Load() {
		return errWoken
	}
	return err
}
