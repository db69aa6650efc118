package replication

import (
	"encoding/binary"

	"mooncake/catalog"
)

// The rules of workloads and what bundles have been through, which few Changes carry.

func appendWorkloads(dst []byte, list []catalog.Workload) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for i := range list {
		w := &list[i]
		dst = appendTexts(appendText(dst, w.Name), w.Prefixes)
		dst = appendTexts(dst, w.Tenants)
		for _, n := range [...]uint64{w.SoftBytes, w.HardBytes, w.ReservedBytes} {
			dst = binary.AppendUvarint(dst, n)
		}
		dst = append(dst, byte(w.Evict), byte(w.Unread))
		dst = binary.AppendVarint(dst, w.TTLMs)
		dst = binary.AppendVarint(dst, int64(w.Priority))
	}
	return dst
}

func appendTexts(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, text := range list {
		dst = appendText(dst, text)
	}
	return dst
}

// appendBundle writes a bundle's times as differences to the base time, like those of a Change.
func appendBundle(dst []byte, base catalog.Time, b *catalog.BundleChange) []byte {
	for _, at := range [...]catalog.Time{b.Created, b.LastWrite, b.Published, b.Touched} {
		dst = binary.AppendVarint(dst, int64(at)-int64(base))
	}
	dst = binary.AppendUvarint(dst, uint64(b.Reads))
	dst = binary.AppendUvarint(dst, uint64(b.Lost))
	return append(dst, b.Facts, b.Copies)
}

func (r *reader) workloads() (list []catalog.Workload) {
	const shortest = 10
	for n := r.count(shortest); n > 0; n-- {
		w := catalog.Workload{Name: r.text(), Prefixes: r.texts(), Tenants: r.texts()}
		w.SoftBytes, w.HardBytes, w.ReservedBytes = r.uvarint(), r.uvarint(), r.uvarint()
		w.Evict, w.Unread = catalog.EvictKind(r.byte()), catalog.UnreadKind(r.byte())
		w.TTLMs, w.Priority = r.varint(), int(r.varint())
		list = append(list, w)
	}
	return list
}

func (r *reader) texts() (list []string) {
	for n := r.count(1); n > 0; n-- {
		list = append(list, r.text())
	}
	return list
}

// count reads the length of a list and holds it against what is left of the entry.
func (r *reader) count(shortest int) uint64 {
	n := r.uvarint()
	if n > uint64(len(r.in)/shortest) {
		r.fail(errShort)
		return 0
	}
	return n
}

func (r *reader) bundle(base catalog.Time) *catalog.BundleChange {
	b := new(catalog.BundleChange)
	for _, at := range [...]*catalog.Time{&b.Created, &b.LastWrite, &b.Published, &b.Touched} {
		*at = catalog.Time(r.varint() + int64(base))
	}
	b.Reads, b.Lost = uint32(r.uvarint()), uint32(r.uvarint())
	b.Facts, b.Copies = r.byte(), r.byte()
	return b
}
