// Package limits holds every bound of the project in one place: frames, keys, queues, connections and loops.
// A constant lives here, with the reason for its value, so that an operator or a maintainer can see at a glance what
// the daemons refuse and why. It imports nothing and everything may import it.
package limits
