package master

import (
	"net/http"
)

// integrityPages show what became of sums, and let people act on it.
func (a *Admin) integrityPages() map[string]page {
	const path = "/api/v1/integrity"
	post := func(do http.HandlerFunc) page {
		return page{servicePlane: true, others: map[string]http.HandlerFunc{http.MethodPost: do}}
	}
	return map[string]page{
		path:              {serve: a.serveIntegrity, servicePlane: true},
		path + "/scrub":   post(a.scrubNow),
		path + "/release": post(a.releaseCorrupt),
	}
}

// serveIntegrity shows sums and what did not have them.
func (a *Admin) serveIntegrity(w http.ResponseWriter, _ *http.Request) {
	info := a.inspect.Integrity()
	if info.Daemons == nil {
		info.Daemons = []SumsOf{}
	}
	if info.Ranges == nil {
		info.Ranges = []BrokenRange{}
	}
	replyJSON(w, http.StatusOK, info)
}

// scrubNow has every daemon begin a walk through all it has.
func (a *Admin) scrubNow(w http.ResponseWriter, _ *http.Request) {
	replyJSON(w, http.StatusOK, struct {
		Daemons int `json:"daemons"`
	}{a.inspect.ScrubNow()})
}

// releaseCorrupt lets ranges be used again: those of the segment named, or all. A word that it does not know is refused: with a
// slip of the pen in the name of the parameter it would be all of them.
func (a *Admin) releaseCorrupt(w http.ResponseWriter, r *http.Request) {
	raw, given := queryValue(r.URL.RawQuery, "segment")
	if given && raw == "" || !given && r.URL.RawQuery != "" || r.ContentLength > 0 {
		replyJSON(w, http.StatusBadRequest, struct {
			Error string `json:"error"`
		}{"want ?segment=NAME, or nothing at all for the ranges of all segments"})
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Ranges int `json:"released_ranges"`
	}{a.inspect.ReleaseCorrupt(percentDecoded(raw))})
}
