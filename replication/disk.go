package replication

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// disk is all that a journal changes files with. The machine's is osDisk; tests have one that loses what a loss of power
// loses.
type disk interface {
	// create makes a file, or empties it.
	create(path string) (diskFile, error)
	rename(from, to string) error
	remove(path string) error
	// truncate cuts a file and makes that durable.
	truncate(path string, size int64) error
	// syncDir makes the names in a directory durable.
	syncDir(dir string) error
}

// diskFile is a file that is written.
type diskFile interface {
	io.Writer
	io.WriterAt
	io.Closer
	// reserve allocates a size, so that writing to the file changes no length. A file system that cannot is written to all
	// the same.
	reserve(bytes int64) error
	// sync makes what was written durable.
	sync() error
}

type osDisk struct{}

type osFile struct{ *os.File }

func (osDisk) create(path string) (diskFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }
func (osDisk) syncDir(dir string) error     { return syncDir(dir) }

func (osDisk) truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

func (f osFile) reserve(bytes int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if err == nil || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return fmt.Errorf("reserve %d bytes: %w", bytes, err)
}

func (f osFile) sync() error {
	if err := unix.Fdatasync(int(f.Fd())); err != nil {
		return fmt.Errorf("%s: fdatasync: %w", f.Name(), err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
