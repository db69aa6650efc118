package access

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// open are pages that nobody needs a token for: probes carry none, and neither does a browser that fetches the page which asks
// for one. That page holds nothing; what it shows is behind other paths.
var open = []string{"/health", "/livez", "/readyz", "/ui", "/ui/page.css", "/ui/page.js"}

// destructive are the requests that take away what cannot be brought back and are no DELETE.
var destructive = []string{"/api/v1/remove_all"}

// Needed is the level that a request needs where every level has a token.
func Needed(method, path string) Level {
	switch {
	case method == http.MethodGet || method == http.MethodHead:
		switch {
		case slices.Contains(open, path):
			return Nobody
		case strings.HasPrefix(path, "/debug/pprof"):
			return Admin
		}
		return Read
	case method == http.MethodDelete, slices.Contains(destructive, path):
		return Admin
	}
	return Operate
}

// Guard lets through what the token of a request allows: 401 without a known token, 403 with one of too low a level. Looking
// needs a token only if the file has one of the level read.
func (t *Tokens) Guard(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := t.Check(r.Header.Get("Authorization"), Needed(r.Method, r.URL.Path))
		var why *Refusal
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.As(err, &why) && why.Has == Nobody:
			w.Header().Set("WWW-Authenticate", `Bearer realm="mooncake"`)
			refuse(w, http.StatusUnauthorized, err.Error())
		default:
			refuse(w, http.StatusForbidden, err.Error())
		}
	})
}

// refuse answers as the pages do that refuse something by themselves.
func refuse(w http.ResponseWriter, status int, message string) {
	body := `{"success":false,"error":` + strconv.Quote(message) + `}`
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // a peer that is gone needs no answer
}
