package replication

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// Open takes a journal up, or begins one in an empty directory, and builds its history. The history is the caller's from
// then on; its catalog must get the journal as its log before anything is decided. An error leaves the directory as it is.
func Open(cfg Config) (*Journal, *History, error) {
	if err := cfg.complete(); err != nil {
		return nil, nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	j := &Journal{core: newCore(), cfg: cfg, lock: lock}
	j.repeat = func(b *batch) (uint64, []Grant) { return j.grantsBefore(b.number, b.granted) }
	h, err := j.recover()
	if err != nil {
		_ = lock.Close() // the error that led here is the one that counts
		return nil, nil, err
	}
	return j, h, nil
}

func (c *Config) complete() error {
	switch c.Sync {
	case SyncAlways, SyncNever:
	case SyncInterval:
		if c.SyncEvery <= 0 {
			return fmt.Errorf("an interval of %v between syncs is not above 0", c.SyncEvery)
		}
	default:
		return fmt.Errorf("sync policy %q is none of always, interval, never", c.Sync)
	}
	if c.disk == nil {
		c.disk = osDisk{}
	}
	if c.FileBytes <= 0 {
		c.FileBytes = limits.LogFileBytes
	}
	if c.SnapshotBytes <= 0 {
		c.SnapshotBytes = limits.LogSnapshotBytes
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return nil
}

// lockDir makes the directory and makes sure that no other process uses it.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close() // the error that led here is the one that counts
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by another process", dir)
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return lock, nil
}

// recover builds the history and opens the file for what comes next.
func (j *Journal) recover() (*History, error) {
	l, err := list(j.cfg.Dir)
	if err != nil {
		return nil, err
	}
	if j.cfg.ForceEmpty {
		if err := j.putAside(l); err != nil {
			return nil, err
		}
		l = listing{}
	}
	h := newHistory(j.cfg.Catalog, j.cfg.Log)
	repaired, err := j.readAll(h, l)
	j.files.lost, j.files.dropped = h.Lost, h.DroppedBy
	if err == nil && repaired {
		// What damage took away must not come back, so the history is written down anew before it goes on.
		if _, err = j.writeSnapshot(context.Background(), h, func() {}); err == nil {
			err = j.putAside(l)
		}
	}
	if err == nil {
		j.out.total, j.lately = h.bytes, h.lately
		err = j.begin(h.Last + 1)
	}
	if err != nil {
		h.Catalog.Close()
		return nil, err
	}
	j.durable.Store(h.Last)
	since := h.Last + 1
	var before []Grant
	if len(j.lately) > 0 {
		since, before = j.grantsBefore(h.Last, nil)
	}
	j.open.start(h.Last+1, since, before)
	return h, nil
}

// readAll reads every file into the history. It reports whether something in them was damaged, other than a last record
// that was still being written.
func (j *Journal) readAll(h *History, l listing) (repaired bool, err error) {
	if len(l.journals)+len(l.snapshots) == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return false, err
		}
		j.identity = binary.LittleEndian.Uint64(b[:])
		return false, nil
	}
	began := time.Now()
	if unborn(l) {
		if err := j.dropTail(l.journals[0].path, 0); err != nil {
			return false, err
		}
		return j.readAll(h, listing{})
	}
	if err := j.identify(l); err != nil {
		return false, err
	}
	if n := len(l.snapshots); n > 0 {
		path := l.snapshots[n-1].path
		if err := h.loadSnapshot(path, j.identity); err != nil {
			return false, err
		}
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		j.snapshot.bytes.Store(info.Size())
		j.snapshot.made.Store(info.ModTime().UnixMilli())
	}
	for i, f := range l.journals {
		last := i+1 == len(l.journals)
		if !last && l.journals[i+1].number <= h.Last+1 {
			continue // a snapshot includes it
		}
		_, text, err := read(f.path, kindJournal)
		if err != nil {
			if last && f.number > h.Last { // its making was cut off before anything was in it
				return repaired, j.dropTail(f.path, 0)
			}
			return repaired, err
		}
		found, err := scan(f.path, text, j.identity, h.visit)
		if err != nil {
			return repaired, err
		}
		for _, d := range found.damaged {
			repaired = true
			j.files.damaged++
			j.files.damagedBytes += uint64(d.Bytes)
			j.cfg.Log.Error("a part of the journal cannot be read", zap.String("action", "journal_damaged"), zap.String("file", d.Path),
				zap.Int64("offset", d.Offset), zap.Int64("bytes", d.Bytes))
		}
		if found.tail > 0 {
			if last {
				err = j.dropTail(f.path, found.end)
			}
			j.cfg.Log.Warn("the journal ends with a record that was not complete", zap.String("action", "journal_tail_cut"),
				zap.String("file", f.path), zap.Int64("offset", found.end), zap.Int64("bytes", found.tail))
			if err != nil {
				return repaired, err
			}
		}
	}
	j.cfg.Log.Info("journal read", zap.String("dir", j.cfg.Dir), zap.Uint64("records", h.Last), zap.Uint64("lost_records", h.Lost),
		zap.Uint64("objects", h.Catalog.Stats().Keys), zap.Int("dropped_objects", len(h.Dropped)), zap.Duration("took", time.Since(began)))
	return repaired || h.repaired, nil
}

// unborn tells whether the making of the very first file was cut off, before there was even a header in it.
func unborn(l listing) bool {
	if len(l.snapshots) > 0 || len(l.journals) != 1 || l.journals[0].number != 1 {
		return false
	}
	if _, err := readHead(l.journals[0].path, kindJournal); err == nil {
		return false // as nearly always
	}
	text, err := readText(l.journals[0].path)
	return err == nil && isZero(text)
}

// identify reads which journal the files are of: the first that tells.
func (j *Journal) identify(l listing) error {
	var reasons error
	for _, set := range []struct {
		files []numbered
		kind  uint32
	}{{l.snapshots, kindSnapshot}, {l.journals, kindJournal}} {
		for i := len(set.files) - 1; i >= 0; i-- {
			head, err := readHead(set.files[i].path, set.kind)
			if err == nil {
				j.identity = head.identity
				return nil
			}
			reasons = errors.Join(reasons, err)
		}
	}
	return reasons
}

func readHead(path string, kind uint32) (h fileHeader, err error) {
	f, err := os.Open(path)
	if err != nil {
		return h, err
	}
	defer f.Close()
	b := make([]byte, fileHeaderBytes)
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return h, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if h, err = parseFileHeader(b, kind); err != nil {
		return h, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	return h, nil
}

// dropTail takes the incomplete end off a file for good: it must not look like damage once others follow. A file of
// which nothing is left goes.
func (j *Journal) dropTail(path string, end int64) error {
	if end <= fileHeaderBytes {
		return errors.Join(j.cfg.disk.remove(path), j.cfg.disk.syncDir(j.cfg.Dir))
	}
	return j.cfg.disk.truncate(path, end)
}

// putAside renames files so that they are not read again. They are left for whoever wants to look into them.
func (j *Journal) putAside(l listing) error {
	stamp := time.Now().UTC().Format("20060102T150405.000Z-")
	var err error
	for _, f := range append(l.journals, l.snapshots...) {
		err = errors.Join(err, j.cfg.disk.rename(f.path, filepath.Join(j.cfg.Dir, asidePrefix+stamp+filepath.Base(f.path))))
	}
	return errors.Join(err, j.cfg.disk.syncDir(j.cfg.Dir))
}

// StartTime gives the time from which a leader of this history may count: what its clock shows, but not before anything in
// the history.
func (h *History) StartTime(now catalog.Time) catalog.Time { return max(now, h.Time+1) }
