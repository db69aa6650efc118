package rdma

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// layer is all that this package needs of a verbs library: libibverbs behind cgo in verbs*.go, a model of it in the tests.
// Everything that decides lies above it.
type layer interface {
	// open opens a device with one completion queue of so many entries.
	open(device string, completions int) (nic, error)
}

// nic is one opened device. Its methods may be called from any goroutine, but poll and waitCompletion by one only.
type nic interface {
	caps() (deviceCaps, error)
	port(number int) (portInfo, error)
	gid(port, index int) (GID, error)
	// register pins mem and lets peers reach it under addresses from iova on, if remote is set.
	register(mem []byte, iova uint64, remote bool) (memoryRegion, error)
	createQP(sendWRs int) (queuePair, error)
	// poll takes completions that are there, and arms the queue when there was none left: the next one wakes waitCompletion.
	poll(into []completion) (int, error)
	waitCompletion() error
	waitEvent() (event, error)
	// wake ends both waits, now and for ever, with errWoken.
	wake()
	// close comes last: after all regions and queue pairs, and when nobody waits any more.
	close() error
}

// memoryRegion is registered memory.
type memoryRegion interface {
	keys() (lkey, rkey uint32)
	close() error
}

// queuePair is one reliable connected queue pair.
type queuePair interface {
	number() uint32
	// connect takes it from RESET to ready-to-send.
	connect(p qpPath) error
	status() (qpStatus, error)
	post(w work) error
	close() error
}

// errWoken is what ends the waits of a device that is to be closed.
var errWoken = errors.New("device is being closed")

// deviceCaps are the limits of a device that matter here.
type deviceCaps struct {
	mrBytes               uint64
	cqEntries             int
	readsServed, readsOut int // RDMA READs under way for each queue pair, as target and as initiator
}

// portInfo is the state of a port.
type portInfo struct {
	active   bool
	state    string
	mtuBytes int
	lid      uint16
	link     string
}

// qpPath is where a queue pair is connected to, and how patient it is.
type qpPath struct {
	port, gidIndex, pkeyIndex  int
	mtuBytes                   int
	trafficClass, serviceLevel int
	peerGID                    GID
	peerLID                    uint16
	peerQP                     uint32
	timeout, retry             int
	readsServed, readsOut      int
}

// qpStatus is what a device says about a queue pair.
type qpStatus struct {
	ready          bool // to send and to receive
	received, sent uint32
}

// operation is what a work request does.
type operation uint8

const (
	opRead operation = iota
	opWrite
)

// String names the operation for errors.
func (o operation) String() string {
	if o == opRead {
		return "read"
	}
	return "write"
}

// work is one request: length bytes between local memory and a peer's. Both addresses are such as the memory was registered
// under. A length of 0 moves nothing and needs no keys.
type work struct {
	id     uint64
	op     operation
	local  uint64
	length uint32
	lkey   uint32
	remote uint64
	rkey   uint32
}

// completion is how a work request ended.
type completion struct {
	id     uint64
	status Status
	vendor uint32
}

// Status is the result of a work request, in the numbers of verbs.
type Status uint32

// The results that are told apart here.
const (
	StatusSuccess        Status = 0
	StatusFlushed        Status = 5
	StatusRemoteAccess   Status = 10
	StatusRetryExceeded  Status = 12
	statusNeverCompleted Status = 255 // ours: the queue pair was destroyed before the work completed
)

var statusNames = [...]string{
	"success", "local length error", "local queue pair operation error", "local EE context operation error",
	"local protection error", "flushed with the queue pair", "memory window bind error", "bad response",
	"local access error", "remote invalid request", "remote access error", "remote operation error",
	"retries exceeded, no answer from the peer", "receiver-not-ready retries exceeded", "local RDD violation",
	"remote invalid RD request", "remote aborted", "invalid EE context number", "invalid EE context state",
	"fatal error", "response timeout", "general error",
}

// String names the status in words.
func (s Status) String() string {
	switch {
	case int(s) < len(statusNames):
		return statusNames[s]
	case s == statusNeverCompleted:
		return "abandoned with the queue pair"
	}
	return "status " + strconv.FormatUint(uint64(s), 10)
}

// eventKind is what an asynchronous event is about.
type eventKind uint8

const (
	eventOther  eventKind = iota
	eventPort             // state, address, membership or subnet manager of a port changed
	eventQP               // a queue pair went into the error state
	eventDevice           // the device, or its completion queue, is lost
	eventKinds
)

// event is an asynchronous event of a device.
type event struct {
	kind eventKind
	name string
	port int
	qp   uint32
}

// VerbError is a call of the verbs library that failed.
type VerbError struct {
	// Verb is the call, Device what it was about.
	Verb, Device string
	// Errno is what the call left in errno, or returned.
	Errno syscall.Errno
}

// Error says it in one line.
func (e *VerbError) Error() string {
	if e.Errno == 0 {
		return fmt.Sprintf("%s of %s failed", e.Verb, e.Device)
	}
	return fmt.Sprintf("%s of %s: %v (errno %d)", e.Verb, e.Device, e.Errno, int(e.Errno))
}

// Unwrap gives the errno to errors.Is.
func (e *VerbError) Unwrap() error { return e.Errno }
