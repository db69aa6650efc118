package master

import (
	"fmt"
	"path"
	"strings"

	"mooncake/internal/limits"
)

// checkDisks names what cannot work of the settings about disks.
func (c *Config) checkDisks() error {
	switch {
	case c.RootFSDir != "" && !path.IsAbs(c.RootFSDir):
		return fmt.Errorf("--root_fs_dir=%s is no absolute path: clients anywhere are to find the same files", c.RootFSDir)
	case c.RootFSDir != "" && (strings.Trim(c.ClusterID, "/") == "" || strings.Contains(c.ClusterID, "..")):
		return fmt.Errorf("--cluster_id=%q cannot be a directory below --root_fs_dir", c.ClusterID)
	case c.OffloadQueue < 1 || c.OffloadQueue > limits.DiskQueueMax:
		return fmt.Errorf("--offloading_queue_limit=%d is outside 1..%d", c.OffloadQueue, limits.DiskQueueMax)
	case !(c.OffloadCapRatio >= 0 && c.OffloadCapRatio <= 1):
		return fmt.Errorf("--offload_cap_ratio=%g is outside 0..1", c.OffloadCapRatio)
	case c.PromoteQueue < 0 || c.PromoteQueue > limits.DiskQueueMax:
		return fmt.Errorf("--promotion_queue_limit=%d is outside 0..%d", c.PromoteQueue, limits.DiskQueueMax)
	case c.PromotePerBeat < 0 || c.PromotePerBeat > limits.DiskQueueMax:
		return fmt.Errorf("--promotion_max_per_heartbeat=%d is outside 0..%d", c.PromotePerBeat, limits.DiskQueueMax)
	case c.PromoteThreshold < 0:
		return fmt.Errorf("--promotion_admission_threshold=%d is below 0", c.PromoteThreshold)
	case (c.OffloadOnEvict || c.PromoteOnHit) && !c.Offload:
		return fmt.Errorf("--offload_on_evict and --promotion_on_hit need --enable_offload: without it no client has a disk")
	case c.OffloadForce && !c.OffloadOnEvict:
		return fmt.Errorf("--offload_force_evict needs --offload_on_evict: else everything is copied when it is written")
	}
	return nil
}

// addDisks lists the settings about disks, as far as they matter.
func (c *Config) addDisks(add func(name string, value any)) {
	if c.RootFSDir != "" {
		add("root_fs_dir", c.RootFSDir)
		add("enable_disk_eviction", c.DiskEviction)
		add("quota_bytes", c.DiskQuota)
		add("global_file_segment_size", c.FileCapacity)
	}
	if !c.Offload {
		return
	}
	add("enable_offload", c.Offload)
	add("offload_on_evict", c.OffloadOnEvict)
	add("offload_force_evict", c.OffloadForce)
	add("offloading_queue_limit", c.OffloadQueue)
	add("offload_cap_ratio", c.OffloadCapRatio)
	add("promotion_on_hit", c.PromoteOnHit)
	if c.PromoteOnHit {
		add("promotion_admission_threshold", c.PromoteThreshold)
		add("promotion_queue_limit", c.PromoteQueue)
		add("promotion_max_per_heartbeat", c.PromotePerBeat)
	}
}
