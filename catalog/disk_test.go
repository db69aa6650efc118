package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dumpDisks writes down the copies on disk.
func dumpDisks(s *state) (list []string) {
	for key, obj := range s.disks.byKey {
		text := fmt.Sprintf("%q %d bytes, %x %v, type %d, of %s, alone %v:", key, obj.size, obj.checksum, obj.hasChecksum, obj.dataType, obj.tenant, obj.alone)
		var copies []string
		for i := range obj.copies {
			d := &obj.copies[i]
			copies = append(copies, fmt.Sprintf(" [%d of %v at %q, %d bytes, by %v since %d, open %v]", d.id, d.disk.Owner, d.disk.Endpoint, d.size, d.writer, d.since, d.open))
		}
		slices.Sort(copies)
		list = append(list, text+strings.Join(copies, ""))
	}
	slices.Sort(list)
	return list
}

// checkDisks counts the copies on disk anew.
func checkDisks(t fataler, s *state) {
	t.Helper()
	alone, bytes := uint64(0), uint64(0)
	owners, tenants := map[UUID]map[string]uint64{}, map[string]uint64{}
	for key, obj := range s.disks.byKey {
		hash := s.hash(key)
		if indexed := s.find(s.shard(hash), hash, key) != 0; indexed == obj.alone {
			t.Fatalf("%q is in memory: %v, and said to be alone: %v", key, indexed, obj.alone)
		}
		if obj.alone {
			alone++
		}
		tenants[obj.tenant]++
		if len(obj.copies) == 0 {
			t.Fatalf("%q has no copies on disk", key)
		}
		seen := map[UUID]bool{}
		for i := range obj.copies {
			d := &obj.copies[i]
			id := d.disk.Owner
			if seen[id] || (d.owner == nil) != (id == UUID{}) || d.owner != nil && s.disks.owners[id] != d.owner {
				t.Fatalf("%q: copy %d of %v is stray", key, d.id, id)
			}
			seen[id] = true
			if !d.open {
				bytes += d.size
			}
			if d.owner != nil {
				if owners[id] == nil {
					owners[id] = map[string]uint64{}
				}
				owners[id][key] = d.size
			}
		}
	}
	if alone != s.disks.alone || bytes != s.disks.bytes || len(owners) != len(s.disks.owners) || len(tenants) != len(s.disks.tenants) ||
		int64(len(s.disks.byKey)) != s.disks.count.Load() {
		t.Fatalf("alone %d of %d, bytes %d of %d, %d owners of %d", alone, s.disks.alone, bytes, s.disks.bytes, len(owners), len(s.disks.owners))
	}
	for id, o := range s.disks.owners {
		sum := uint64(0)
		for key := range o.keys {
			sum += owners[id][key]
		}
		if len(o.keys) != len(owners[id]) || sum != o.bytes {
			t.Fatalf("%v keeps %d objects of %d, %d bytes of %d", id, len(owners[id]), len(o.keys), sum, o.bytes)
		}
	}
	for name, n := range tenants {
		if s.disks.tenants[name] != n {
			t.Fatalf("tenant %q has %d objects on disk of %d", name, n, s.disks.tenants[name])
		}
	}
}

func init() {
	for verb, deed := range map[string]func(*play, args) string{
		"disk": (*play).mountDisk, "undisk": (*play).unmountDisk, "fetch": (*play).fetchDisk, "copied": (*play).copied, "wipe": (*play).wipe,
		"evictdisk": (*play).evictDisk, "endfile": (*play).endFile, "revokefile": (*play).revokeFile,
		"fetchback": (*play).fetchBack, "back": (*play).back, "endback": (*play).endBack, "failback": (*play).failBack,
		"prefetch": (*play).prefetch, "disks": (*play).disks, "promotions": (*play).promotions,
	} {
		deeds[verb] = deed
	}
}

