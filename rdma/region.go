package rdma

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"mooncake/descriptor"
	"mooncake/internal/limits"
)

// Region is memory that peers reach over every rail. It is registered in parts, each of which reaches a little into the
// next; a descriptor lists them as so many buffers.
type Region struct {
	f    *Fabric
	mem  []byte
	base uint64
	cuts []cut

	mu     sync.Mutex
	closed bool
	parts  map[*rail][]memoryRegion // by cut; nil where the device did not get it
}

// cut is one part: where it begins and ends in the memory.
type cut struct{ from, to uint64 }

// Register pins the memory and opens it to peers, who will find it at addresses from base on. progress, if not nil, is told
// the bytes done so far, over all devices, from one goroutine at a time. The memory must stay mapped until Close.
func (f *Fabric) Register(ctx context.Context, mem []byte, base uint64, progress func(done, total uint64)) (*Region, error) {
	return f.register(ctx, mem, base, true, progress)
}

// register is Register, for remote or for local use only.
func (f *Fabric) register(ctx context.Context, mem []byte, base uint64, remote bool, progress func(done, total uint64)) (*Region, error) {
	length := uint64(len(mem))
	switch page := uint64(4096); {
	case length == 0:
		return nil, errors.New("cannot register no memory at all")
	case base == 0 || base+length < base:
		return nil, fmt.Errorf("cannot register %d bytes at address %#x", length, base)
	case base%page != addressOf(mem)%page:
		return nil, fmt.Errorf("address %#x does not lie in its page as the memory does", base)
	}
	region := &Region{f: f, mem: mem, base: base, parts: map[*rail][]memoryRegion{}}
	part, err := f.partBytes()
	if err != nil {
		return nil, err
	}
	for from := uint64(0); from < length; from += part {
		region.cuts = append(region.cuts, cut{from, min(from+part+limits.RDMAPartOverlapBytes, length)})
		if length-from <= part+limits.RDMAPartOverlapBytes {
			break
		}
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, ErrClosed
	}
	f.regions = append(f.regions, region)
	f.mu.Unlock()
	if err := region.registerAll(ctx, remote, progress); err != nil {
		return nil, errors.Join(err, region.Close())
	}
	return region, nil
}

// partBytes is how much of a region is registered at once, which no device finds too large.
func (f *Fabric) partBytes() (uint64, error) {
	part := f.cfg.PartBytes
	for _, r := range f.rails {
		most := r.caps.mrBytes
		if most < limits.RDMAPartOverlapBytes+limits.RDMAPartBytesMin {
			return 0, fmt.Errorf("device %s registers at most %d bytes at a time, which is less than %d", r.name, most,
				limits.RDMAPartOverlapBytes+limits.RDMAPartBytesMin)
		}
		part = min(part, (most-limits.RDMAPartOverlapBytes)/limits.RDMAPartBytesMin*limits.RDMAPartBytesMin)
	}
	return part, nil
}

// registerAll registers every part on every device, several at a time.
func (region *Region) registerAll(ctx context.Context, remote bool, progress func(done, total uint64)) error {
	var tell sync.Mutex
	var done, total uint64
	for _, c := range region.cuts {
		total += (c.to - c.from) * uint64(len(region.f.rails))
	}
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(limits.RDMARegisterWorkers)
	for _, r := range region.f.rails {
		for i, c := range region.cuts {
			workers.Go(func() error {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := region.registerPart(r, i, remote); err != nil {
					return err
				}
				tell.Lock()
				defer tell.Unlock()
				done += c.to - c.from
				if progress != nil {
					progress(done, total)
				}
				return nil
			})
		}
	}
	return workers.Wait()
}

func (region *Region) registerPart(r *rail, i int, remote bool) error {
	release, err := r.hold()
	if err != nil {
		return nil // the device is lost; the region is on the others
	}
	defer release()
	c := region.cuts[i]
	mr, err := r.nic.register(region.mem[c.from:c.to], region.base+c.from, remote)
	if err != nil {
		return fmt.Errorf("cannot register bytes %d to %d of %d: %w", c.from, c.to, len(region.mem), err)
	}
	r.count.registeredBytes.Add(int64(c.to - c.from))
	r.count.registered.Add(1)
	region.mu.Lock()
	defer region.mu.Unlock()
	if region.parts[r] == nil {
		region.parts[r] = make([]memoryRegion, len(region.cuts))
	}
	region.parts[r][i] = mr
	return nil
}

// Describe lists the parts as buffers of a descriptor. See Publish.
func (region *Region) Describe() []descriptor.Buffer {
	_, buffers := region.Publish()
	return buffers
}

// Publish gives what a descriptor says of the region: the devices, and the parts as buffers with one key for each of them
// in the same order. The buffers' names are the caller's to set: they say where the memory lies.
func (region *Region) Publish() ([]descriptor.Device, []descriptor.Buffer) {
	rails := region.f.listed()
	region.mu.Lock()
	defer region.mu.Unlock()
	if region.closed {
		return nil, nil
	}
	var devices []descriptor.Device
	buffers := make([]descriptor.Buffer, len(region.cuts))
	for i, c := range region.cuts {
		buffers[i] = descriptor.Buffer{Addr: region.base + c.from, Length: c.to - c.from}
	}
	for _, r := range rails {
		parts := region.parts[r]
		if parts == nil { // the device is lost since it was listed
			continue
		}
		devices = append(devices, r.describe())
		for i := range buffers {
			lkey, rkey := parts[i].keys()
			buffers[i].LKey, buffers[i].RKey = append(buffers[i].LKey, lkey), append(buffers[i].RKey, rkey)
		}
	}
	if len(devices) == 0 {
		return nil, nil
	}
	return devices, buffers
}

// local finds the key for a piece of our own memory on a device.
func (region *Region) local(r *rail, at, length uint64) (lkey uint32, ok bool) {
	region.mu.Lock()
	defer region.mu.Unlock()
	for i, c := range region.cuts {
		if parts := region.parts[r]; parts != nil && parts[i] != nil && at >= c.from && at+length <= c.to {
			lkey, _ = parts[i].keys()
			return lkey, true
		}
	}
	return 0, false
}

// leave gives back what is registered on one device.
func (region *Region) leave(r *rail) error {
	region.mu.Lock()
	parts := region.parts[r]
	delete(region.parts, r)
	region.mu.Unlock()
	var errs []error
	for i, mr := range parts {
		if mr == nil {
			continue
		}
		errs = append(errs, mr.close())
		r.count.registeredBytes.Add(-int64(region.cuts[i].to - region.cuts[i].from))
		r.count.registered.Add(-1)
	}
	return errors.Join(errs...)
}

// Close takes the memory back from all devices. Peers that still read or write it are refused by them.
func (region *Region) Close() error {
	region.mu.Lock()
	already := region.closed
	region.closed = true
	region.mu.Unlock()
	if already {
		return nil
	}
	f := region.f
	f.mu.Lock()
	f.regions = slices.DeleteFunc(f.regions, func(other *Region) bool { return other == region })
	f.mu.Unlock()
	var errs []error
	for _, r := range f.rails {
		errs = append(errs, region.leave(r))
	}
	return errors.Join(errs...)
}
