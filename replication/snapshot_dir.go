package replication

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// snapshotDir keeps snapshots that are too large for etcd: one file each, under its id, complete or not there.
type snapshotDir struct {
	path string
	lock *os.File
}

// snapshotID is what an id looks like; it becomes the name of a file.
var snapshotID = regexp.MustCompile(`^[0-9a-f]{16}-[0-9a-f]{1,16}-[0-9a-f]{8}$`)

// openSnapshotDir takes a directory for this process alone.
func openSnapshotDir(path string) (*snapshotDir, error) {
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	d := &snapshotDir{path, lock}
	parts, err := filepath.Glob(filepath.Join(path, "*"+partSuffix))
	for _, part := range parts { // an earlier process did not come to its end
		err = errors.Join(err, os.Remove(part))
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

func (d *snapshotDir) close() error {
	if d == nil {
		return nil
	}
	return d.lock.Close()
}

func (d *snapshotDir) file(id string) string { return filepath.Join(d.path, snapshotPrefix+id) }

// keep writes a snapshot down, reads it back, and lets it have its name.
func (d *snapshotDir) keep(p pointer, text []byte) error {
	if err := p.matches(text); err != nil {
		return err
	}
	part := d.file(p.ID) + partSuffix
	err := writeFile(part, text)
	if err == nil {
		var back []byte
		if back, err = os.ReadFile(part); err == nil {
			err = p.matches(back)
		}
	}
	if err == nil {
		err = os.Rename(part, d.file(p.ID))
	}
	if err != nil {
		_ = os.Remove(part) // the error that led here is the one that counts
		return err
	}
	return syncDir(d.path)
}

func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// text reads a snapshot that is kept.
func (d *snapshotDir) text(p pointer) ([]byte, error) {
	text, err := os.ReadFile(d.file(p.ID))
	if err != nil {
		return nil, err
	}
	if err := p.matches(text); err != nil {
		return nil, fmt.Errorf("%s: %w", d.file(p.ID), err)
	}
	return text, nil
}

// ids lists the snapshots that are kept.
func (d *snapshotDir) ids() (ids []string, err error) {
	entries, err := os.ReadDir(d.path)
	for _, e := range entries {
		if id, ok := strings.CutPrefix(e.Name(), snapshotPrefix); ok && snapshotID.MatchString(id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// prune deletes all snapshots but one.
func (d *snapshotDir) prune(keep string) error {
	ids, err := d.ids()
	for _, id := range ids {
		if id != keep {
			err = errors.Join(err, os.Remove(d.file(id)))
		}
	}
	return err
}

// matches tells whether a text is the snapshot.
func (p pointer) matches(text []byte) error {
	if int64(len(text)) != p.Bytes {
		return fmt.Errorf("it has %d bytes and not %d", len(text), p.Bytes)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != p.SHA256 {
		return fmt.Errorf("its SHA-256 is not %s", p.SHA256)
	}
	return nil
}