// disk CLIENT [onevict] [force] [queue=] [promote=]: it has one; the words set the rules, for all
func (p *play) mountDisk(a args) string {
	cfg := &p.cfg
	cfg.Offload, cfg.OffloadQueueMax, cfg.OffloadCapRatio = !a.has("off"), 50, 0.5
	cfg.OffloadOnEvict, cfg.OffloadForce = cfg.OffloadOnEvict || a.has("onevict"), cfg.OffloadForce || a.has("force")
	if v, ok := a.named["queue"]; ok {
		cfg.OffloadQueueMax, _ = strconv.Atoi(v)
	}
	if v, ok := a.named["promote"]; ok {
		n, _ := strconv.Atoi(v)
		cfg.PromoteOnHit, cfg.PromoteThreshold = true, uint8(n)
	}
	cfg.PromoteQueueMax, cfg.PromotePerBeat = 10, 1
	c := p.catalog()
	c.cfg = *cfg
	p.clients[a.word(0)] = true
	return outcome(c.MountDisk(p.now, p.id(a.word(0)), true))
}

func (p *play) unmountDisk(a args) string {
	return outcome(p.catalog().UnmountDisk(p.now, p.id(a.word(0))))
}

func tasksOf(list []DiskTask, err error) string {
	if err != nil {
		return outcome(err)
	}
	var text []string
	for _, t := range list {
		text = append(text, fmt.Sprintf("%s %d", t.Key, t.Size))
	}
	return strings.Join(text, ", ")
}

// fetch CLIENT [disable]
func (p *play) fetchDisk(a args) string {
	return tasksOf(p.catalog().FetchDiskTasks(p.now, p.id(a.word(0)), !a.has("disable")))
}

// copied CLIENT KEY SIZE ...: a size of -1 is a failure
func (p *play) copied(a args) string {
	var list []DiskReport
	for i := 1; i+1 < len(a.words); i += 2 {
		n := int64(-1)
		if a.words[i+1] != "-1" {
			n = int64(p.bytes(a.words[i+1]))
		}
		list = append(list, DiskReport{Key: key(a.words[i]), Size: n, Endpoint: a.word(0) + ":2"})
	}
	return outcome(p.catalog().ReportDisk(p.now, p.id(a.word(0)), list))
}

func (p *play) wipe(a args) string {
	wipe, err := p.catalog().TakeWipe(p.id(a.word(0)))
	if err != nil {
		return outcome(err)
	}
	return strconv.FormatBool(wipe)
}

// evictdisk CLIENT KEY [shared] [only=]
func (p *play) evictDisk(a args) string {
	only, _ := strconv.ParseUint(a.named["only"], 10, 64)
	return outcome(p.catalog().EvictFromDisk(p.now, p.id(a.word(0)), key(a.word(1)), a.has("shared"), only))
}

func (p *play) endFile(a args) string {
	return outcome(p.catalog().PutEnd(p.now, p.writer(a), key(a.word(0)), 0, false, ReplicaTypeDisk))
}

func (p *play) revokeFile(a args) string {
	return outcome(p.catalog().PutRevoke(p.now, p.writer(a), key(a.word(0)), ReplicaTypeDisk))
}

func (p *play) fetchBack(a args) string { return tasksOf(p.catalog().FetchPromotions(p.id(a.word(0)))) }

// back CLIENT KEY SIZE
func (p *play) back(a args) string {
	r, err := p.catalog().StartPromotion(p.now, p.id(a.word(0)), key(a.word(1)), p.bytes(a.word(2)), nil)
	if err != nil {
		return outcome(err)
	}
	return p.places([]Replica{r})
}

func (p *play) endBack(a args) string {
	return outcome(p.catalog().EndPromotion(p.now, p.id(a.word(0)), key(a.word(1))))
}

func (p *play) failBack(a args) string {
	p.catalog().FailPromotion(p.now, p.id(a.word(0)), key(a.word(1)))
	return "ok"
}

func (p *play) prefetch(a args) string { return outcome(p.catalog().Prefetch(key(a.word(0)))) }

func (p *play) disks(args) string {
	st := p.catalog().Stats()
	d := st.Disks
	return fmt.Sprintf("%d keys, %d on disk, %d only there, %d bytes; %d waiting, %d to come back, %d came", st.Keys, d.Objects, d.Alone, d.Bytes, d.Waiting, d.Promoting, d.Promotions.Completed)
}

