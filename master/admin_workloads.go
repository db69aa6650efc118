package master

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// WorkloadSource is what the pages of workloads show and change. Its methods may be called from any goroutine.
type WorkloadSource interface {
	// Workloads tells the rules in force with what each holds, and where they came from. The last one has no name: it
	// stands for what no rule fits.
	Workloads() ([]catalog.WorkloadStat, Origin)
	// ChangeWorkloads puts what edit makes of the rules in force in their place. Nothing changes when it fails.
	ChangeWorkloads(edit func(rules []catalog.Workload) ([]catalog.Workload, error)) error
}

// workloadsPath is the page of all workloads; that of one has its name behind.
const workloadsPath = "/api/v1/workloads"

// ruleView is a rule as it is printed; a document of them reads back.
type ruleView struct {
	Name          string             `json:"name"`
	Prefixes      []string           `json:"prefixes"`
	Tenants       []string           `json:"tenants"`
	SoftBytes     uint64             `json:"soft_bytes"`
	HardBytes     uint64             `json:"hard_bytes"`
	ReservedBytes uint64             `json:"reserved_bytes"`
	Evict         catalog.EvictKind  `json:"evict"`
	Unread        catalog.UnreadKind `json:"unread"`
	TTLMs         int64              `json:"ttl_ms"`
	Priority      int                `json:"priority"`
}

func viewOfRule(w *catalog.Workload) ruleView {
	v := ruleView{
		Name: w.Name, Prefixes: w.Prefixes, Tenants: w.Tenants, SoftBytes: w.SoftBytes, HardBytes: w.HardBytes,
		ReservedBytes: w.ReservedBytes, Evict: w.Evict, Unread: w.Unread, TTLMs: w.TTLMs, Priority: w.Priority,
	}
	for _, list := range []*[]string{&v.Prefixes, &v.Tenants} {
		if *list == nil {
			*list = []string{} // printed as no items
		}
	}
	return v
}

// usageView is what a workload holds and what became of it.
type usageView struct {
	Name              string            `json:"name"`
	Keys              uint64            `json:"keys"`
	Bytes             uint64            `json:"bytes"`
	EvictedKeys       uint64            `json:"evicted_keys"`
	EvictedBytes      uint64            `json:"evicted_bytes"`
	EvictedUnreadKeys uint64            `json:"evicted_unread_keys"`
	ExpiredKeys       uint64            `json:"expired_keys"`
	ExpiredBytes      uint64            `json:"expired_bytes"`
	Refusals          map[string]uint64 `json:"put_refusals"`
	EvictedFor        []evictedForView  `json:"evicted_for"`
}

// evictedForView tells for whose sake objects went.
type evictedForView struct {
	Workload  string `json:"workload"`
	Watermark bool   `json:"watermark"`
	Keys      uint64 `json:"keys"`
	Bytes     uint64 `json:"bytes"`
}

func viewOfUsage(w *catalog.WorkloadStat) usageView {
	v := usageView{
		Name: w.Name, Keys: w.Keys, Bytes: w.Bytes,
		EvictedKeys: w.EvictedKeys, EvictedBytes: w.EvictedBytes, EvictedUnreadKeys: w.EvictedUnreadKeys,
		ExpiredKeys: w.ExpiredKeys, ExpiredBytes: w.ExpiredBytes,
		Refusals: map[string]uint64{}, EvictedFor: []evictedForView{},
	}
	for _, r := range refusalsBy(&w.Refusals) {
		if r.Puts > 0 {
			v.Refusals[r.Reason] = r.Puts
		}
	}
	for _, f := range w.EvictedFor {
		v.EvictedFor = append(v.EvictedFor, evictedForView{f.Workload, f.Watermark, f.Keys, f.Bytes})
	}
	slices.SortFunc(v.EvictedFor, func(a, b evictedForView) int {
		switch {
		case a.Watermark == b.Watermark:
			return cmp.Compare(a.Workload, b.Workload)
		case a.Watermark:
			return 1
		}
		return -1
	})
	return v
}

