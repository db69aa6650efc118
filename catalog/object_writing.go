package catalog

import "slices"

// WrittenTo appends to dst the clients on whose segments an unfinished write of this writer lies, each once: those to
// look after when the writer gives up.
func (c *Catalog) WrittenTo(writer UUID, key string, dst []UUID) []UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _, err := c.written(writer, key)
	if err != nil || !c.s.record(n).isOpen() {
		return dst
	}
	for rn := n; rn != 0; {
		rep := c.s.replica(rn)
		rn = rep.more
		if owner := c.s.segments.list[rep.segment].info.Client; !slices.Contains(dst, owner) {
			dst = append(dst, owner)
		}
	}
	return dst
}
