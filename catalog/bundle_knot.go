package catalog

import "mooncake/internal/limits"

// The keys of one bundle may carry different groups, or some carry one and others none. Then all these units go together
// or not at all.

// knotted tells whether a unit goes together with others.
func (c *Catalog) knotted(n name) bool { return c.s.isUnit(n) && c.s.unit(n).knots > 0 }

// tied lists the units that go together with a knotted one, and that one; false when there are too many.
func (c *Catalog) tied(un name) ([]name, bool) {
	c.walks++
	list := append(c.placer.tied[:0], un)
	c.s.unit(un).seen = c.walks
	steps := 0
	for i := 0; i < len(list); i++ {
		for m := c.s.unit(list[i]).head; m != 0; m = c.nextOf(m) {
			bn := c.s.record(m).bundle
			if bn == 0 || c.s.bundle(bn).facts&factKnotted == 0 || c.s.bundle(bn).seen == c.walks {
				continue
			}
			c.s.bundle(bn).seen = c.walks
			for x := c.s.bundle(bn).head; x != 0; x = c.s.record(x).bundleNext {
				if steps++; steps > limits.EvictTied {
					return nil, false
				}
				if xu := c.s.record(x).unit; xu != 0 && c.s.unit(xu).seen != c.walks {
					c.s.unit(xu).seen = c.walks
					list = append(list, xu)
				}
			}
		}
	}
	c.placer.tied = list
	return list, true
}

// allGo tells whether everything that a knotted unit is tied to may go for the put as well.
func (c *Catalog) allGo(n name, a *ask) bool {
	tied, ok := c.tied(n)
	if !ok {
		return false
	}
	for _, un := range tied {
		if !a.takes(c.s.node(un).list) || c.age(un, a.now) > bucketOf(int64(a.now)) || c.spared(un, a) || c.unread(un) && (!a.unread || c.s.keepsUnread(un)) {
			return false
		}
	}
	return true
}

// yieldsTied tells whether the rules of workloads let everything go that a knotted unit is tied to. That is rare enough for
// a plain answer: reservations are not touched.
func (c *Catalog) yieldsTied(o *order, n name) bool {
	tied, ok := c.tied(n)
	if !ok {
		return false
	}
	for _, un := range tied {
		for m := c.s.unit(un).head; m != 0; m = c.nextOf(m) {
			share := c.s.record(m).share
			if c.s.keeps(share, c.s.unit(un).parts > 0) || c.s.shares.list[share].rule.ReservedBytes > 0 && !(o.own && share == o.asker) ||
				o.only && share != o.asker {
				return false
			}
		}
	}
	return true
}
