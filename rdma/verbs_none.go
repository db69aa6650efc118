//go:build !linux || !cgo || nordma

package rdma

// Available reports whether this build can speak verbs.
func Available() bool { return false }

// library says that there is none.
func library() (layer, error) { return nil, ErrNotBuilt }
