package master

import (
	"fmt"
	"net/http"
)

// serveLive says that the process answers; whether it serves is another question.
func serveLive(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, typeText, "ok") }

// checkView is one thing that must be right for a master to be ready.
type checkView struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// checks lists what must be right.
func (a *Admin) checks(s *Standing) []checkView {
	list := []checkView{{"role", s.Ready || s.Promotable, fmt.Sprintf("%s, %s", s.Role, s.State)}}
	st := a.source.Stats()
	if st.HA != nil {
		list = append(list, checkView{"log", !s.NoSpace, fmt.Sprintf("record %d of %d, %d decisions not written yet, etcd has room: %t", s.Applied, s.Newest, s.Unacked, !s.NoSpace)})
	}
	if st.Journal != nil {
		list = append(list, checkView{"journal", !st.Journal.Failed, fmt.Sprintf("can be written: %t", !st.Journal.Failed)})
	}
	return append(list, checkView{"pool", true, fmt.Sprintf("%d segments, %d of %d bytes used", st.Segments, st.AllocatedBytes, st.CapacityBytes)})
}

// serveReady tells whether this master serves, or could at once if the leader went; with ?verbose it tells why.
func (a *Admin) serveReady(w http.ResponseWriter, r *http.Request) {
	s := a.source.Standing()
	list, ready, status := a.checks(&s), true, http.StatusOK
	for _, c := range list {
		ready = ready && c.OK
	}
	if !ready {
		status = http.StatusServiceUnavailable
	}
	if _, verbose := queryValue(r.URL.RawQuery, "verbose"); !verbose {
		list = nil
	}
	replyJSON(w, status, struct {
		Ready   bool   `json:"ready"`
		Role    string `json:"role"`
		HAState string `json:"ha_state"`
		Applied uint64 `json:"applied_sequence"`
		Newest  uint64 `json:"leader_sequence"`
		Unacked uint64 `json:"unacked_records"`
		leader
		Checks []checkView `json:"checks,omitempty"`
	}{ready, s.Role, s.State, s.Applied, s.Newest, s.Unacked, s.leader(), list})
}
