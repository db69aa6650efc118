package master

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"mooncake/wire"
)

func withDisks(c *Config) { c.Offload, c.PromoteOnHit, c.PromoteThreshold = true, true, 1 }

func (p *peer) heartbeat() wire.OffloadObjectHeartbeatReply {
	p.t.Helper()
	return invoke(p, &wire.OffloadObjectHeartbeat, &wire.OffloadObjectHeartbeatRequest{ClientID: p.id, EnableOffloading: true})
}

func (p *peer) copied(size int64, keys ...string) wire.ErrorCode {
	p.t.Helper()
	q := wire.NotifyOffloadSuccessRequest{ClientID: p.id}
	for _, key := range keys {
		q.Tasks = append(q.Tasks, wire.OffloadTaskItem{TenantID: "default", Key: key, Size: size})
		q.Metadatas = append(q.Metadatas, wire.StorageObjectMetadata{KeySize: int64(len(key)), DataSize: size, TransportEndpoint: "disk:1"})
	}
	return invoke(p, &wire.NotifyOffloadSuccess, &q).Err
}

// TestObjectOnAClientsDisk copies an object to a client's disk, lets its memory go, and brings it back.
func TestObjectOnAClientsDisk(t *testing.T) {
	for _, d := range dialects {
		b := newBed(t, withDisks)
		p := b.client(d)
		seg := p.mount("host", 1<<20, 1<<20)
		expect(t, "heartbeat without a disk", p.heartbeat().Err, wire.ErrSegmentNotFound)
		expect(t, "poll without a disk", invoke(p, &wire.PollRemoveAll, &wire.PollRemoveAllRequest{ClientID: p.id}).Err, wire.ErrSegmentNotFound)
		for range 2 {
			expect(t, "mount", invoke(p, &wire.MountLocalDiskSegment, &wire.MountLocalDiskSegmentRequest{ClientID: p.id, EnableOffloading: true}).Err, wire.ErrorCode(0))
		}
		capacity := func(bytes int64) wire.ErrorCode {
			return invoke(p, &wire.ReportSsdCapacity, &wire.ReportSsdCapacityRequest{ClientID: p.id, CapacityBytes: bytes}).Err
		}
		expect(t, "capacity", capacity(5), wire.ErrorCode(0))
		expect(t, "no capacity", capacity(-5), wire.ErrInvalidParams)
		p.put("k", 1000)
		tasks := p.heartbeat().Value
		if len(tasks) != 1 || tasks[0] != (wire.OffloadTaskItem{TenantID: "default", Key: "k", Size: 1000}) {
			t.Fatalf("tasks %+v", tasks)
		}
		expect(t, "no task twice", len(p.heartbeat().Value), 0)
		uneven := invoke(p, &wire.NotifyOffloadSuccess, &wire.NotifyOffloadSuccessRequest{ClientID: p.id, Tasks: tasks})
		expect(t, "uneven report", uneven.Err, wire.ErrInvalidParams)
		expect(t, "report", p.copied(1000, "k"), wire.ErrorCode(0))
		rep := p.get("k")
		if len(rep.Value.Replicas) != 2 || rep.Value.Replicas[1].DescriptorVariant.LocalDisk == nil {
			t.Fatalf("look-up: %+v", rep)
		}
		if l := rep.Value.Replicas[1].DescriptorVariant.LocalDisk; *l != (wire.LocalDiskDescriptor{ClientID: p.id, ObjectSize: 1000, TransportEndpoint: "disk:1"}) {
			t.Errorf("on disk: %+v", l)
		}
		expect(t, "unmount", invoke(p, &wire.UnmountSegment, &wire.UnmountSegmentRequest{SegmentID: seg.ID, ClientID: p.id}).Err, wire.ErrorCode(0))
		if rep = p.get("k"); len(rep.Value.Replicas) != 1 || rep.Value.Replicas[0].DescriptorVariant.Index != wire.VariantLocalDisk {
			t.Fatalf("look-up on disk only: %+v", rep)
		}
		expect(t, "exists", p.exists("k"), true)
		expect(t, "put over it", p.putStart("k", 10).Err, wire.ErrObjectAlreadyExists)
		seg.ID = newID()
		expect(t, "mount", invoke(p, &wire.MountSegment, &wire.MountSegmentRequest{Segment: seg, ClientID: p.id}).Err, wire.ErrorCode(0))
		bringBack(t, p)
		expect(t, "removed", int64(invoke(p, &wire.RemoveAll, &wire.RemoveAllRequest{Force: true})), 1)
		for i, want := range []bool{true, false} {
			wipe := invoke(p, &wire.PollRemoveAll, &wire.PollRemoveAllRequest{ClientID: p.id})
			expect(t, "wipe "+strconv.Itoa(i), wipe.Value, want)
		}
		b.stop()
	}
}

