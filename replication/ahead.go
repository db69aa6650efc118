package replication

import (
	"errors"
	"fmt"

	"mooncake/catalog"
	"mooncake/internal/etcdkv"
	"mooncake/internal/limits"
)

// errQuit ends the reading of what nobody takes any more.
var errQuit = errors.New("it is not taken any more")

// parsedRecord is a record that was read and is to be applied.
type parsedRecord struct {
	entry  Entry
	length uint32
	grants []Grant
}

func parse(head *header, payload []byte, room []catalog.Change) (p parsedRecord, err error) {
	p.length = head.length
	if p.entry, err = parseInto(head, payload, room); err != nil {
		return p, err
	}
	for i := range p.entry.Changes {
		p.grants = grantsOf(p.grants, &p.entry.Changes[i])
	}
	return p, nil
}

// applyParsed applies a record.
func (h *History) applyParsed(p *parsedRecord) error {
	h.gentle.rest()
	if err := h.apply(&p.entry); err != nil {
		return err
	}
	h.bytes += int64(padded(p.length))
	h.lately = noted(h.lately, p.entry.Number, h.bytes, p.grants)
	return nil
}

// ahead reads records on a goroutine of its own, unpacking and parsing them, while those before are taken: each half takes
// about as long as the other. read passes every record to visit, whose error ends it. The first error in the order of the
// records counts.
func (h *History) ahead(read func(visit func(*header, []byte) error) error, take func(p *parsedRecord) error) error {
	parsed := make(chan parsedRecord, limits.LogAhead)
	used := make(chan []catalog.Change, limits.LogAhead)
	quit, ended := make(chan struct{}), make(chan error, 1)
	reading := gentle{on: h.gentle.on}
	go func() {
		defer close(parsed)
		ended <- read(func(head *header, payload []byte) error {
			reading.rest()
			var room []catalog.Change
			select {
			case room = <-used:
			default:
			}
			p, err := parse(head, payload, room)
			if err != nil {
				return err
			}
			select {
			case parsed <- p:
				return nil
			case <-quit:
				return errQuit
			}
		})
	}()
	var err error
	for p := range parsed {
		if err != nil {
			continue // until the other has noticed
		}
		if err = take(&p); err != nil {
			close(quit)
			continue
		}
		clear(p.entry.Changes)
		select {
		case used <- p.entry.Changes:
		default:
		}
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// takeAll applies the records of values, in the order of their numbers, that the history does not have.
func (s *shelf) takeAll(h *History, values []etcdkv.KV) error {
	has := h.Last
	return h.ahead(func(visit func(*header, []byte) error) error {
		for _, kv := range values {
			if _, last, ok := s.keys.span(kv.Key); ok && last <= has {
				continue // whatever it has
			}
			if err := records(kv.Key, kv.Value, func(head *header, payload []byte) error {
				if head.number <= has {
					return nil
				}
				return visit(head, payload)
			}); err != nil {
				return err
			}
		}
		return nil
	}, func(p *parsedRecord) error {
		n := p.entry.Number
		switch {
		case n <= h.Last:
			return nil
		case n > h.Last+1:
			return fmt.Errorf("etcd: record %d: %d to %d: %w", n, h.Last+1, n-1, errHole)
		}
		if err := h.applyParsed(p); err != nil {
			return fmt.Errorf("etcd: record %d: %w", n, err)
		}
		if s.progress != nil {
			s.progress(n)
		}
		return nil
	})
}
