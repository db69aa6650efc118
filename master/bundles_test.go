package master

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"

	"mooncake/bundle"
	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/wire"
)

// hexID is a bundle's own part of its id.
func hexID(n int) string { return fmt.Sprintf("%032x", n) }

// fakeBundles is a BundleSource with a fixed content.
type fakeBundles struct {
	verified string
	list     []catalog.BundleInfo
	members  map[string][]catalog.BundleMember
	readers  map[string][]Reader
	asked    string // how the list was asked for last
}

func (f *fakeBundles) Bundles(q catalog.BundleFilter, after string, limit int) (list []catalog.BundleInfo, next string) {
	f.asked = fmt.Sprintf("%+v after %q, %d", q, after, limit)
	for _, b := range f.list {
		if b.ID > after && strings.HasPrefix(b.ID, q.Prefix) {
			list = append(list, b)
		}
	}
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID
	}
	return list, next
}

func (f *fakeBundles) RecentBundles(limit int) (list []catalog.BundleInfo, more int) {
	n := min(limit, len(f.list))
	return f.list[:n], len(f.list) - n
}

func (f *fakeBundles) Bundle(id string) (catalog.BundleInfo, []catalog.BundleMember, []Reader, bool) {
	for _, b := range f.list {
		if b.ID == id {
			return b, f.members[id], f.readers[id], true
		}
	}
	return catalog.BundleInfo{}, nil, nil, false
}

func (f *fakeBundles) Verified(id string) bool { return f.verified == id }

func (f *fakeBundles) ReclaimBundle(id string) (catalog.BundleInfo, error) {
	for i, b := range f.list {
		if b.ID == id {
			f.list[i].State, f.list[i].Keys, f.list[i].Reclaimed = catalog.BundleReclaimed, 0, 77
			return f.list[i], nil
		}
	}
	return catalog.BundleInfo{}, catalog.ErrObjectNotFound
}

func (f *fakeBundles) CollectBundles(dryRun bool) (list []catalog.BundleInfo, err error) {
	for i, b := range f.list {
		if b.State == catalog.BundleOrphan {
			list = append(list, b)
			if !dryRun {
				f.list[i].State = catalog.BundleReclaimed
			}
		}
	}
	return list, nil
}

// someBundles are three bundles: one read at the moment, one that its writer left, one with an odd name.
func someBundles() *fakeBundles {
	seg := &catalog.SegmentInfo{Segment: catalog.Segment{Name: "node:1", Endpoint: "10.0.0.1:15001", Base: 1 << 32}}
	replica := func(offset uint64, status uint8) []catalog.Replica {
		return []catalog.Replica{{Segment: seg, Offset: offset, Status: status}}
	}
	read, left, odd := "miles-object-store/default/"+hexID(1), "miles-object-store/default/"+hexID(2), "odd \"\xff&/p/"+hexID(3)
	member := func(key string, part bundle.Part, size uint64) catalog.BundleMember {
		return catalog.BundleMember{Key: read + key, Part: part, Size: size, Complete: true, LastRead: 40, Replicas: replica(size, catalog.ReplicaComplete)}
	}
	return &fakeBundles{
		list: []catalog.BundleInfo{
			{
				ID: read, State: catalog.BundleReading, Workload: "rollout", Group: "structured-1", Writer: catalog.UUID{Hi: 1, Lo: 2},
				Created: 10, LastWrite: 20, Published: 20, LastRead: 40, Keys: 5, AllocatedBytes: 1060, Reads: 1,
				Payload:  catalog.PartCount{Keys: 3, CompleteKeys: 3, Bytes: 1000, CompleteBytes: 1000},
				Meta:     catalog.PartCount{Keys: 1, CompleteKeys: 1, Bytes: 20, CompleteBytes: 20},
				Manifest: catalog.PartCount{Keys: 1, CompleteKeys: 1, Bytes: 40, CompleteBytes: 40},
			},
			{ID: left, State: catalog.BundleOrphan, Created: 5, LastWrite: 6, Keys: 2, AllocatedBytes: 30, Payload: catalog.PartCount{Keys: 2, CompleteKeys: 1, Bytes: 30, CompleteBytes: 10}},
			{ID: odd, State: catalog.BundleStaging, Created: 9, LastWrite: 9, Keys: 1},
		},
		members: map[string][]catalog.BundleMember{read: {
			member("/buffer/batch.tokens.data/chunk/0", bundle.Buffer, 100),
			member("/buffer/batch.tokens.data/chunk/10", bundle.Buffer, 300),
			member("/buffer/batch.tokens.data/chunk/9", bundle.Buffer, 200),
			member("/manifest", bundle.Manifest, 40),
			{Key: read + "/meta", Part: bundle.Meta, Size: 20, Replicas: replica(7, catalog.ReplicaProcessing)},
		}},
		readers: map[string][]Reader{read: {
			{Address: netip.MustParseAddr("10.0.0.2"), Clients: []wire.UUID{{Hi: 7, Lo: 8}}, LastRead: 40}, {Address: netip.MustParseAddr("::1"), LastRead: 30},
		}},
	}
}

