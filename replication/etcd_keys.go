package replication

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"mooncake/internal/etcdkv"
)

// Everything of a cluster lies under one prefix:
//
//	log/<16 hex n>                 record n
//	roll/<16 hex first>-<16 hex n> the records of that span
//	snap/current                   which snapshot counts
//	part/<id>/<8 hex>              its parts
//	member/<id>                    a master that lives
//
// The leader's key lies where the published clients look for it, and has no more than their format in it.
type keyspace struct {
	prefix string
	leader string
}

func keysOf(cluster string) keyspace {
	cluster = strings.TrimRight(cluster, "/")
	return keyspace{prefix: "/mooncake-go/" + cluster + "/", leader: "mooncake-store/" + cluster + "/master_view"}
}

func (k keyspace) logs() string            { return k.prefix + "log/" }
func (k keyspace) log(n uint64) string     { return fmt.Sprintf("%slog/%016x", k.prefix, n) }
func (k keyspace) rolls() string           { return k.prefix + "roll/" }
func (k keyspace) current() string         { return k.prefix + "snap/current" }
func (k keyspace) parts() string           { return k.prefix + "part/" }
func (k keyspace) partsOf(s string) string { return k.prefix + "part/" + s + "/" }

func (k keyspace) part(id string, n int) string { return fmt.Sprintf("%s%08x", k.partsOf(id), n) }

func (k keyspace) roll(first, last uint64) string {
	return fmt.Sprintf("%sroll/%016x-%016x", k.prefix, first, last)
}

func end(prefix string) string { return etcdkv.PrefixEnd(prefix) }

// logNumber reads the number of a record from its key.
func (k keyspace) logNumber(key string) (n uint64, ok bool) {
	text, ok := strings.CutPrefix(key, k.logs())
	n, err := strconv.ParseUint(text, 16, 64)
	return n, ok && err == nil && len(text) == 16
}

// rollSpan reads which records a key has.
func (k keyspace) rollSpan(key string) (first, last uint64, ok bool) {
	text, ok := strings.CutPrefix(key, k.rolls())
	a, b, cut := strings.Cut(text, "-")
	first, errA := strconv.ParseUint(a, 16, 64)
	last, errB := strconv.ParseUint(b, 16, 64)
	return first, last, ok && cut && errA == nil && errB == nil && len(a) == 16 && len(b) == 16 && first <= last
}

// records visits the records of a value.
func records(key string, value []byte, visit func(h *header, payload []byte) error) error {
	text, err := unpackValue(value)
	if err != nil {
		return fmt.Errorf("etcd key %s: %w", key, err)
	}
	for at := 0; at < len(text); {
		h, ok := readHeader(text[at:])
		if !ok || len(text)-at-headerBytes < int(h.length) {
			return fmt.Errorf("etcd key %s: byte %d of its value is no record: %w", key, at, errDamaged)
		}
		payload := text[at+headerBytes : at+headerBytes+int(h.length)]
		if crc32.Checksum(payload, castagnoli) != h.sum {
			return fmt.Errorf("etcd key %s: the checksum of record %d is wrong: %w", key, h.number, errDamaged)
		}
		if err := visit(&h, payload); err != nil {
			return fmt.Errorf("etcd key %s: record %d: %w", key, h.number, err)
		}
		at += padded(h.length)
	}
	return nil
}

// pointer is the value of snap/current.
type pointer struct {
	ID     string `json:"id"`
	Last   uint64 `json:"last"` // number of the last record in it
	Parts  int    `json:"parts"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Place  string `json:"place,omitempty"` // empty: in etcd, in parts
}

// placeMembers is the place of a snapshot that is too large for etcd: members keep it in their directories.
const placeMembers = "members"

func parsePointer(value []byte) (p pointer, err error) {
	if err = json.Unmarshal(value, &p); err == nil {
		err = p.check()
	}
	if err != nil {
		return p, fmt.Errorf("etcd key snap/current: it is %.200q: %w", value, err)
	}
	return p, nil
}

// check refuses what is no snapshot.
func (p pointer) check() error {
	switch {
	case p.Place != "" && p.Place != placeMembers:
		return fmt.Errorf("the place %q is not known: a later version wrote it", p.Place)
	case p.ID == "" || p.Bytes <= 0 || p.Parts < 0 || (p.Parts == 0) != (p.Place == placeMembers):
		return errors.New("that is no snapshot")
	case p.Place == placeMembers && !snapshotID.MatchString(p.ID):
		return errors.New("that is no id of a snapshot")
	}
	return nil
}
