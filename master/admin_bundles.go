package master

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/internal/units"
	"mooncake/wire"
)

// BundleSource is what the pages of bundles show and do. Its methods may be called from any goroutine.
type BundleSource interface {
	// Bundles lists bundles in the order of their ids, those that follow after and at most limit; next is "" at the end.
	Bundles(filter catalog.BundleFilter, after string, limit int) (list []catalog.BundleInfo, next string)
	// RecentBundles lists up to limit bundles, from the one that something happened to last, and counts the others.
	RecentBundles(limit int) (list []catalog.BundleInfo, more int)
	// Verified tells whether this master has looked at a bundle's manifest and found all that it names.
	Verified(id string) bool
	// Bundle returns a bundle, its members by key, and who reads it.
	Bundle(id string) (catalog.BundleInfo, []catalog.BundleMember, []Reader, bool)
	// ReclaimBundle removes what there is of a bundle; of one that is gone already it says how it went.
	ReclaimBundle(id string) (catalog.BundleInfo, error)
	// CollectBundles removes bundles that nobody will finish, or only tells which ones.
	CollectBundles(dryRun bool) ([]catalog.BundleInfo, error)
}

// bundlesPath is the page of all bundles; that of one has its id behind.
const bundlesPath = "/api/v1/bundles"

// bundleView is a bundle as the pages show it. Times are milliseconds since 1970, 0 for what never happened.
type bundleView struct {
	ID             string    `json:"id"`
	State          string    `json:"state"`
	Workload       string    `json:"workload"`
	Group          string    `json:"group"`
	Writer         string    `json:"writer"`
	Keys           uint64    `json:"keys"`
	LostKeys       uint64    `json:"lost_keys"`
	PayloadBytes   uint64    `json:"payload_bytes"`
	AllocatedBytes uint64    `json:"allocated_bytes"`
	Payload        partView  `json:"payload"`
	Meta           partView  `json:"meta"`
	Manifest       partView  `json:"manifest"`
	Reads          uint64    `json:"reads"`
	Evicted        bool      `json:"evicted"`
	Verified       bool      `json:"verified,omitzero"`
	Times          timesView `json:"times_ms"`
}

// partView adds up the members of one kind.
type partView struct {
	Keys          uint64 `json:"keys"`
	CompleteKeys  uint64 `json:"complete_keys"`
	Bytes         uint64 `json:"bytes"`
	CompleteBytes uint64 `json:"complete_bytes"`
}

// timesView is when things happened to a bundle.
type timesView struct {
	Created   catalog.Time `json:"created"`
	LastWrite catalog.Time `json:"last_write"`
	Published catalog.Time `json:"published"`
	LastRead  catalog.Time `json:"last_read"`
	Reclaimed catalog.Time `json:"reclaimed"`
}

func (a *Admin) viewOfBundle(b *catalog.BundleInfo) bundleView {
	return bundleView{
		ID: printable(b.ID), State: b.State.String(), Workload: b.Workload, Group: printable(b.Group), Writer: b.Writer.String(),
		Keys: b.Keys, LostKeys: b.LostKeys, PayloadBytes: b.Payload.Bytes, AllocatedBytes: b.AllocatedBytes,
		Payload: partView(b.Payload), Meta: partView(b.Meta), Manifest: partView(b.Manifest), Reads: b.Reads, Evicted: b.Evicted,
		Verified: (b.State == catalog.BundlePublished || b.State == catalog.BundleReading) && a.bundles.Verified(b.ID),
		Times:    timesView{b.Created, b.LastWrite, b.Published, b.LastRead, b.Reclaimed},
	}
}

func (a *Admin) viewsOfBundles(list []catalog.BundleInfo) []bundleView {
	views := make([]bundleView, len(list))
	for i := range list {
		views[i] = a.viewOfBundle(&list[i])
	}
	return views
}

// printable is a name that a client chose, as lists show it.
func printable(name string) string { return string(appendEscaped(nil, name)) }

