package kvevents

import (
	"encoding/binary"
)

// A Kind says what happened.
type Kind uint8

// The kinds of events.
const (
	Stored  Kind = iota + 1 // an object can be read
	Removed                 // it is gone
	Cleared                 // everything is, or whatever was known is not sure any more
)

// An Event is about one object, or with Cleared about all.
type Event struct {
	Kind   Kind
	Tenant string
	Medium string // "cpu" or "disk"
	Key    string
	Group  string // "" is none
}

// Options are what is the same in all events.
type Options struct {
	BackendID      string
	ModelName      string // "" is not known, as for the others
	AdditionalSalt string
	LoraName       string
	BlockSize      uint32 // 0 is not known
	DPRank         uint32
	Legacy         bool // add the fields of older consumers
	ObjectKey      bool // add the object's key; events of objects are left out without it, since nothing else names them
}

var kinds = map[Kind][2]string{Stored: {"stored", "BlockStored"}, Removed: {"removed", "BlockRemoved"}, Cleared: {"cleared", "AllBlocksCleared"}}

// packer writes MessagePack.
type packer []byte

func (p *packer) text(s string) {
	switch n := len(s); {
	case n < 32:
		*p = append(*p, 0xa0|byte(n))
	case n < 1<<8:
		*p = append(*p, 0xd9, byte(n))
	case n < 1<<16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xda), uint16(n))
	default:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xdb), uint32(n))
	}
	*p = append(*p, s...)
}

func (p *packer) number(n uint64) {
	switch {
	case n < 1<<7:
		*p = append(*p, byte(n))
	case n < 1<<8:
		*p = append(*p, 0xcc, byte(n))
	case n < 1<<16:
		*p = binary.BigEndian.AppendUint16(append(*p, 0xcd), uint16(n))
	case n < 1<<32:
		*p = binary.BigEndian.AppendUint32(append(*p, 0xce), uint32(n))
	default:
		*p = binary.BigEndian.AppendUint64(append(*p, 0xcf), n)
	}
}

func (p *packer) null() { *p = append(*p, 0xc0) }

func (p *packer) list(n int) {
	if n < 16 {
		*p = append(*p, 0x90|byte(n))
		return
	}
	*p = binary.BigEndian.AppendUint16(append(*p, 0xdc), uint16(n))
}

func (p *packer) pairs(n int) {
	if n < 16 {
		*p = append(*p, 0x80|byte(n))
		return
	}
	*p = binary.BigEndian.AppendUint16(append(*p, 0xde), uint16(n))
}

// orNull writes a text, or nothing for "".
func (p *packer) orNull(s string) {
	if s == "" {
		p.null()
		return
	}
	p.text(s)
}

// appendEvent writes an event in the order of fields in which 0.3.14 has them; the epoch comes last.
func appendEvent(dst []byte, o *Options, e *Event, id, nowMs, epoch uint64) []byte {
	p := packer(dst)
	object := e.Kind != Cleared
	p.pairs(o.fields(e.Kind))
	p.text("event_id")
	p.number(id)
	p.text("timestamp")
	p.number(nowMs)
	p.text("event_type")
	p.text(kinds[e.Kind][0])
	if o.Legacy {
		p.text("type")
		p.text(kinds[e.Kind][1])
	}
	p.text("model_name")
	p.orNull(o.ModelName)
	p.text("block_size")
	if o.BlockSize == 0 {
		p.null()
	} else {
		p.number(uint64(o.BlockSize))
	}
	for _, f := range [...][2]string{{"additional_salt", o.AdditionalSalt}, {"lora_name", o.LoraName}, {"tenant_id", e.Tenant}, {"backend_id", o.BackendID}, {"medium", e.Medium}} {
		p.text(f[0])
		p.orNull(f[1])
	}
	p.text("dp_rank")
	p.number(uint64(o.DPRank))
	if object {
		o.appendObject(&p, e)
	}
	p.text("leader_epoch")
	p.number(epoch)
	return p
}

// appendObject writes what only events about one object have. Keys are names here, not hashes of tokens, so there are none.
func (o *Options) appendObject(p *packer, e *Event) {
	p.text("group_id")
	p.orNull(e.Group)
	p.text("object_key")
	p.text(e.Key)
	p.text("seq_hashes")
	p.list(0)
	if o.Legacy {
		p.text("block_hashes")
		p.list(0)
	}
	unknown := []string{"base_block_idx"}
	if e.Kind == Stored {
		unknown = []string{"session_id", "base_block_idx", "parent_hash", "token_ids"}
		if o.Legacy {
			unknown = append(unknown, "parent_block_hash")
		}
	}
	for _, name := range unknown {
		p.text(name)
		p.null()
	}
}

// fields counts the fields of an event.
func (o *Options) fields(k Kind) int {
	n := map[Kind]int{Stored: 19, Removed: 16, Cleared: 12}[k]
	if o.Legacy {
		n += map[Kind]int{Stored: 3, Removed: 2, Cleared: 1}[k]
	}
	return n
}

// appendPayload writes the last frame of a message; the ids of its events follow upon first.
func appendPayload(dst []byte, o *Options, events []Event, first, nowMs, epoch uint64) []byte {
	p := packer(dst)
	p.list(3)
	p = binary.BigEndian.AppendUint64(append(p, 0xcf), nowMs)
	p.list(len(events))
	for i := range events {
		p = appendEvent(p, o, &events[i], first+uint64(i), nowMs, epoch)
	}
	p.number(uint64(o.DPRank))
	return p
}
