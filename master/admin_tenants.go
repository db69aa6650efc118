package master

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// TenantSource is what the pages of tenants show and change. Its methods may be called from any goroutine.
type TenantSource interface {
	// TenantStats lists the tenants that have a quota or objects, by name, and the bytes that quotas are shared out of.
	TenantStats() (list []catalog.TenantStat, capacity uint64, err error)
	// SetTenantQuota gives a tenant a quota, or another one.
	SetTenantQuota(ctx context.Context, name string, bytes uint64) error
	// DropTenantQuota takes the quota of a tenant that has no objects.
	DropTenantQuota(ctx context.Context, name string) error
	// RemoveAllOf removes every object of a tenant, or of all with "", that may go, and returns how many went.
	RemoveAllOf(force bool, tenant string) (int64, error)
}

// tenantView is a tenant as it is printed.
type tenantView struct {
	Name      string `json:"tenant_id"`
	Requested uint64 `json:"requested_quota_bytes"`
	Effective uint64 `json:"effective_quota_bytes"`
	Charged   uint64 `json:"charged_bytes"`
	Closed    bool   `json:"admission_closed"`
	Over      bool   `json:"over_quota"`
	Policy    bool   `json:"has_explicit_policy"`
}

func viewOfTenant(t *catalog.TenantStat) tenantView {
	return tenantView{t.Name, t.Requested, t.Effective, t.Charged, t.Closed, t.Over(), t.Policy}
}

// done is the answer to what succeeded.
type done struct {
	Success bool `json:"success"`
	Data    any  `json:"data"`
}

// replyTenantError answers what the source refused.
func replyTenantError(w http.ResponseWriter, err error) {
	var known catalog.Error
	switch {
	case errors.Is(err, errNoTenants):
		replyError(w, http.StatusConflict, wire.ErrUnavailableInCurrentMode, wire.ErrUnavailableInCurrentMode.String())
	case errors.As(err, &known):
		replyCode(w, known)
	default:
		replyError(w, http.StatusInternalServerError, wire.ErrInternalError, err.Error())
	}
}

// tenantAsked reads the tenant of a request.
func tenantAsked(r *http.Request) (name string, given bool) {
	raw, given := queryValue(r.URL.RawQuery, "tenant_id")
	return percentDecoded(raw), given && raw != ""
}

// serveTenants shows all tenants, or one.
func (a *Admin) serveTenants(w http.ResponseWriter, r *http.Request) {
	list, _, err := a.source.TenantStats()
	if err != nil {
		replyTenantError(w, err)
		return
	}
	if name, given := tenantAsked(r); given {
		replyTenant(w, list, name)
		return
	}
	views := make([]tenantView, len(list))
	for i := range list {
		views[i] = viewOfTenant(&list[i])
	}
	replyJSON(w, http.StatusOK, done{true, views})
}

func replyTenant(w http.ResponseWriter, list []catalog.TenantStat, name string) {
	at := slices.IndexFunc(list, func(t catalog.TenantStat) bool { return t.Name == name })
	if at < 0 {
		replyCode(w, catalog.ErrObjectNotFound)
		return
	}
	replyJSON(w, http.StatusOK, done{true, viewOfTenant(&list[at])})
}

// putTenant gives a tenant a quota. What is wrong with the request is said before whether tenants are told apart at all.
func (a *Admin) putTenant(w http.ResponseWriter, r *http.Request) {
	given, _ := tenantAsked(r)
	name, ok := catalog.TenantName(given)
	if !ok || given == "" {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Missing or invalid tenant_id")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.AdminBodyBytes))
	var asked struct {
		Bytes uint64 `json:"requested_quota_bytes"`
	}
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	switch {
	case err != nil:
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Invalid JSON body: "+err.Error())
		return
	case asked.Bytes == 0 || asked.Bytes > math.MaxInt64:
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Tenant quota must be in [1, 2^63 - 1] bytes")
		return
	}
	if err := a.source.SetTenantQuota(r.Context(), name, asked.Bytes); err != nil {
		replyTenantError(w, err)
		return
	}
	list, _, err := a.source.TenantStats()
	if err != nil {
		replyTenantError(w, err)
		return
	}
	replyTenant(w, list, name)
}

// deleteTenant takes the quota of a tenant that has nothing.
func (a *Admin) deleteTenant(w http.ResponseWriter, r *http.Request) {
	given, _ := tenantAsked(r)
	name, ok := catalog.TenantName(given)
	if !ok || given == "" {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Missing or invalid tenant_id")
		return
	}
	if err := a.source.DropTenantQuota(r.Context(), name); err != nil {
		replyTenantError(w, err)
		return
	}
	replyJSON(w, http.StatusOK, done{Success: true})
}

// removeAll removes the objects of a tenant, or of all.
func (a *Admin) removeAll(w http.ResponseWriter, r *http.Request) {
	tenant, _ := tenantAsked(r)
	force, _ := queryValue(r.URL.RawQuery, "force")
	removed, err := a.source.RemoveAllOf(force == "true" || force == "1", tenant)
	if err != nil {
		replyTenantError(w, err)
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Success bool  `json:"success"`
		Removed int64 `json:"removed_count"`
	}{true, removed})
}