// serveBundles lists bundles, page by page.
func (a *Admin) serveBundles(w http.ResponseWriter, r *http.Request) {
	filter, limit, err := bundleQuery(r.URL.RawQuery)
	if err != nil {
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, err.Error())
		return
	}
	after, _ := queryValue(r.URL.RawQuery, "after")
	list, next := a.bundles.Bundles(filter, percentDecoded(after), limit)
	replyJSON(w, http.StatusOK, struct {
		Bundles []bundleView `json:"bundles"`
		Next    string       `json:"next"`
	}{a.viewsOfBundles(list), percentEncoded(next)})
}

// bundleQuery reads which bundles are asked for, and how many at most.
func bundleQuery(query string) (f catalog.BundleFilter, limit int, err error) {
	limit = limits.AdminBundles
	read := func(name string, into func(value string) error) {
		if raw, given := queryValue(query, name); given && err == nil {
			err = into(percentDecoded(raw))
		}
	}
	text := func(to *string) func(string) error {
		return func(value string) error { *to = value; return nil }
	}
	read("prefix", text(&f.Prefix))
	read("partition", text(&f.Partition))
	read("group", text(&f.Group))
	read("workload", text(&f.Workload))
	read("state", func(value string) error {
		if f.State = catalog.ParseBundleState(strings.ToUpper(value)); f.State == catalog.BundleNone {
			return fmt.Errorf("state=%s is none of %s", quoted(value), strings.Join(bundleStates(), ", "))
		}
		return nil
	})
	read("older_than", func(value string) error {
		age, err := units.ParseDuration(value)
		f.OlderThanMs = age.Milliseconds()
		if err != nil {
			return fmt.Errorf("older_than: %w", err)
		}
		return nil
	})
	read("limit", func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > limits.AdminBundlesMax {
			return fmt.Errorf("limit=%s is no whole number from 1 to %d", quoted(value), limits.AdminBundlesMax)
		}
		limit = n
		return nil
	})
	return f, limit, err
}

// bundleStates lists the names of all states.
func bundleStates() (names []string) {
	for s := catalog.BundleNone + 1; ; s++ {
		name := s.String()
		if catalog.ParseBundleState(name) != s {
			return names
		}
		names = append(names, name)
	}
}

// memberView is a member of a bundle with its chunks in order. The meta and the manifest are members as well.
type memberView struct {
	Name   string      `json:"name"`
	Part   string      `json:"part"`
	Bytes  uint64      `json:"bytes"`
	Chunks []chunkView `json:"chunks"`
}

// chunkView is one object of a member.
type chunkView struct {
	Index    int           `json:"index"`
	Key      string        `json:"key"`
	Bytes    uint64        `json:"bytes"`
	Complete bool          `json:"complete"`
	LastRead catalog.Time  `json:"last_read_ms"`
	Replicas []replicaView `json:"replicas"`
}

// replicaView is one copy of a chunk.
type replicaView struct {
	Segment  string `json:"segment"`
	Endpoint string `json:"transport_endpoint"`
	Address  uint64 `json:"buffer_address"`
	Complete bool   `json:"complete"`
}

// readerView is a connection over which a bundle is read.
type readerView struct {
	Address  string       `json:"address"`
	Clients  []string     `json:"clients"`
	LastRead catalog.Time `json:"last_read_ms"`
}

// serveBundle shows one bundle with all its members.
func (a *Admin) serveBundle(w http.ResponseWriter, r *http.Request) {
	info, members, readers, ok := a.bundles.Bundle(itemOf(r.URL.Path, bundlesPath))
	if !ok {
		replyCode(w, catalog.ErrObjectNotFound)
		return
	}
	answer := struct {
		Bundle  bundleView   `json:"bundle"`
		Members []memberView `json:"members"`
		Readers []readerView `json:"readers"`
	}{a.viewOfBundle(&info), viewsOfMembers(info.ID, members), []readerView{}}
	for _, rd := range readers {
		v := readerView{Address: rd.Address.String(), Clients: []string{}, LastRead: rd.LastRead}
		for _, id := range rd.Clients {
			v.Clients = append(v.Clients, id.String())
		}
		answer.Readers = append(answer.Readers, v)
	}
	replyJSON(w, http.StatusOK, answer)
}

