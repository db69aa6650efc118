package interop

import (
	"io"

	"mooncake/interop/vm"
)

// GuestMachine is the emulated machine with RDMA devices; what it fetches lies in the cache. Log may be nil.
func GuestMachine(log io.Writer) (*vm.Machine, error) {
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	root, err := ModuleRoot()
	if err != nil {
		return nil, err
	}
	return &vm.Machine{Cache: cache, Module: root, Log: log}, nil
}
