package pack

import (
	"errors"
	"fmt"
)

// Reasons why a body is refused.
var (
	// ErrShort: the body ends inside a field, or a length announces more than is left.
	ErrShort = errors.New("the body ends inside a field")
	// ErrHash: the type hash is none that this call takes.
	ErrHash = errors.New("unknown type hash")
	// ErrLiteral: the hash is right but the type literal after it is not.
	ErrLiteral = errors.New("the type literal does not match its hash")
	// ErrItems: the containers of one message hold more elements than we take.
	ErrItems = errors.New("too many elements in one message")
	// ErrVariant: a variant's index names no alternative.
	ErrVariant = errors.New("a variant has an unknown alternative")
	// ErrNoError: an expected value says that it failed, with error 0.
	ErrNoError = errors.New("an expected value failed with error 0")
)

// Error is a refused body: where reading stopped, and why.
type Error struct {
	Offset int   // byte of the body
	Cause  error // one of the reasons above
}

// Error names the byte and the reason.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %v", e.Offset, e.Cause) }

// Unwrap gives the reason to errors.Is.
func (e *Error) Unwrap() error { return e.Cause }
