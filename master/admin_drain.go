package master

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// DrainSource keeps the drain jobs.
type DrainSource interface {
	CreateDrain(segments, targets []string, concurrency int) (wire.UUID, error)
	Drain(id wire.UUID) (DrainJob, bool)
	CancelDrain(id wire.UUID) error
}

const drainPath = "/api/v1/drain_jobs"

// drainAnswer is the answer to the beginning and the cancelling of a job.
type drainAnswer struct {
	Success bool   `json:"success"`
	ID      string `json:"job_id"`
	Status  string `json:"status"`
	Code    int32  `json:"error_code"`
	Message string `json:"error_message"`
}

func (a *Admin) createDrain(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.DrainBodyBytes))
	q := struct {
		Segments    []string `json:"segments"`
		Targets     []string `json:"target_segments"`
		Concurrency int      `json:"max_concurrency"`
	}{Concurrency: limits.DrainConcurrency}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Invalid JSON body: "+err.Error())
		return
	}
	id, err := a.drains.CreateDrain(q.Segments, q.Targets, q.Concurrency)
	if err != nil {
		replyCode(w, err)
		return
	}
	replyJSON(w, http.StatusOK, drainAnswer{true, id.String(), jobStateNames[jobCreated], 0, ""})
}

// jobOf reads the id of a job out of a query; it answers itself when there is none.
func jobOf(w http.ResponseWriter, r *http.Request) (id wire.UUID, ok bool) {
	raw, _ := queryValue(r.URL.RawQuery, "job_id")
	id, err := wire.ParseUUID(percentDecoded(raw))
	if err != nil {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "Missing or invalid job_id")
	}
	return id, err == nil
}

func replyNoJob(w http.ResponseWriter) {
	replyError(w, http.StatusNotFound, wire.ErrJobNotFound, wire.ErrJobNotFound.String())
}

func (a *Admin) serveDrain(w http.ResponseWriter, r *http.Request) {
	id, ok := jobOf(w, r)
	if !ok {
		return
	}
	j, ok := a.drains.Drain(id)
	if !ok {
		replyNoJob(w)
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Success   bool         `json:"success"`
		ID        string       `json:"job_id"`
		Type      int          `json:"type"`
		TypeName  string       `json:"type_name"`
		Status    int          `json:"status"`
		Name      string       `json:"status_name"`
		Created   catalog.Time `json:"created_at_ms_epoch"`
		Updated   catalog.Time `json:"last_updated_at_ms_epoch"`
		Segments  []string     `json:"segments"`
		Succeeded uint64       `json:"succeeded_units"`
		Failed    uint64       `json:"failed_units"`
		Blocked   uint64       `json:"blocked_units"`
		Active    uint64       `json:"active_units"`
		Migrated  uint64       `json:"migrated_bytes"`
		Text      string       `json:"message"`
		Code      int32        `json:"error_code"`
		Message   string       `json:"error_message"`
	}{
		true, j.ID.String(), 0, "DRAIN", j.State, jobStateNames[j.State], j.Created, j.Updated, j.Segments,
		j.Succeeded, j.Failed, j.Blocked, j.Active, j.MigratedBytes, j.Message, 0, "",
	})
}

func (a *Admin) cancelDrain(w http.ResponseWriter, r *http.Request) {
	id, ok := jobOf(w, r)
	if !ok {
		return
	}
	switch err := a.drains.CancelDrain(id); {
	case errors.Is(err, errNoJob):
		replyNoJob(w)
	case err != nil:
		replyCode(w, err)
	default:
		replyJSON(w, http.StatusOK, drainAnswer{true, id.String(), jobStateNames[jobCanceled], 0, ""})
	}
}