// serveWorkloads shows all rules and what each workload holds.
func (a *Admin) serveWorkloads(w http.ResponseWriter, _ *http.Request) {
	stats, origin := a.workloads.Workloads()
	answer := struct {
		Origin    string      `json:"origin"`
		Survives  bool        `json:"survives_restart"`
		Workloads []ruleView  `json:"workloads"`
		Usage     []usageView `json:"usage"`
	}{Origin: origin.String(), Survives: origin.survives(), Workloads: []ruleView{}, Usage: []usageView{}}
	for i := range stats {
		if stats[i].Name != "" {
			answer.Workloads = append(answer.Workloads, viewOfRule(&stats[i].Workload))
		}
		answer.Usage = append(answer.Usage, viewOfUsage(&stats[i]))
	}
	replyJSON(w, http.StatusOK, answer)
}

// serveWorkload shows one rule.
func (a *Admin) serveWorkload(w http.ResponseWriter, r *http.Request) {
	name := itemOf(r.URL.Path, workloadsPath)
	stats, origin := a.workloads.Workloads()
	for i := range stats {
		if stats[i].Name == name && name != "" {
			replyJSON(w, http.StatusOK, struct {
				Origin   string    `json:"origin"`
				Survives bool      `json:"survives_restart"`
				Workload ruleView  `json:"workload"`
				Usage    usageView `json:"usage"`
			}{origin.String(), origin.survives(), viewOfRule(&stats[i].Workload), viewOfUsage(&stats[i])})
			return
		}
	}
	noWorkload(w, name)
}

func noWorkload(w http.ResponseWriter, name string) {
	replyError(w, http.StatusNotFound, wire.ErrObjectNotFound, "no workload is called "+quoted(name))
}

// putWorkloads puts a document of rules in the place of all rules.
func (a *Admin) putWorkloads(w http.ResponseWriter, r *http.Request) {
	body, ok := rulesBody(w, r)
	if !ok {
		return
	}
	a.changeWorkloads(w, r, func([]catalog.Workload) ([]catalog.Workload, error) { return decodeRules(body) })
}

// putWorkload adds a rule, or puts it in the place of the one of its name. The body need not repeat the name.
func (a *Admin) putWorkload(w http.ResponseWriter, r *http.Request) {
	name := itemOf(r.URL.Path, workloadsPath)
	body, ok := rulesBody(w, r)
	if !ok {
		return
	}
	a.changeWorkloads(w, r, func(rules []catalog.Workload) ([]catalog.Workload, error) {
		rule, err := decodeRuleNamed(body, name)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(rules, func(o catalog.Workload) bool { return o.Name == name })
		if at < 0 {
			rules = append(rules, *rule)
		} else {
			rules[at] = *rule
		}
		return rules, checkRules(rules)
	})
}

// deleteWorkload drops a rule.
func (a *Admin) deleteWorkload(w http.ResponseWriter, r *http.Request) {
	name := itemOf(r.URL.Path, workloadsPath)
	a.changeWorkloads(w, r, func(rules []catalog.Workload) ([]catalog.Workload, error) {
		at := slices.IndexFunc(rules, func(o catalog.Workload) bool { return o.Name == name })
		if at < 0 {
			return nil, errNoWorkload
		}
		return slices.Delete(rules, at, at+1), nil
	})
}

// deleteWorkloads drops all rules.
func (a *Admin) deleteWorkloads(w http.ResponseWriter, r *http.Request) {
	a.changeWorkloads(w, r, func([]catalog.Workload) ([]catalog.Workload, error) { return nil, nil })
}

var errNoWorkload = errors.New("no workload is called so")

// changeWorkloads answers a change with the rules that are then in force, or with why they stay as they were.
func (a *Admin) changeWorkloads(w http.ResponseWriter, r *http.Request, edit func([]catalog.Workload) ([]catalog.Workload, error)) {
	err := a.workloads.ChangeWorkloads(edit)
	switch {
	case errors.Is(err, errNoWorkload):
		noWorkload(w, itemOf(r.URL.Path, workloadsPath))
	case err != nil:
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, err.Error())
	default:
		a.serveWorkloads(w, r)
	}
}

// rulesBody reads a body that should hold rules. When it cannot be had the request is answered.
func rulesBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.WorkloadRulesBytes))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		replyError(w, http.StatusRequestEntityTooLarge, wire.ErrInvalidParams, fmt.Sprintf("more than %d bytes of rules", tooLong.Limit))
		return nil, false
	}
	if err != nil {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "the body ends early")
		return nil, false
	}
	return body, true
}
