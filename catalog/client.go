package catalog

// A client that mounted a segment, as long as it is not expired. None of this is logged: a new leader asks every client
// to remount and gives it a full TTL for it.
type client struct {
	ok       bool // remounted since the leader first heard of it
	lastPing Time
	host     string
}

// touch restarts the TTL of a client, and makes it known.
func (c *Catalog) touch(now Time, id UUID) *client {
	cl := c.clients[id]
	if cl == nil {
		cl = &client{}
		c.clients[id] = cl
	}
	cl.lastPing = max(cl.lastPing, now)
	return cl
}

// Ping keeps a client alive. False asks it to remount all its segments.
func (c *Catalog) Ping(now Time, id UUID) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.clients[id]
	if cl == nil {
		return false
	}
	cl.lastPing = max(cl.lastPing, now)
	return cl.ok
}

// expire takes away the clients that were silent for longer than the TTL, with their segments. The segments' replicas
// are out of sight at once; tidy does the rest.
func (c *Catalog) expire(now Time, out *Swept) {
	ttl := Time(c.cfg.ClientTTLMs)
	if ttl == 0 {
		return
	}
	c.begin()
	for id, cl := range c.clients {
		if now-cl.lastPing <= ttl {
			continue
		}
		delete(c.clients, id)
		if cl.ok {
			c.active--
		}
		c.stats.ExpiredClients++
		out.ExpiredClients = append(out.ExpiredClients, id)
		for _, seg := range c.s.segments.byOwner[id] {
			out.LostSegments = append(out.LostSegments, seg.info)
			c.note(ChangeUnmount, now).Segment = &seg.info.Segment
		}
	}
	c.commit()
}

// KnowsClient tells whether the client mounted something and is not expired.
func (c *Catalog) KnowsClient(id UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[id] != nil
}

// ActiveClients lists the clients that completed a remount and are not expired, in no particular order.
func (c *Catalog) ActiveClients() []UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]UUID, 0, c.active)
	for id, cl := range c.clients {
		if cl.ok {
			ids = append(ids, id)
		}
	}
	return ids
}
