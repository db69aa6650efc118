package master

import (
	"encoding/json"
	"io"
	"math"
	"net/http"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// PinSource changes soft pins. Its methods may be called from any goroutine.
type PinSource interface {
	// SoftPin gives keys of a tenant a soft pin from now on, or takes it with a life of 0, and says for each what came of it. An
	// error means that nothing is known to be done.
	SoftPin(tenant string, keys []string, ttlMs int64) ([]wire.ErrorCode, error)
}

const (
	softPinPath   = "/api/v1/soft_pin"
	softUnpinPath = "/api/v1/soft_unpin"
)

// pinRequest is the body of both requests. Unpinning has no time.
type pinRequest struct {
	Keys   []string `json:"keys"`
	TTLMs  *uint64  `json:"ttl_ms"`
	Tenant string   `json:"tenant_id"`
}

// fits tells whether a request has what it must have, and nothing that it must not have.
func (q *pinRequest) fits(pin bool) bool {
	_, tenant := catalog.TenantName(q.Tenant)
	return tenant && len(q.Keys) > 0 && len(q.Keys) <= limits.AdminPinKeys && (q.TTLMs != nil) == pin
}

func (a *Admin) softPin(w http.ResponseWriter, r *http.Request)   { a.changePins(w, r, true) }
func (a *Admin) softUnpin(w http.ResponseWriter, r *http.Request) { a.changePins(w, r, false) }

func (a *Admin) changePins(w http.ResponseWriter, r *http.Request, pin bool) {
	var q pinRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.AdminPinBodyBytes))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	switch {
	case err != nil:
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Invalid JSON body: "+err.Error())
		return
	case !q.fits(pin):
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Expected 1..4096 keys, a valid tenant, and ttl_ms only for soft_pin")
		return
	}
	ttlMs := int64(0)
	if pin {
		ttlMs = int64(min(*q.TTLMs, math.MaxInt64)) // which is longer than any pin may be
	}
	codes, err := a.source.SoftPin(q.Tenant, q.Keys, ttlMs)
	if err != nil {
		replyCode(w, err)
		return
	}
	type result struct {
		Key  string `json:"key"`
		Code int32  `json:"error_code"`
	}
	results := make([]result, len(codes))
	for i := range codes {
		results[i] = result{q.Keys[i], int32(codes[i])}
	}
	replyJSON(w, http.StatusOK, struct {
		Results []result `json:"results"`
	}{results})
}

// SoftPin implements PinSource. It is answered when its outcome is durable.
func (s *Service) SoftPin(tenant string, keys []string, ttlMs int64) ([]wire.ErrorCode, error) {
	own, code := s.keysOf(tenant, keys)
	if code != 0 {
		return nil, catalog.ErrInvalidParams
	}
	codes := make([]wire.ErrorCode, len(keys))
	for i := range own {
		codes[i] = codeOf(s.cat.SoftPin(s.clock.Now(), own[i], ttlMs))
	}
	return codes, s.history.wait()
}

// SoftPin implements PinSource.
func (c *cluster) SoftPin(tenant string, keys []string, ttlMs int64) (codes []wire.ErrorCode, err error) {
	err = catalog.ErrUnavailableStatus
	c.leading(func(s *Service) { codes, err = s.SoftPin(tenant, keys, ttlMs) })
	return codes, err
}
