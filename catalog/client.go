package catalog

// A client that mounted a segment, as long as it is not gone. None of this is logged: a new leader asks every client to
// remount and gives it its full time for it.
type client struct {
	ok       bool // remounted since the leader first heard of it
	stage    Stage
	reported bool // somebody saw that it does not answer
	lastPing Time
	lostAt   Time
	host     string
}

// touch notes a sign of life of a client, and makes it known. Whatever its stage was, it is active again.
func (c *Catalog) touch(now Time, id UUID) *client {
	cl := c.clients[id]
	if cl == nil {
		cl = &client{}
		c.clients[id] = cl
	}
	cl.lastPing, cl.reported = max(cl.lastPing, now), false
	if cl.stage >= StageSuspected {
		c.stats.RecoveredClients++
	}
	c.setStage(id, cl, StageActive)
	return cl
}

// Ping keeps a client alive. False asks it to remount all its segments.
func (c *Catalog) Ping(now Time, id UUID) (ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clients[id] == nil {
		return false
	}
	return c.touch(now, id).ok
}

// Suspect notes that a client did not answer a probe: it is StageSuspect until its next sign of life. It reports whether
// the client was active until now.
func (c *Catalog) Suspect(_ Time, id UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.clients[id]
	if cl == nil || cl.stage != StageActive || len(c.s.segments.byOwner[id]) == 0 {
		return false
	}
	cl.reported = true
	c.setStage(id, cl, StageSuspect)
	return true
}

// ClientStage gives the stage of a client; StageGone for one that mounted nothing or is forgotten.
func (c *Catalog) ClientStage(id UUID) Stage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.clients[id]; cl != nil {
		return cl.stage
	}
	return StageGone
}

// ActiveClients lists the clients that completed a remount and are StageActive or StageSuspect, in no particular order.
func (c *Catalog) ActiveClients() []UUID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []UUID
	for id, cl := range c.clients {
		if cl.ok && cl.stage <= StageSuspect {
			ids = append(ids, id)
		}
	}
	return ids
}
