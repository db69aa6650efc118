package rdma

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"mooncake/internal/limits"
)

// bounceBuffers is registered memory through which copies go whose own memory is not registered. It is made when the first
// such copy comes: most processes never do one.
type bounceBuffers struct {
	mem    []byte
	region *Region
	free   chan int // slots of limits.RDMASliceBytesMax
}

// bouncing returns the buffers, made now if there are none.
func (f *Fabric) bouncing(ctx context.Context) (*bounceBuffers, error) {
	f.bounceOnce.Lock()
	defer f.bounceOnce.Unlock()
	f.mu.Lock()
	made := f.bounce
	f.mu.Unlock()
	if made != nil {
		return made, nil
	}
	mem, err := unix.Mmap(-1, 0, limits.RDMABounceSlots*limits.RDMASliceBytesMax, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("memory for copies: %w", err)
	}
	region, err := f.register(ctx, mem, addressOf(mem), false, nil)
	if err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	b := &bounceBuffers{mem: mem, region: region, free: make(chan int, limits.RDMABounceSlots)}
	for slot := range limits.RDMABounceSlots {
		b.free <- slot
	}
	f.mu.Lock()
	f.bounce = b
	f.mu.Unlock()
	return b, nil
}

// at is a slot's memory.
func (b *bounceBuffers) at(slot int) []byte {
	return b.mem[slot*limits.RDMASliceBytesMax:][:limits.RDMASliceBytesMax]
}

// unmap comes after the region is closed.
func (b *bounceBuffers) unmap() error {
	mem := b.mem
	b.mem = nil
	return unix.Munmap(mem)
}
