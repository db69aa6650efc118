package catalog

// An Error is an answer other than success. Each stands for one code of the wire, by name.
type Error uint8

// The errors of the catalog. Zero is no error.
const (
	_ Error = iota
	ErrInvalidParams
	ErrObjectNotFound
	ErrObjectExists
	ErrNoSpace // NO_AVAILABLE_HANDLE: no segment has room and nothing may be evicted
	ErrNotReady
	ErrHasLease
	ErrIllegalClient
	ErrInvalidWrite
	ErrReplicationTask
	ErrReplicaBusy
	ErrSegmentNotFound
	ErrUnavailableStatus
	ErrInternal // the system gives no memory for another record
	ErrNoReplicationTask
	ErrReplicaNotFound
	ErrReplicaGone
	ErrTenantNotRegistered
	ErrTenantQuota
	ErrTenantNotEmpty
	ErrUnableOffload
)

var errorText = [...]string{
	ErrInvalidParams:     "invalid parameters",
	ErrObjectNotFound:    "object not found",
	ErrObjectExists:      "object already exists",
	ErrNoSpace:           "no segment has room",
	ErrNotReady:          "object is not complete",
	ErrHasLease:          "object is leased",
	ErrIllegalClient:     "object is written by another client",
	ErrInvalidWrite:      "object is not being written",
	ErrReplicationTask:   "object has a replication task",
	ErrReplicaBusy:       "replica is in use",
	ErrSegmentNotFound:   "segment not found",
	ErrUnavailableStatus: "unavailable in the current status",
	ErrInternal:          "out of memory for records",
	ErrReplicaNotFound:   "no such replica",
	ErrReplicaGone:       "replica is gone",

	ErrNoReplicationTask: "object has no replication task",

	ErrTenantNotRegistered: "the tenant has no quota",
	ErrTenantQuota:         "the tenant's quota is used up",
	ErrTenantNotEmpty:      "the tenant has objects",
	ErrUnableOffload:       "copies on disk are not asked for",
}

// Error says what went wrong.
func (e Error) Error() string {
	if int(e) < len(errorText) && errorText[e] != "" {
		return errorText[e]
	}
	return "unknown error"
}
