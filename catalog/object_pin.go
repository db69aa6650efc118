package catalog

import "mooncake/internal/limits"

// SoftPin gives a readable object a soft pin from now on, in place of any that it has; with a life of 0 the object has none
// any more. A write under way keeps it and what it asked for itself: that counts when it completes. What lies on disk only
// cannot be pinned: ErrReplicaNotFound.
func (c *Catalog) SoftPin(now Time, key string, ttlMs int64) error {
	if key == "" || len(key) > limits.KeyBytesMax || ttlMs < 0 || ttlMs > c.cfg.MaxSoftPinMs {
		return ErrInvalidParams
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.s.lookup(key)
	if err := c.present(n); err != nil {
		if !c.hidden(n) && c.readableOnDisk(key) {
			err = ErrReplicaNotFound
		}
		return err
	}
	if ttlMs == 0 && c.s.record(n).marks&markSoftPin == 0 {
		return nil
	}
	c.begin()
	ch := c.note(ChangePin, now)
	ch.Key = key
	if ttlMs > 0 {
		ch.PinnedUntil = now + Time(ttlMs)
	}
	c.commit()
	return nil
}

// present tells whether a record can be read, or could be if all that is decided were durable.
func (c *Catalog) present(n name) error {
	if n == 0 {
		return ErrObjectNotFound
	}
	if err := c.hiddenBy(c.s.record(n).flags &^ flagFresh); err != nil {
		return err
	}
	_, err := c.bestStage(n, *c.s.segments.shared.Load())
	return err
}

// applyPin gives an object another soft pin, or none.
func (s *state) applyPin(c *Change) {
	n := s.lookup(c.Key)
	if n == 0 {
		return
	}
	s.setPin(n, c.PinnedUntil)
	s.settle(n)
}
