package segment

import "sync"

// health is what GET /health tells: whether the segment is in the pool, the master answers, and peers can reach it.
type health struct {
	mu     sync.Mutex
	inPool bool
	away   bool
	// railsUp of the railsAll RDMA devices carry traffic; both are 0 with tcp.
	railsUp, railsAll int
}

// rails says how many of the RDMA devices carry traffic.
func (h *health) rails(up, all int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.railsUp, h.railsAll = up, all
}

// mounted says that the master accepted the segment.
func (h *health) mounted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inPool, h.away = true, false
}

// unmounted says that the master does not hold the segment.
func (h *health) unmounted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inPool = false
}

// lost says that the master did not answer; it reports whether that is news.
func (h *health) lost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := !h.away
	h.away = true
	return news
}

// found says that the master answered; it reports whether that is news.
func (h *health) found() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := h.away
	h.away = false
	return news
}

// isMounted reports whether the master holds the segment, as far as is known.
func (h *health) isMounted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inPool && !h.away
}

// status is the word of /health with its code; 0 is good.
func (h *health) status() (word string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.away:
		return "master_unreachable", -900
	case !h.inPool:
		return "not_initialized", -1010
	case h.railsAll > 0 && h.railsUp == 0:
		return "rails_down", -800
	case h.railsUp < h.railsAll:
		return "degraded", 0
	}
	return "healthy", 0
}
