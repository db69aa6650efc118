package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
)

// The answers that callers tell apart. errors.Is finds them in what this package returns.
var (
	ErrNotFound  = errors.New("not found")
	ErrExists    = errors.New("exists already")
	ErrNoSpace   = errors.New("no room")
	ErrLeased    = errors.New("is being read")
	ErrNotReady  = errors.New("is not ready")
	ErrPublished = errors.New("cannot be done in this state")
	// ErrRefused says that a token is missing, or allows less.
	ErrRefused = errors.New("is not allowed")
	// ErrLeaseOver says that bytes were read, but too slowly to be sure of them.
	ErrLeaseOver = errors.New("the lease was over before all bytes were read")
	// ErrCorrupt says that no copy that can be reached has the checksum of its object.
	ErrCorrupt = errors.New("the bytes do not have the checksum of the object")
	// ErrNoCopy says that no copy of an object can be reached by this client.
	ErrNoCopy = errors.New("no copy can be reached over tcp")
)

// A CodeError is a refusal by the master, with the number that published clients know.
type CodeError struct {
	Key  string
	Code int32
	Text string
}

// Error tells what was refused and why.
func (e *CodeError) Error() string { return fmt.Sprintf("%s: %s (%d)", e.Key, e.Text, e.Code) }

// Is finds the sentinel that stands for the number.
func (e *CodeError) Is(target error) bool { return sentinels[e.Code] == target }

var sentinels = map[int32]error{
	codeNotFound: ErrNotFound, codeExists: ErrExists, codeNoSpace: ErrNoSpace, codeTenantQuota: ErrNoSpace, codeLeased: ErrLeased, codeNotReady: ErrNotReady,
	codeBusy: ErrNotReady,
}

// Numbers of refusals.
const (
	codeNoSpace     = -200
	codeNotReady    = -703
	codeNotFound    = -704
	codeExists      = -705
	codeLeased      = -706
	codeBusy        = -714
	codeTenantQuota = -1700
)

// outcomeError is nil for success.
func outcomeError(key string, o *mooncakev1.Outcome) error {
	if o.GetCode() == 0 {
		return nil
	}
	return &CodeError{Key: key, Code: o.GetCode(), Text: o.GetText()}
}

// callError gives the status of a call the sentinel that belongs to it.
func callError(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	kind := map[codes.Code]error{
		codes.NotFound: ErrNotFound, codes.AlreadyExists: ErrExists, codes.ResourceExhausted: ErrNoSpace, codes.FailedPrecondition: ErrPublished,
		codes.Unauthenticated: ErrRefused, codes.PermissionDenied: ErrRefused,
		codes.DeadlineExceeded: context.DeadlineExceeded, codes.Canceled: context.Canceled,
	}[st.Code()]
	if kind == nil {
		return err
	}
	return &statusError{err, kind}
}

// statusError is a status that errors.Is finds a sentinel in.
type statusError struct {
	error
	kind error
}

func (e *statusError) Unwrap() []error { return []error{e.error, e.kind} }
