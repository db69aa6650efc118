package replication

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// Sync says when the journal asks the disk to keep what was written.
type Sync string

// The ways to sync.
const (
	// SyncAlways before anything is reported durable: nothing acknowledged is lost when the machine loses its power.
	SyncAlways Sync = "always"
	// SyncInterval once per Config.SyncEvery: a crash of the process loses nothing, one of the machine up to that much.
	SyncInterval Sync = "interval"
	// SyncNever leaves it to the system.
	SyncNever Sync = "never"
)

// Config says where a journal lies and how it is kept. The caller does not change it afterwards.
type Config struct {
	Dir       string
	Sync      Sync
	SyncEvery time.Duration // of SyncInterval
	// FileBytes is the size at which the next file is begun. 0 means limits.LogFileBytes.
	FileBytes int64
	// SnapshotBytes is how much may be written since the last snapshot before the next is made. 0 means
	// limits.LogSnapshotBytes.
	SnapshotBytes int64
	// ForceEmpty begins anew, whatever there is: damaged files are put aside, none is deleted.
	ForceEmpty bool
	// Catalog is what the catalogs of the history are made with.
	Catalog catalog.Config
	Log     *zap.Logger
	disk    disk // nil: the machine's
}

// ErrFailed is what everybody is told after the journal could not be written.
var ErrFailed = errors.New("the journal cannot be written")

// Journal is a log in files of one directory.
type Journal struct {
	core
	cfg      Config
	identity uint64
	lock     *os.File
	out      out       // the file being written; used by Run only
	lately   []granted // grants of the records just written; used by Run only
	snapshot snapshotState
	files    fileCounters
}

// granted are the grants of one record.
type granted struct {
	number uint64
	end    int64 // of the record, in bytes of journal written so far
	grants []Grant
}

// out is the file that records go to.
type out struct {
	file  diskFile
	path  string
	first uint64
	at    int64 // where the next record goes
	dirty bool  // written to since the last sync
	total int64 // bytes of records written by this process
	count *fileCounters
}

// Run writes what is appended until ctx ends; then it writes what is left and returns. An error means that the journal
// failed. It must be called once, and Close after it.
func (j *Journal) Run(ctx context.Context) error {
	var snapshots sync.WaitGroup
	defer snapshots.Wait()
	making, stopMaking := context.WithCancel(ctx)
	defer stopMaking()
	var tick <-chan time.Time
	if j.cfg.Sync == SyncInterval {
		ticker := time.NewTicker(j.cfg.SyncEvery)
		defer ticker.Stop()
		tick = ticker.C
	}
	var lazy <-chan time.Time
	for {
		due, stop := false, false
		select {
		case <-j.stir:
			if lazy == nil {
				lazy = lazily()
			}
			continue
		case <-lazy:
		case <-j.wake:
		case <-tick:
			due = true
		case <-ctx.Done():
			stop = true
		}
		lazy = nil
		err := j.writeOpen()
		if err == nil && (due || stop) {
			err = j.out.sync()
		}
		if err != nil {
			return j.fail(err)
		}
		if stop {
			return j.fail(nil)
		}
		if err := j.maybeSnapshot(making, &snapshots); err != nil {
			return j.fail(err)
		}
	}
}

// writeOpen writes the record that is being collected, if it holds anything.
func (j *Journal) writeOpen() error {
	b := j.take()
	if b == nil {
		return nil
	}
	began := time.Now()
	record := b.seal(j.identity)
	if err := j.write(record); err != nil {
		return err
	}
	j.stats.wrote(len(record), time.Since(began))
	j.lately = noted(j.lately, b.number, j.out.total, b.granted)
	j.done(b)
	return nil
}

// write puts a record at the end of the file, or of a new one when that is full.
func (j *Journal) write(record []byte) error {
	if j.out.at > fileHeaderBytes && j.out.at+int64(len(record)) > j.cfg.FileBytes {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	return j.out.write(record, j.cfg.Sync == SyncAlways)
}

// noted adds the grants of a record that ends at a place, and forgets those that no following record has to repeat.
func noted(lately []granted, number uint64, end int64, grants []Grant) []granted {
	lately = append(lately, granted{number, end, append([]Grant(nil), grants...)})
	for len(lately) > 1 && (lately[0].end < end-limits.LogEchoBytes || len(lately) > limits.LogEchoRecords) {
		lately = lately[1:]
	}
	return lately
}

// grantsBefore gives what the record after that of a number repeats: its grants, and those of what was written just
// before it.
func (j *Journal) grantsBefore(number uint64, own []Grant) (since uint64, grants []Grant) {
	since = number
	for i := len(j.lately) - 1; i >= 0; i-- {
		if l := j.lately[i]; l.end > j.out.total-limits.LogEchoBytes {
			since = l.number
			grants = append(grants, l.grants...)
		}
	}
	return since, append(grants, own...)
}

// rotate begins the next file.
func (j *Journal) rotate() error {
	j.mu.Lock()
	next := j.durable.Load() + 1
	j.mu.Unlock()
	if err := j.out.close(); err != nil {
		return err
	}
	return j.begin(next)
}

// begin makes the file for the records from a number on and makes sure that it is found after a crash.
func (j *Journal) begin(first uint64) error {
	path := filepath.Join(j.cfg.Dir, journalName(first))
	file, err := j.cfg.disk.create(path)
	if err != nil {
		return err
	}
	o := out{file: file, path: path, first: first, total: j.out.total, count: &j.files}
	if err = file.reserve(j.cfg.FileBytes); err == nil {
		h := fileHeader{kind: kindJournal, identity: j.identity, first: first}
		err = o.write(h.append(nil), true)
		o.total -= int64(fileHeaderBytes)
	}
	if err == nil {
		err = j.cfg.disk.syncDir(j.cfg.Dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	j.out = o
	j.stats.files.Add(1)
	return nil
}

// fail ends the life of the journal. Without an error it was ended on purpose.
func (j *Journal) fail(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
		j.cfg.Log.Error("the journal cannot be written: nothing is acknowledged any more", zap.String("action", "journal_failed"),
			zap.String("dir", j.cfg.Dir), zap.Error(err))
	}
	return j.end(err)
}

// Close gives the files back. Run must have returned, or never been called.
func (j *Journal) Close() error {
	return errors.Join(j.out.close(), j.lock.Close())
}

func (o *out) write(record []byte, sync bool) error {
	if _, err := o.file.WriteAt(record, o.at); err != nil {
		return err
	}
	o.at += int64(len(record))
	o.total += int64(len(record))
	if !sync {
		o.dirty = true
		return nil
	}
	o.dirty = true
	return o.sync()
}

func (o *out) sync() error {
	if !o.dirty {
		return nil
	}
	began := time.Now()
	if err := o.file.sync(); err != nil {
		return err
	}
	o.count.synced(time.Since(began))
	o.dirty = false
	return nil
}

func (o *out) close() error {
	if o.file == nil {
		return nil
	}
	err := errors.Join(o.sync(), o.file.Close())
	o.file = nil
	return err
}
