package replication

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// SavedHistory is a snapshot that was read from a file, every record of it.
type SavedHistory struct {
	Saved
	History *History
	path    string
}

// Close frees the history.
func (s *SavedHistory) Close() { s.History.Catalog.Close() }

// OpenSaved reads a file that Save wrote. One that is cut off or changed is refused: every record has a checksum, and the last
// one counts them.
func OpenSaved(path string) (*SavedHistory, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	head, err := parseFileHeader(text, kindSnapshot)
	if err != nil {
		return nil, fmt.Errorf("%s is no snapshot: %w", path, err)
	}
	h := newHistory(catalog.Config{}, zap.NewNop())
	if err := h.decode(path, head, text); err != nil || len(text)%recordAlign != 0 {
		h.Catalog.Close()
		return nil, fmt.Errorf("%s is cut off or damaged, or a later version wrote it", path)
	}
	sum := sha256.Sum256(text)
	return &SavedHistory{
		Saved:   Saved{Last: h.Last, Time: h.Time, Objects: h.Catalog.Stats().Keys, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:])},
		History: h, path: path,
	}, nil
}

// EmptyDir tells why a directory is not one that a master may begin in: it does not exist, or nothing is in it.
func EmptyDir(dir string) error {
	found, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(found) > 0:
		return fmt.Errorf("%s is not empty: %s is in it", dir, found[0].Name())
	}
	return nil
}

// RestoreDir makes a directory that a master begins with from a snapshot. The journal that begins there is another than the one
// that the snapshot is of: their files do not fit together.
func (s *SavedHistory) RestoreDir(ctx context.Context, dir string) (err error) {
	if err := EmptyDir(dir); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	path := filepath.Join(dir, snapshotName(s.Last))
	part := path + partSuffix
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, limits.LogSnapshotBufferBytes)
	_, err = s.History.encode(ctx, out, binary.LittleEndian.Uint64(b[:]))
	if err = errors.Join(err, out.Flush(), file.Sync(), file.Close()); err == nil {
		var back *SavedHistory
		if back, err = OpenSaved(part); err == nil {
			err = s.History.census().same(back.History, part)
			back.Close()
		}
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return syncDir(dir)
}

// errTaken says that a cluster has something in etcd already.
var errTaken = errors.New("the cluster is not empty: a snapshot is restored only where nothing is")

// EmptyCluster tells why a cluster in etcd is not one that masters may begin with.
func EmptyCluster(ctx context.Context, etcd Store, cluster string) error {
	keys := keysOf(cluster)
	leader, _, _, err := etcd.Range(ctx, keys.leader, keys.leader+"\x00", etcdkv.Page{})
	if err != nil {
		return err
	}
	if len(leader) > 0 {
		return fmt.Errorf("%w: %s leads it", errTaken, leader[0].Value)
	}
	found, _, _, err := etcd.Range(ctx, keys.prefix, end(keys.prefix), etcdkv.Page{Limit: 1, KeysOnly: true})
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s", errTaken, found[0].Key)
	}
	return err
}

// RestoreEtcd puts a snapshot into etcd as what the masters of a cluster begin with. None of them may run: should one begin
// meanwhile nothing of the snapshot counts.
func (s *SavedHistory) RestoreEtcd(ctx context.Context, etcd Store, cluster string) error {
	if err := EmptyCluster(ctx, etcd, cluster); err != nil {
		return err
	}
	sh := &shelf{etcd: etcd, keys: keysOf(cluster), cluster: cluster, log: zap.NewNop(), rare: zap.NewNop()}
	var out bytes.Buffer
	if _, err := s.History.encode(ctx, &out, s.Last); err != nil {
		return err
	}
	text := packSnapshot(out.Bytes())
	parts := (len(text) + limits.LogPartBytes - 1) / limits.LogPartBytes
	if parts > limits.LogParts {
		return fmt.Errorf("%s takes %d bytes in etcd, and %d is all that it is asked to keep", s.path, len(text), limits.LogParts*limits.LogPartBytes)
	}
	sum := sha256.Sum256(text)
	p := pointer{
		ID:   fmt.Sprintf("%016x-%x-%08x", s.Last, 0, crc32.ChecksumIEEE([]byte(s.SHA256))),
		Last: s.Last, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Parts: parts,
	}
	nobody := etcdkv.Condition{Key: sh.keys.leader} // that nobody leads
	back, err := []byte(nil), sh.putParts(ctx, nobody, p, text)
	if err == nil {
		back, err = sh.joinParts(ctx, p)
	}
	if err == nil {
		got := newHistory(catalog.Config{}, zap.NewNop())
		if err = got.decodeSnapshot("snapshot "+p.ID, back); err == nil {
			err = s.History.census().same(got, "snapshot "+p.ID)
		}
		got.Catalog.Close()
	}
	if err == nil {
		err = sh.publishFirst(ctx, p)
	}
	if errors.Is(err, ErrDeposed) {
		err = fmt.Errorf("%w: a master began meanwhile", errTaken)
	}
	if err != nil {
		_, dropErr := etcd.Txn(ctx, nil, []etcdkv.Op{etcdkv.DeleteRange(sh.keys.partsOf(p.ID), end(sh.keys.partsOf(p.ID)))}, nil)
		return errors.Join(err, dropErr)
	}
	return nil
}

// publishFirst lets a snapshot count where none does and nobody leads.
func (s *shelf) publishFirst(ctx context.Context, p pointer) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	out, err := s.etcd.Txn(ctx, []etcdkv.Condition{{Key: s.keys.leader}, {Key: s.keys.current()}},
		[]etcdkv.Op{etcdkv.Put(s.keys.current(), value, 0)}, []etcdkv.Op{etcdkv.Get(s.keys.current())})
	switch {
	case err != nil:
		return err
	case out.Done, len(out.Got) == 1 && len(out.Got[0]) == 1 && bytes.Equal(out.Got[0][0].Value, value): // an attempt without an answer did it
		return nil
	}
	return ErrDeposed
}
