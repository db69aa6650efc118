package master

import (
	"cmp"
	"slices"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// pageView is all that the page shows. Names in it are those of clients; the page never takes them for markup.
type pageView struct {
	Master        standingView      `json:"master"`
	Pool          poolView          `json:"pool"`
	Segments      []segmentView     `json:"segments"`
	SegmentsMore  int               `json:"segments_more"`
	BundleStates  []stateView       `json:"bundle_states"`
	Bundles       []bundleView      `json:"bundles"`
	BundlesMore   int               `json:"bundles_more"`
	Workloads     []workloadRowView `json:"workloads"`
	WorkloadsMore int               `json:"workloads_more"`
	Events        []eventView       `json:"events"`
}

// standingView is the role of this master among others.
type standingView struct {
	Address    string `json:"address"`
	Role       string `json:"role"`
	State      string `json:"state"`
	Serving    bool   `json:"serving"`
	Leader     string `json:"leader_address"` // "" without others
	Term       uint64 `json:"term"`
	Promotable bool   `json:"promotable"`
	Applied    uint64 `json:"applied"`
	Newest     uint64 `json:"newest"`
	Unacked    uint64 `json:"unacked"`
	Objects    uint64 `json:"objects"`
	NoSpace    bool   `json:"no_space"`
}

// poolView adds up all segments.
type poolView struct {
	Capacity    uint64 `json:"capacity_bytes"`
	Used        uint64 `json:"used_bytes"`
	Quarantined uint64 `json:"quarantined_bytes"`
	Keys        uint64 `json:"keys"`
	Segments    uint64 `json:"segments"`
	Active      uint64 `json:"clients_active"`
	Suspected   uint64 `json:"clients_suspected"`
	Lost        uint64 `json:"clients_lost"`
	EvictedKeys uint64 `json:"evicted_keys"`
	Evicted     uint64 `json:"evicted_bytes"`
}

// stateView counts the bundles in one state.
type stateView struct {
	State   string `json:"state"`
	Bundles uint64 `json:"bundles"`
	Bytes   uint64 `json:"bytes"`
}

// workloadRowView is a workload with its rule; the one without a name is what no rule fits.
type workloadRowView struct {
	Name         string `json:"name"`
	Keys         uint64 `json:"keys"`
	Bytes        uint64 `json:"bytes"`
	Soft         uint64 `json:"soft_bytes"`
	Hard         uint64 `json:"hard_bytes"`
	Reserved     uint64 `json:"reserved_bytes"`
	EvictedBytes uint64 `json:"evicted_bytes"`
	Refused      uint64 `json:"refused_puts"`
}

// pageState gathers what the page shows.
func (a *Admin) pageState(events *recentEvents, address string) *pageView {
	now := a.source.Standing()
	v := &pageView{
		Master: standingView{
			Address: address, Role: now.Role, State: now.State, Serving: now.Ready, Leader: now.LeaderAddress, Term: now.ViewVersion,
			Promotable: now.Promotable, Applied: now.Applied, Newest: now.Newest, Unacked: now.Unacked, Objects: now.Objects, NoSpace: now.NoSpace,
		},
		Segments: []segmentView{}, BundleStates: []stateView{}, Bundles: []bundleView{}, Workloads: []workloadRowView{},
		Events: events.list(),
	}
	if !now.Ready {
		return v
	}
	st := a.source.Stats()
	v.Pool = poolView{
		Capacity: st.CapacityBytes, Used: st.AllocatedBytes, Quarantined: st.QuarantinedBytes, Keys: st.Keys, Segments: st.Segments,
		Active: st.ClientsActive + st.ClientsSuspect, Suspected: st.ClientsSuspected, Lost: st.ClientsLost,
		EvictedKeys: st.EvictedKeys, Evicted: st.EvictedBytes,
	}
	v.Segments, v.SegmentsMore = a.segmentRows()
	for _, s := range a.source.BundleFigures().States {
		v.BundleStates = append(v.BundleStates, stateView{s.State, s.Bundles, s.Bytes})
	}
	list, more := a.bundles.RecentBundles(limits.PageBundles)
	v.Bundles, v.BundlesMore = a.viewsOfBundles(list), more
	v.Workloads, v.WorkloadsMore = a.workloadRows()
	return v
}

// segmentRows lists segments by name. Where there are too many, those that need a look stay: not well, then full.
func (a *Admin) segmentRows() (rows []segmentView, more int) {
	all := a.inspect.AllSegments()
	if more = len(all) - limits.PageSegments; more > 0 {
		well := func(s *catalog.SegmentStatus) int {
			if s.Stage == catalog.StageActive && wire.SegmentStatus(s.Status) == wire.SegmentStatusOK {
				return 1
			}
			return 0
		}
		fill := func(s *catalog.SegmentStatus) float64 { return float64(s.Used) / float64(max(s.Size, 1)) }
		slices.SortFunc(all, func(x, y catalog.SegmentStatus) int {
			return cmp.Or(cmp.Compare(well(&x), well(&y)), cmp.Compare(fill(&y), fill(&x)), compareIDs(x.ID, y.ID))
		})
		all = all[:limits.PageSegments]
	}
	slices.SortFunc(all, func(x, y catalog.SegmentStatus) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), compareIDs(x.ID, y.ID))
	})
	rows = make([]segmentView, len(all))
	for i := range all {
		rows[i] = a.viewOfSegment(&all[i])
	}
	return rows, max(more, 0)
}

// workloadRows lists workloads in the order of their rules, the one without a name last.
func (a *Admin) workloadRows() (rows []workloadRowView, more int) {
	stats, _ := a.workloads.Workloads()
	rows = []workloadRowView{}
	for i := range stats {
		w := &stats[i]
		if len(rows) == limits.PageWorkloads {
			return rows, len(stats) - i
		}
		row := workloadRowView{
			Name: w.Name, Keys: w.Keys, Bytes: w.Bytes, Soft: w.SoftBytes, Hard: w.HardBytes, Reserved: w.ReservedBytes, EvictedBytes: w.EvictedBytes,
		}
		for _, r := range refusalsBy(&w.Refusals) {
			row.Refused += r.Puts
		}
		rows = append(rows, row)
	}
	return rows, 0
}
