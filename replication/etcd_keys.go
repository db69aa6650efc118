package replication

import (
	"encoding/json"
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
			return fmt.Errorf("etcd key %s: byte %d of its value is no record", key, at)
		}
		payload := text[at+headerBytes : at+headerBytes+int(h.length)]
		if crc32.Checksum(payload, castagnoli) != h.sum {
			return fmt.Errorf("etcd key %s: the checksum of record %d is wrong", key, h.number)
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
}

func parsePointer(value []byte) (p pointer, err error) {
	if err = json.Unmarshal(value, &p); err == nil && (p.ID == "" || p.Parts <= 0) {
		err = fmt.Errorf("it is %q", value)
	}
	if err != nil {
		return p, fmt.Errorf("etcd key snap/current: %w", err)
	}
	return p, nil
}