// viewsOfMembers gathers the chunks of each member; members come in the order of their keys.
func viewsOfMembers(id string, objects []catalog.BundleMember) []memberView {
	views := []memberView{}
	for i := range objects {
		o := &objects[i]
		name, index := memberOf(strings.TrimPrefix(o.Key, id+"/"), o.Part)
		at := slices.IndexFunc(views, func(v memberView) bool { return v.Name == name && v.Part == o.Part.String() })
		if at < 0 {
			at, views = len(views), append(views, memberView{Name: name, Part: o.Part.String()})
		}
		views[at].Bytes += o.Size
		views[at].Chunks = append(views[at].Chunks, viewOfChunk(o, index))
	}
	for _, v := range views {
		slices.SortStableFunc(v.Chunks, func(a, b chunkView) int { return cmp.Compare(a.Index, b.Index) })
	}
	return views
}

// memberOf names the member and the chunk that the rest of a key stands for, behind the bundle's id.
func memberOf(rest string, part bundle.Part) (name string, index int) {
	if part == bundle.Buffer {
		rest = strings.TrimPrefix(rest, "buffer/")
	}
	if at := strings.LastIndex(rest, "/chunk/"); at > 0 {
		if n, err := strconv.ParseUint(rest[at+len("/chunk/"):], 10, 31); err == nil {
			rest, index = rest[:at], int(n)
		}
	}
	return printable(rest), index
}

func viewOfChunk(o *catalog.BundleMember, index int) chunkView {
	v := chunkView{Index: index, Key: printable(o.Key), Bytes: o.Size, Complete: o.Complete, LastRead: o.LastRead, Replicas: []replicaView{}}
	for i := range o.Replicas {
		r := &o.Replicas[i]
		v.Replicas = append(v.Replicas, replicaView{
			Segment: r.Segment.Name, Endpoint: r.Segment.Endpoint, Address: r.Segment.Base + r.Offset, Complete: r.Status == catalog.ReplicaComplete,
		})
	}
	return v
}

// reclaimBundle removes a bundle whatever its state; of one that is gone it says so again.
func (a *Admin) reclaimBundle(w http.ResponseWriter, r *http.Request) {
	info, err := a.bundles.ReclaimBundle(itemOf(r.URL.Path, bundlesPath))
	if err != nil {
		replyCode(w, err)
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Success bool       `json:"success"`
		Bundle  bundleView `json:"bundle"`
	}{true, a.viewOfBundle(&info)})
}

// collectBundles removes what nobody will finish; with dry_run it only says what that would be.
func (a *Admin) collectBundles(w http.ResponseWriter, r *http.Request) {
	value, dry := queryValue(r.URL.RawQuery, "dry_run")
	switch strings.ToLower(value) {
	case "", "1", "true", "yes":
	case "0", "false", "no":
		dry = false
	default:
		replyError(w, http.StatusBadRequest, wire.ErrInvalidParams, "dry_run="+quoted(value)+" is none of 1, 0")
		return
	}
	list, err := a.bundles.CollectBundles(dry)
	if err != nil {
		replyCode(w, err)
		return
	}
	answer := struct {
		DryRun         bool         `json:"dry_run"`
		Bundles        []bundleView `json:"bundles"`
		Keys           uint64       `json:"keys"`
		AllocatedBytes uint64       `json:"allocated_bytes"`
	}{DryRun: dry, Bundles: a.viewsOfBundles(list)}
	for i := range list {
		answer.Keys += list[i].Keys
		answer.AllocatedBytes += list[i].AllocatedBytes
	}
	replyJSON(w, http.StatusOK, answer)
}
