package catalog

// Tuning are the settings that may change while a catalog is used. Those of leases and of silent clients are none: what was
// handed out is judged by them.
type Tuning struct {
	EvictionRatio        float64
	HighWatermark        float64
	AllowEvictSoftPinned bool
	SoftPinMs            int64
}

// Retune takes other settings from now on.
func (c *Catalog) Retune(t Tuning) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg.EvictionRatio, c.cfg.HighWatermark = t.EvictionRatio, t.HighWatermark
	c.cfg.AllowEvictSoftPinned, c.cfg.SoftPinMs = t.AllowEvictSoftPinned, t.SoftPinMs
}