func (p *play) promotions(args) string {
	s := p.catalog().Stats().Disks.Promotions
	return fmt.Sprintf("admitted %d completed %d (%d bytes) failed %d cancelled %d expired %d; rejected: seldom %d no room %d too many %d",
		s.Admitted, s.Completed, s.CompletedBytes, s.Failed, s.Cancelled, s.Expired, s.RejectedFrequency, s.RejectedWatermark, s.RejectedCap)
}

// TestAnyHistoryOfDisks does anything to a few keys: what is logged builds the same state, and a reader is never given a copy
// of another value than the last one that was completed.
func TestAnyHistoryOfDisks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		cfg.Offload, cfg.OffloadQueueMax, cfg.OffloadCapRatio = true, 5, 0.5
		cfg.OffloadOnEvict = rapid.Bool().Draw(rt, "on evict")
		cfg.PromoteOnHit, cfg.PromoteThreshold, cfg.PromoteQueueMax = true, 1, 3
		c := newTest(t, cfg)
		now := Time(1_800_000_000_064)
		owners := []UUID{{1, 1}, {1, 2}}
		for i, id := range owners {
			if err := c.MountSegment(now, id, Segment{ID: UUID{2, uint64(i)}, Name: fmt.Sprint(i), Base: 1, Size: 2000, Endpoint: fmt.Sprint(i, ":1")}); err != nil {
				rt.Fatal(err)
			}
			if err := c.MountDisk(now, id, true); err != nil {
				rt.Fatal(err)
			}
		}
		sizes := map[string]uint64{}   // of the last completed value
		started := map[string]uint64{} // of the write under way
		for range rapid.IntRange(1, 60).Draw(rt, "deeds") {
			now += Time(rapid.Int64Range(0, 2000).Draw(rt, "pause"))
			k := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
			id := rapid.SampledFrom(owners).Draw(rt, "client")
			o := &PutOptions{Replicas: 1, File: rapid.Bool().Draw(rt, "file")}
			size := uint64(rapid.IntRange(1, 900).Draw(rt, "size"))
			switch rapid.IntRange(0, 14).Draw(rt, "deed") {
			case 0, 1, 2:
				if _, err := c.PutStart(now, id, k, size, o, nil); err == nil {
					started[k] = size
					if c.PutEnd(now, id, k, 0, false, ReplicaTypeAll) == nil {
						sizes[k] = size
					}
				}
			case 3:
				if replicas, err := c.UpsertStart(now, id, k, size, o, nil); err == nil {
					started[k] = replicas[0].Size
					if c.UpsertEnd(now, id, k, 0, false, ReplicaTypeAll) == nil {
						sizes[k] = size
					}
				}
			case 4:
				_ = c.PutEnd(now, id, k, 0, false, ReplicaTypeDisk)
			case 5:
				_ = c.PutRevoke(now, id, k, ReplicaTypeDisk)
			case 6:
				_ = c.Remove(now, k, true)
			case 7, 8:
				tasks, _ := c.FetchDiskTasks(now, id, true)
				var reports []DiskReport
				for _, task := range tasks {
					reports = append(reports, DiskReport{Key: task.Key, Size: int64(task.Size)})
				}
				if rapid.Bool().Draw(rt, "late") {
					_ = c.Remove(now, k, true)
				}
				_ = c.ReportDisk(now, id, reports)
			case 9:
				_ = c.EvictFromDisk(now, id, k, o.File, 0)
			case 10:
				c.Sweep(now)
				if tasks, _ := c.FetchPromotions(id); len(tasks) > 0 {
					if _, err := c.StartPromotion(now, id, tasks[0].Key, tasks[0].Size, nil); err == nil {
						_ = c.EndPromotion(now, id, tasks[0].Key)
					}
				}
			case 11:
				c.Ping(now, id)
			case 12:
				_, _ = c.UnmountSegment(now, UUID{2, id.Lo - 1}, id)
			case 13:
				_ = c.UnmountDisk(now, id)
				_ = c.MountDisk(now, id, true)
			default:
				if obj, replicas, err := c.Get(now, k, nil); err == nil {
					for _, r := range replicas {
						if r.Size != sizes[k] || obj.Size != sizes[k] {
							rt.Fatalf("%s: %+v of an object with %d bytes", k, r, sizes[k])
						}
					}
				}
			}
			c.now = max(c.now, now)
			c.compare()
		}
		c.compareSnapshot()
	})
}
