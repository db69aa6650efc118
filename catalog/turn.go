package catalog

// A Turn is the writer's lock, held for several decisions in a row: what they all look at stays near one processor, and nobody
// waits between two of them. Other writers wait until its End, so it is for a few dozen at most, and nothing else of the
// Catalog may be called by who has it.
type Turn struct{ c *Catalog }

// Turn waits for other writers and begins.
func (c *Catalog) Turn() Turn {
	c.mu.Lock()
	return Turn{c}
}

// End lets the next writer go on.
func (t Turn) End() {
	t.c.s.hashed.forget()
	t.c.mu.Unlock()
}