// TestBundlePages lists, shows, reclaims and collects over the admin port.
func TestBundlePages(t *testing.T) {
	bundles := someBundles()
	h := admin(recordedMaster())
	h.bundles = bundles
	play(t, "bundles.txt", h, func(d *datadriven.TestData) (string, bool) {
		if d.Cmd == "asked" {
			return bundles.asked + "\n", true
		}
		return "", false
	})
}

// TestBundlePaging follows next through pages of every size, odd ids included.
func TestBundlePaging(t *testing.T) {
	bundles := someBundles()
	h := admin(recordedMaster())
	h.bundles = bundles
	for limit := 1; limit <= 4; limit++ {
		seen, after := 0, ""
		for range 5 {
			status, answer := ask(h, http.MethodGet, fmt.Sprintf("%s?limit=%d&after=%s", bundlesPath, limit, after), "")
			if status != http.StatusOK {
				t.Fatal(answer)
			}
			seen += strings.Count(answer, `"id":`)
			_, rest, _ := strings.Cut(answer, `"next":"`)
			if after, _, _ = strings.Cut(rest, `"`); after == "" {
				break
			}
		}
		if seen != 3 || after != "" {
			t.Errorf("pages of %d: %d bundles seen, next %q", limit, seen, after)
		}
	}
}

// TestQueryTexts takes encoded texts apart as they were put together.
func TestQueryTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		encoded := percentEncoded(text)
		if back := percentDecoded(encoded); back != text {
			t.Fatalf("%q became %q and came back as %q", text, encoded, back)
		}
		if u, err := url.Parse("http://x/?after=" + encoded); err != nil || u.Query().Get("after") != text {
			t.Fatalf("%q became %q, which a client reads as %v, %v", text, encoded, u, err)
		}
	})
}