// bringBack promotes the object k of 1000 bytes, which was read.
func bringBack(t *testing.T, p *peer) {
	t.Helper()
	_ = p.get("k")
	var tasks []wire.PromotionTaskItem
	waitFor(t, "the object is to come back", func() bool {
		rep := invoke(p, &wire.PromotionObjectHeartbeat, &wire.PromotionObjectHeartbeatRequest{ClientID: p.id})
		tasks = append(tasks, rep.Value...)
		return len(tasks) > 0
	})
	expect(t, "task", tasks[0], wire.PromotionTaskItem{TenantID: "default", Key: "k", Size: 1000})
	start := func(size uint64) wire.PromotionAllocStartReply {
		return invoke(p, &wire.PromotionAllocStart, &wire.PromotionAllocStartRequest{ClientID: p.id, Key: "k", Size: size})
	}
	expect(t, "another size", start(999).Err, wire.ErrInvalidParams)
	rep := start(1000)
	if m := rep.Value.MemoryDescriptor; rep.Err != 0 || m.DescriptorVariant.Memory.BufferDescriptor.Size != 1000 || m.Status != wire.ReplicaStatusProcessing {
		t.Fatalf("start: %+v", rep)
	}
	expect(t, "started twice", start(1000).Err, wire.ErrReplicaIsNotReady)
	expect(t, "end", invoke(p, &wire.NotifyPromotionSuccess, &wire.NotifyPromotionSuccessRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrorCode(0))
	expect(t, "ended twice", invoke(p, &wire.NotifyPromotionSuccess, &wire.NotifyPromotionSuccessRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrReplicaIsNotReady)
	expect(t, "failed afterwards", invoke(p, &wire.NotifyPromotionFailure, &wire.NotifyPromotionFailureRequest{ClientID: p.id, Key: "k"}).Err, wire.ErrorCode(0))
	expect(t, "copies", len(p.get("k").Value.Replicas), 2)
}

// TestDisksAreNotAskedFor is the rule as long as the master was not told otherwise.
func TestDisksAreNotAskedFor(t *testing.T) {
	p := newBed(t).client(wire.V13)
	expect(t, "mount", invoke(p, &wire.MountLocalDiskSegment, &wire.MountLocalDiskSegmentRequest{ClientID: p.id}).Err, wire.ErrUnableOffload)
	expect(t, "unmount", invoke(p, &wire.UnmountLocalDiskSegment, &wire.UnmountLocalDiskSegmentRequest{ClientID: p.id}).Err, wire.ErrUnableOffload)
	config := invoke(p, &wire.GetStorageConfig, &wire.GetStorageConfigRequest{})
	expect(t, "config", config.Value, wire.GetStorageConfigResponse{EnableDiskEviction: true})
	expect(t, "directory", invoke(p, &wire.GetFsdir, &wire.GetFsdirRequest{}).Value, "")
}

// TestDiskReplicasByTheirIDs evicts copies of a client's disk, and only the one that is meant.
func TestDiskReplicasByTheirIDs(t *testing.T) {
	p := newBed(t, withDisks).client(wire.V14)
	p.mount("host", 1<<20, 1<<20)
	expect(t, "mount", invoke(p, &wire.MountLocalDiskSegment, &wire.MountLocalDiskSegmentRequest{ClientID: p.id, EnableOffloading: true}).Err, wire.ErrorCode(0))
	expect(t, "report", p.copied(100, "a", "b", "c"), wire.ErrorCode(0))
	id := p.get("a").Value.Replicas[0].ID
	current := func(key string, kind wire.ReplicaType, id uint64) (bool, wire.ErrorCode) {
		rep := invoke(p, &wire.EvictDiskReplicaIfCurrent, &wire.EvictDiskReplicaIfCurrentRequest{ClientID: p.id, Key: key, ReplicaType: kind, Expected: id})
		return rep.Value, rep.Err
	}
	for _, c := range []struct {
		key  string
		kind wire.ReplicaType
		id   uint64
		gone bool
		code wire.ErrorCode
	}{
		{"a", wire.ReplicaTypeLocalDisk, 0, false, 0},
		{"a", wire.ReplicaTypeLocalDisk, id + 1, false, 0},
		{"a", wire.ReplicaTypeDisk, id, false, 0},
		{"a", wire.ReplicaTypeMemory, id, false, wire.ErrInvalidParams},
		{"x", wire.ReplicaTypeLocalDisk, 0, false, wire.ErrObjectNotFound},
		{"a", wire.ReplicaTypeLocalDisk, id, true, 0},
		{"a", wire.ReplicaTypeLocalDisk, id, false, wire.ErrObjectNotFound},
	} {
		if gone, code := current(c.key, c.kind, c.id); gone != c.gone || code != c.code {
			t.Errorf("%+v: %v, %v", c, gone, code)
		}
	}
	evict := func(key string, kind wire.ReplicaType) wire.ErrorCode {
		return invoke(p, &wire.EvictDiskReplica, &wire.EvictDiskReplicaRequest{ClientID: p.id, Key: key, ReplicaType: kind}).Err
	}
	expect(t, "a file that is not there", evict("b", wire.ReplicaTypeDisk), wire.ErrorCode(0))
	expect(t, "memory", evict("b", wire.ReplicaTypeMemory), wire.ErrInvalidParams)
	expect(t, "evicted", evict("b", wire.ReplicaTypeLocalDisk), wire.ErrorCode(0))
	expect(t, "evicted again", evict("b", wire.ReplicaTypeLocalDisk), wire.ErrObjectNotFound)
	batch := invoke(p, &wire.BatchEvictDiskReplica, &wire.BatchEvictDiskReplicaRequest{ClientID: p.id, Keys: []string{"c", "b"}, ReplicaType: wire.ReplicaTypeLocalDisk})
	expectItems(t, "batch", batch, 0, wire.ErrObjectNotFound)
}

// TestPrefetch asks for what is on disk to be brought back before it is read.
func TestPrefetch(t *testing.T) {
	p := newBed(t, withDisks, func(c *Config) { c.PromoteOnHit = false }).client(wire.V14)
	ask := func(key string) wire.ErrorCode {
		return invoke(p, &wire.RegisterPrefetchTask, &wire.RegisterPrefetchTaskRequest{ClientID: p.id, Key: key}).Err
	}
	expect(t, "of a stranger", ask("k"), wire.ErrUnavailableInCurrentStatus)
	expect(t, "heartbeat of a stranger", p.heartbeat().Err, wire.ErrUnavailableInCurrentStatus)
	p.mount("host", 1<<20, 1<<20)
	expect(t, "mount", invoke(p, &wire.MountLocalDiskSegment, &wire.MountLocalDiskSegmentRequest{ClientID: p.id, EnableOffloading: true}).Err, wire.ErrorCode(0))
	expect(t, "report", p.copied(1000, "k"), wire.ErrorCode(0))
	p.put("m", 10)
	expect(t, "of nothing", ask("x"), wire.ErrObjectNotFound)
	expect(t, "of what is in memory", ask("m"), wire.ErrPromotionAlreadyExists)
	expect(t, "prefetch", ask("k"), wire.ErrorCode(0))
	bringBack(t, p)
}

// TestSharedFiles writes objects to files that all clients share.
func TestSharedFiles(t *testing.T) {
	inEachReleaseWith(t, func(c *Config) { c.RootFSDir, c.DiskQuota = "/shared", 7 }, func(t *testing.T, b *bed, p *peer) {
		p.mount("host", 1<<20, 1<<20)
		expect(t, "directory", invoke(p, &wire.GetFsdir, &wire.GetFsdirRequest{}).Value, "/shared/mooncake_cluster")
		config := invoke(p, &wire.GetStorageConfig, &wire.GetStorageConfigRequest{})
		expect(t, "config", config.Value, wire.GetStorageConfigResponse{Fsdir: "/shared/mooncake_cluster", EnableDiskEviction: true, QuotaBytes: 7})
		rep := p.putStart("k", 100)
		if len(rep.Value) != 2 || rep.Value[1].DescriptorVariant.Disk == nil || rep.Value[1].Status != wire.ReplicaStatusProcessing {
			t.Fatalf("start: %+v", rep)
		}
		file := *rep.Value[1].DescriptorVariant.Disk
		if !strings.HasPrefix(file.FilePath, "/shared/mooncake_cluster/") || !strings.HasSuffix(file.FilePath, "/k") || file.ObjectSize != 100 {
			t.Errorf("file %+v", file)
		}
		end := func(kind wire.ReplicaType) wire.ErrorCode {
			return invoke(p, &wire.PutEnd, &wire.PutEndRequest{ClientID: p.id, Object: wire.ObjectMeta{Key: "k"}, ReplicaType: kind}).Err
		}
		expect(t, "end in memory", end(wire.ReplicaTypeMemory), wire.ErrorCode(0))
		expect(t, "remove while the file is written", p.remove("k", false), wire.ErrReplicaIsNotReady)
		expect(t, "copies before the file is there", len(p.get("k").Value.Replicas), 1)
		expect(t, "end of the file", end(wire.ReplicaTypeDisk), wire.ErrorCode(0))
		got := p.get("k").Value.Replicas
		if len(got) != 2 || got[1].DescriptorVariant.Disk == nil || *got[1].DescriptorVariant.Disk != file {
			t.Errorf("look-up: %+v", got)
		}
		var answer struct {
			Data map[string]struct {
				Disk []diskFile `json:"disk_values"`
			} `json:"data"`
		}
		if err := json.Unmarshal([]byte(pageText(t, b, "/batch_query_keys?keys=k")), &answer); err != nil || len(answer.Data["k"].Disk) != 1 ||
			answer.Data["k"].Disk[0] != (diskFile{file.FilePath, 100}) {
			t.Errorf("page: %+v, %v", answer, err)
		}
	})
}

// inEachReleaseWith is inEachRelease for a master with other settings.
func inEachReleaseWith(t *testing.T, edit func(*Config), do func(t *testing.T, b *bed, p *peer)) {
	for _, d := range dialects {
		t.Run(d.String(), func(t *testing.T) {
			b := newBed(t, edit)
			do(t, b, b.client(d))
		})
	}
}

func pageText(t *testing.T, b *bed, path string) string {
	t.Helper()
	rep, err := http.Get("http://127.0.0.1:" + strconv.Itoa(b.Ports().Metrics) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer rep.Body.Close()
	text, err := io.ReadAll(rep.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFilesOfKeys gives every key a file of its own, whatever is in it.
func TestFilesOfKeys(t *testing.T) {
	cfg := DefaultConfig()
	cfg.RootFSDir = "/r"
	seen := map[string]string{}
	long := strings.Repeat("x", 5000)
	for _, key := range []string{"k", "a/b", "a_b", "a%2fb", "..", ".", "../../etc/passwd", "ü", "\x00a\x00k", long, long + "y", strings.Repeat("/", 150)} {
		file := cfg.fileOf(key)
		parts := strings.Split(file, "/")
		if len(parts) != 6 || parts[1] != "r" || parts[2] != "mooncake_cluster" || len(parts[3]) != 1 || len(parts[4]) != 1 || len(parts[5]) > 255 ||
			strings.HasPrefix(parts[5], ".") {
			t.Errorf("%.40q: %s", key, file)
		}
		if other, ok := seen[file]; ok {
			t.Errorf("%.40q and %.40q share %s", key, other, file)
		}
		seen[file] = key
	}
}

func TestDiskSettings(t *testing.T) {
	for part, edit := range map[string]func(*Config){
		"root_fs_dir=here":         func(c *Config) { c.RootFSDir = "here" },
		`cluster_id="/"`:           func(c *Config) { c.RootFSDir, c.ClusterID = "/r", "/" },
		"offloading_queue_limit=0": func(c *Config) { c.OffloadQueue = 0 },
		"offload_cap_ratio=2":      func(c *Config) { c.OffloadCapRatio = 2 },
		"promotion_queue_limit=-1": func(c *Config) { c.PromoteQueue = -1 },
		"max_per_heartbeat=-1":     func(c *Config) { c.PromotePerBeat = -1 },
		"admission_threshold=-1":   func(c *Config) { c.PromoteThreshold = -1 },
		"need --enable_offload":    func(c *Config) { c.PromoteOnHit = true },
		"needs --offload_on_evict": func(c *Config) { c.Offload, c.OffloadForce = true, true },
	} {
		cfg := DefaultConfig()
		edit(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("want %q, got %v", part, err)
		}
	}
}
