package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
)

// verifier looks at the manifests of published bundles where a daemon that keeps a stream holds their bytes. It comes after
// the publication: no call waits for it.
type verifier struct {
	queue                     chan string // ids of bundles
	verified, damaged, passed atomic.Uint64

	mu    sync.Mutex // a leaf
	known map[string]struct{}
	order []string // of known, oldest first
}

// note remembers a bundle whose manifest names what is there; those that were looked at long ago are forgotten.
func (v *verifier) note(id string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, ok := v.known[id]; ok {
		return
	}
	if len(v.order) >= limits.VerifyRemembered {
		delete(v.known, v.order[0])
		v.order = v.order[1:]
	}
	if v.known == nil {
		v.known = map[string]struct{}{}
	}
	v.known[id] = struct{}{}
	v.order = append(v.order, id)
}

func (v *verifier) knows(id string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.known[id]
	return ok
}

// verifyLater queues bundles that were published. What does not fit is passed over.
func (s *Service) verifyLater(published []catalog.BundleTime) {
	for _, b := range published {
		select {
		case s.verifier.queue <- b.ID:
		default:
			s.verifier.passed.Add(1)
		}
	}
}

// verifyManifests works on the queue until ctx ends.
func (s *Service) verifyManifests(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case id := <-s.verifier.queue:
			if !s.verifyManifest(ctx, id) {
				s.verifier.passed.Add(1)
			}
		}
	}
}

// verifyManifest compares what a bundle's manifest names with what is complete. It tells whether the manifest could be read.
func (s *Service) verifyManifest(ctx context.Context, id string) bool {
	_, members, ok := s.cat.Bundle(s.clock.Now(), id)
	at := -1
	for i := range members {
		if members[i].Part == bundle.Manifest && members[i].Complete {
			at = i
		}
	}
	if !ok || at < 0 || members[at].Size > limits.AttachReadBytes {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, limits.AttachReadMs*time.Millisecond)
	defer cancel()
	for i := range members[at].Replicas {
		r := &members[at].Replicas[i]
		text, err := s.readObject(ctx, r, members[at].Size)
		if err != nil {
			continue
		}
		tenant, key := s.plainKey(members[at].Key)
		listing, err := bundle.ParseManifest(key, text)
		if err != nil {
			return false // something else by now, or none of a kind that is known
		}
		missing := s.missingOf(tenant, listing)
		if missing == 0 {
			s.verifier.note(id)
			s.verifier.verified.Add(1)
			return true
		}
		// The bytes are those of this manifest only if its copy is still there.
		if s.cat.MissMembers(s.clock.Now(), id, r.ID, missing) {
			s.verifier.damaged.Add(1)
			s.log.Warn("a bundle's manifest names objects that are not there: it is damaged", zap.String("action", "bundle_incomplete"),
				zap.String("bundle", printable(shortened(id))), zap.Int("missing", missing))
		}
		return true
	}
	return false
}

// missingOf counts the objects that a manifest names and that are not complete with the size it says.
func (s *Service) missingOf(tenant string, l *bundle.Listing) (missing int) {
	for _, c := range l.Keys() {
		o, _, err := s.Peek(tenant, c.Key)
		if err != nil || o.Size != c.Bytes {
			missing++
		}
	}
	return missing
}