// TestReaders shows who looked up members of a bundle a moment ago.
func TestReaders(t *testing.T) {
	r := newFamilyRegistry(family13, time.Hour)
	a, b := r.opened(netip.MustParseAddr("10.0.0.1"), familyUnknown), r.opened(netip.MustParseAddr("10.0.0.2"), familyUnknown)
	r.bind(a, wire.UUID{Hi: 1, Lo: 1})
	id := func(n int) string { return "p/default/" + hexID(n) }
	a.readings.note("an/ordinary/key", 90)
	a.readings.note(id(1)+"/manifest", 100)
	b.readings.note(id(1)+"/meta", 110)
	a.readings.note(id(1)+"/buffer/x", 120)
	want := []Reader{{a.peer, []wire.UUID{{Hi: 1, Lo: 1}}, 120}, {b.peer, nil, 110}}
	if diff := cmp.Diff(want, r.readersOf(id(1), 50), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if got := r.readersOf(id(1), 115); len(got) != 1 {
		t.Errorf("readers since 115: %v", got)
	}
	for n := range limits.ReadingsPerConnection {
		a.readings.note(id(2+n)+"/manifest", 130)
	}
	if got := r.readersOf(id(1), 115); len(got) != 0 {
		t.Errorf("a connection remembers more bundles than it should: %v", got)
	}
	r.closed(b, time.Now())
	if got := r.readersOf(id(1), 50); len(got) != 0 {
		t.Errorf("a closed connection reads: %v", got)
	}
	r.closed(a, time.Now())
}

// TestBundleLog writes a line for each bundle until they are too many, and then sums.
func TestBundleLog(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	l := bundleLog{logger: zap.New(core)}
	news := catalog.BundleNews{Collected: []catalog.BundleInfo{{ID: "c\n" + hexID(1), State: catalog.BundleOrphan}}}
	for range limits.BundleLogLines {
		news.EvictedUnread = append(news.EvictedUnread, catalog.BundleInfo{ID: "p/default/" + hexID(2), AllocatedBytes: 10})
	}
	l.tell(1000, &news)
	l.tell(1010, &catalog.BundleNews{Retired: news.Collected})
	if got := logs.Len(); got != limits.BundleLogLines {
		t.Fatalf("%d lines", got)
	}
	l.tell(1000+limits.BundleLogMs, &catalog.BundleNews{})
	all := logs.All()[limits.BundleLogLines:]
	if len(all) != 2 || all[0].ContextMap()["action"] != "bundle_collected" || all[0].ContextMap()["bundles"] != uint64(1) || all[1].ContextMap()["action"] != "bundle_retired" {
		t.Errorf("%+v", all)
	}
	if first := logs.All()[0].ContextMap(); first["action"] != "evicted_unread" || first["allocated_bytes"] != uint64(10) {
		t.Errorf("%+v", first)
	}
}

func TestBundleTimes(t *testing.T) {
	var times bundleTimes
	times.note(&catalog.BundleNews{
		Published: []catalog.BundleTime{{Workload: "a", Ms: 20}, {Workload: "b", Ms: -1}}, HandedOff: []catalog.BundleTime{{Workload: "a", Ms: 5000}},
	})
	got := times.read([]string{"", "a"})
	if len(got) != 2 || got[0].Workload != "" || got[1].Publish.SumMs != 20 || got[1].Handoff.SumMs != 5000 {
		t.Errorf("%+v", got)
	}
	if len(times.list) != 2 {
		t.Errorf("workloads that are no more are kept: %v", times.list)
	}
}

func TestRetention(t *testing.T) {
	for text, want := range map[string][]catalog.RetentionRule{
		"":                          nil,
		":1h:":                      {{MaxAgeMs: 3_600_000}},
		"eval::9":                   {{Prefix: "eval", MaxCount: 9}},
		"a:b:90s:2,a:1500ms:":       {{Prefix: "a:b", MaxAgeMs: 90_000, MaxCount: 2}, {Prefix: "a", MaxAgeMs: 1500}},
		"miles-object-store:24h:10": {{Prefix: "miles-object-store", MaxAgeMs: 86_400_000, MaxCount: 10}},
	} {
		got, err := ParseRetention(text)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
		if back := FormatRetention(got); back != text {
			t.Errorf("%q is printed as %q", text, back)
		}
	}
	for text, want := range map[string]string{
		"x":                      `"x" is not PREFIX:AGE:COUNT`,
		"x:1h":                   `"x:1h" is not PREFIX:AGE:COUNT`,
		"x::":                    `"x::" has neither an age nor a count above 0`,
		"x:0:0":                  `"x:0:0" has neither an age nor a count above 0`,
		"x:1d:":                  `duration "1d" is not a whole number with ms, s, m or h`,
		"x::-1":                  `the count "-1" is no whole number from 0 to 2147483647`,
		"x::1,":                  `"" is not PREFIX:AGE:COUNT`,
		"x::1,x:1h:":             `two rules for the prefix "x"`,
		strings.Repeat(",", 100): "101 rules, at most 64",
	} {
		if _, err := ParseRetention(text); err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

// FuzzRetention feeds the reader of retention rules with anything; what it takes reads back as printed.
func FuzzRetention(f *testing.F) {
	for _, text := range []string{"", ":1h:", "a:b:90s:2,a:1500ms:", "x::9223372036854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseRetention(text)
		if err != nil {
			return
		}
		again, err := ParseRetention(FormatRetention(rules))
		if err != nil || !cmp.Equal(rules, again) {
			t.Errorf("%v became %v, %v", rules, again, err)
		}
	})
}
