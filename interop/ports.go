package interop

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The range ports are taken from. Below lie 12300-14300 and 15000-17000, where the wheels choose theirs: an endpoint there
// may later belong to a client, which then takes a daemon's memory for its own. Above lies the ephemeral range.
const (
	firstPort = 17001
	lastPort  = 32767
)

// Ports hands out TCP ports of 127.0.0.1, never the same one twice.
type Ports struct {
	mu    sync.Mutex
	given map[int]bool
}

// Take answers with a port that nobody holds now.
func (p *Ports) Take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.given == nil {
		p.given = map[int]bool{}
	}
	for range lastPort - firstPort {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if p.given[port] || !free(port) {
			continue
		}
		p.given[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("no free port in %d..%d", firstPort, lastPort)
}

// free asks for the port on every address: daemons of the wheels listen on all of them.
func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
