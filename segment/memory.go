package segment

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/internal/limits"
)

// memory is what the daemon knows of the host's memory, looked at anew at intervals.
type memory struct {
	now  atomic.Pointer[room]
	near atomic.Bool // there is little left
}

// look reads how much memory there is and notes it.
func (d *Daemon) look() (room, error) {
	r, err := readRoom(d.cfg.fsRoot, d.cfg.ShmDir)
	if err == nil {
		d.memory.now.Store(&r)
	}
	return r, err
}

// watchMemory looks at the host's memory until the context ends, and tells when it becomes scarce and when it is not any more.
func (d *Daemon) watchMemory(ctx context.Context) {
	tick := time.NewTicker(d.cfg.WatchEvery)
	defer tick.Stop()
	failed := false
	for {
		r, err := d.look()
		if err == nil {
			d.tellPressure(&r)
		} else if !failed {
			d.log.Warn("memory cannot be watched", zap.Error(err))
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tellPressure warns once when memory becomes scarce.
func (d *Daemon) tellPressure(r *room) {
	why := d.scarce(r)
	if (why != "") == d.memory.near.Load() {
		return
	}
	d.memory.near.Store(why != "")
	fields := []zap.Field{
		zap.Uint64("free_bytes", r.free()), zap.Uint64("available_bytes", r.availableBytes), zap.Uint64("untouched_bytes", d.untouched()),
	}
	if r.cgroupLimitBytes != unlimited {
		fields = append(fields, zap.Uint64("cgroup_limit_bytes", r.cgroupLimitBytes), zap.Uint64("cgroup_used_bytes", r.cgroupUsedBytes))
	}
	if why == "" {
		d.log.Info("memory is no longer scarce", fields...)
		return
	}
	d.log.Warn("memory is scarce: "+why, fields...)
}

// scarce says why there is too little memory, or nothing.
func (d *Daemon) scarce(r *room) string {
	if untouched := d.untouched(); r.free() < untouched {
		return fmt.Sprintf("%s of the segment are not there yet, and %s are free", sizeText(untouched), sizeText(r.free()))
	}
	for _, s := range r.scopes() {
		if reserve := s.totalBytes / 100 * limits.SegmentMemoryReservePercent; r.free() < reserve {
			return fmt.Sprintf("%s are free, less than %d %% of what %s has", sizeText(r.free()), limits.SegmentMemoryReservePercent, s.name)
		}
	}
	if err := d.cfg.MemoryHigh.allows("more", r, 0); err != nil {
		return err.Error()
	}
	return ""
}

// untouched is how many bytes of the segment the kernel has still to find.
func (d *Daemon) untouched() (bytes uint64) {
	for _, x := range d.all() {
		bytes += x.missing()
	}
	return bytes
}

// mayTake tells why so many bytes that nobody has asked for yet should not be taken now, or nil: what is left afterwards
// must be enough for everybody else.
func (d *Daemon) mayTake(bytes uint64) error {
	r, err := d.look()
	if err != nil {
		return err
	}
	for _, s := range r.scopes() {
		if reserve := s.totalBytes / 100 * limits.SegmentMemoryReservePercent; r.free() < bytes+reserve {
			return fmt.Errorf("%s are free, and %d %% of what %s has is left alone", sizeText(r.free()), limits.SegmentMemoryReservePercent, s.name)
		}
	}
	return d.cfg.MemoryHigh.allows("finding memory ahead", &r, bytes)
}

// memoryPage is GET /memory.
type memoryPage struct {
	Name      string       `json:"name"`
	Endpoint  string       `json:"endpoint"`
	SizeBytes uint64       `json:"size_bytes"`
	Regions   []regionPage `json:"regions"`
	// Resident is what the kernel has found of it; Populate says how far finding the rest ahead is.
	ResidentBytes uint64 `json:"resident_bytes"`
	// HugeBytes is how much of that this process got in huge pages.
	HugeBytes uint64 `json:"huge_bytes"`
	Populate  string `json:"populate"`
	Waiting   string `json:"populate_waits_for,omitempty"`

	FreeBytes      uint64 `json:"free_bytes"`
	AvailableBytes uint64 `json:"available_bytes"`
	CgroupLimit    uint64 `json:"cgroup_limit_bytes,omitempty"`
	CgroupUsed     uint64 `json:"cgroup_used_bytes,omitempty"`
	CgroupFile     string `json:"cgroup_file,omitempty"`
	ShmFreeBytes   uint64 `json:"shm_free_bytes"`
	MemoryHigh     string `json:"memory_high,omitempty"`
	Scarce         bool   `json:"scarce"`

	Resize resizePage `json:"resize"`
}

// regionPage is one range of a segment.
type regionPage struct {
	Name          string `json:"name"`
	Base          string `json:"base"`
	SizeBytes     uint64 `json:"size_bytes"`
	ResidentBytes uint64 `json:"resident_bytes"`
}

func (d *Daemon) memoryPage() memoryPage {
	p := memoryPage{Name: d.state.Name, Endpoint: d.state.Endpoint, Scarce: d.memory.near.Load(), Resize: d.resizer.page()}
	p.Populate, p.Waiting = d.population.state()
	for _, x := range d.all() {
		resident := x.state.Size - x.missing()
		p.SizeBytes += x.state.Size
		p.ResidentBytes += resident
		p.HugeBytes += x.arena.hugeResident()
		p.Regions = append(p.Regions, regionPage{x.state.Name, fmt.Sprintf("%#x", x.state.Base), x.state.Size, resident})
	}
	if r := d.memory.now.Load(); r != nil {
		p.FreeBytes, p.AvailableBytes, p.ShmFreeBytes = r.free(), r.availableBytes, r.shmFreeBytes
		if r.cgroupLimitBytes != unlimited {
			p.CgroupLimit, p.CgroupUsed, p.CgroupFile = r.cgroupLimitBytes, r.cgroupUsedBytes, r.cgroupFile
		}
	}
	if !d.cfg.MemoryHigh.none() {
		p.MemoryHigh = d.cfg.MemoryHigh.String()
	}
	return p
}

func (d *Daemon) serveMemory(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, d.memoryPage())
}

// roomOf takes a figure out of what is known of the host; 0 where it has no such bound.
func roomOf(s *snapshot, of func(*room) uint64) uint64 {
	r := s.d.memory.now.Load()
	if r == nil {
		return 0
	}
	if n := of(r); n != unlimited {
		return n
	}
	return 0
}

// memorySeries are the figures of memory.
var memorySeries = []series{
	{"regions", "gauge", "Ranges of memory that the segment consists of", func(s *snapshot) uint64 { return uint64(len(s.d.all())) }},
	{"untouched_bytes", "gauge", "Bytes of the segment that the kernel has still to find", func(s *snapshot) uint64 { return s.d.untouched() }},
	{"memory_total_bytes", "gauge", "Memory of the host", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.totalBytes }) }},
	{"memory_available_bytes", "gauge", "MemAvailable of the host", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.availableBytes }) }},
	{"memory_cgroup_limit_bytes", "gauge", "Limit of the cgroup with the least room left; 0 is none", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.cgroupLimitBytes }) }},
	{"memory_cgroup_used_bytes", "gauge", "What is used below that limit, without the page cache", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.cgroupUsedBytes }) }},
	{"memory_shm_free_bytes", "gauge", "Free in the file system of the arena", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.shmFreeBytes }) }},
	{"memory_stalled_microseconds_total", "counter", "How long some task of the host has waited for memory", func(s *snapshot) uint64 { return roomOf(s, func(r *room) uint64 { return r.stallMicros }) }},
	{"memory_scarce", "gauge", "1 while there is too little memory for what the segment still needs, or next to none", func(s *snapshot) uint64 {
		if s.d.memory.near.Load() {
			return 1
		}
		return 0
	}},
}

// heed lets an arena know how memory is, and the log when it has no huge pages any more.
func (d *Daemon) heed(a *Arena) {
	a.heed(d.memory.near.Load, func(err error) {
		d.log.Info("no more huge pages are asked for: memory comes in small ones", zap.String("arena", a.Path()), zap.Error(err))
	})
}
