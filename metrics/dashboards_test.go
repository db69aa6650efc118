package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v3"
)

// sampleNames lists the names of all samples of families, parts of histograms and summaries included.
func sampleNames(all map[string]*dto.MetricFamily) map[string]bool {
	names := map[string]bool{"up": true}
	for name, f := range all {
		names[name] = true
		if t := f.GetType(); t == dto.MetricType_HISTOGRAM || t == dto.MetricType_SUMMARY {
			names[name+"_sum"], names[name+"_count"] = true, true
			if t == dto.MetricType_HISTOGRAM {
				names[name+"_bucket"] = true
			}
		}
	}
	return names
}

// What a query has beside names of series.
var (
	notNames = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\{[^}]*\}|\[[^\]]*\]|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)|\b\d[\d.a-z]*`)
	aName    = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
)

// seriesIn lists the series that a query asks for.
func seriesIn(query string) (names []string) {
	query = strings.ReplaceAll(query, `\"`, `"`)
	for _, name := range aName.FindAllString(notNames.ReplaceAllString(query, " "), -1) {
		name = strings.TrimSpace(name)
		if !strings.HasSuffix(name, "(") && !slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, name) {
			names = append(names, name)
		}
	}
	return names
}

// dashboardQueries reads the queries of a dashboard.
func dashboardQueries(t *testing.T, path string) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case map[string]any:
			if q, ok := n["expr"].(string); ok {
				queries = append(queries, q)
			}
			for _, child := range n {
				walk(child)
			}
		case []any:
			for _, child := range n {
				walk(child)
			}
		}
	}
	walk(tree)
	return queries
}

// TestSeriesIn looks whether the names are found at all.
func TestSeriesIn(t *testing.T) {
	for query, want := range map[string][]string{
		`100 * rate(a_total{x="b_c"}[5m]) / clamp_min(d_, 1e-9)`:                          {"a_total", "d_"},
		`histogram_quantile(0.95, sum by (le) (rate(e_bucket[5m])))`:                      {"e_bucket"},
		`sum by (a, b) (f) > 1 and on (instance) g == 0`:                                  {"f", "g"},
		`topk(20, sum by (segment) (h{job=~"$job"}) / sum by (segment) (i{job=~"$job"}))`: {"h", "i"},
		`increase(j{a="b"}[$__rate_interval]) + k`:                                        {"j", "k"},
		`mem_cache_nums_`: {"mem_cache_nums_"},
	} {
		if got := seriesIn(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestPublishedDashboard looks for every series that the dashboard of the published masters asks for, on a master at which
// nothing has happened yet.
func TestPublishedDashboard(t *testing.T) {
	text, err := os.ReadFile("testdata/dashboard_queries.txt")
	if err != nil {
		t.Fatal(err)
	}
	known, queries := sampleNames(families(t, NewRegistry(&fakeSource{}, NewCalls(), Build{}))), 0
	for query := range strings.Lines(string(text)) {
		queries++
		for _, name := range seriesIn(query) {
			if !known[name] {
				t.Errorf("%q asks for %s, which is not there", strings.TrimSpace(query), name)
			}
		}
	}
	if queries < 100 {
		t.Fatal(queries)
	}
}

// TestOurDashboard looks for every series that ours asks for.
func TestOurDashboard(t *testing.T) {
	known, queries := sampleNames(families(t, busyRegistry())), dashboardQueries(t, "../deploy/grafana/mooncake.json")
	if len(queries) < 60 {
		t.Fatal(len(queries))
	}
	for _, query := range queries {
		names := seriesIn(query)
		if len(names) == 0 {
			t.Errorf("%q asks for nothing", query)
		}
		for _, name := range names {
			if !known[name] {
				t.Errorf("%q asks for %s, which is not there", query, name)
			}
		}
	}
}

// TestRules looks for every series of the alerts, and for the section of the runbook that each points to.
func TestRules(t *testing.T) {
	text, err := os.ReadFile("../deploy/prometheus/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		sections[strings.ToLower(m[1])] = true
	}
	known, alerts := sampleNames(families(t, busyRegistry())), 0
	for _, r := range file.Groups[0].Rules {
		alerts++
		for _, name := range seriesIn(r.Expr) {
			if !known[name] {
				t.Errorf("%s asks for %s, which is not there", r.Alert, name)
			}
		}
		link, ok := strings.CutPrefix(r.Annotations["runbook_url"], "docs/runbook.md#")
		if !ok || !sections[link] || link != strings.ToLower(r.Alert) {
			t.Errorf("%s: %q is no section of the runbook", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks its severity or its texts", r.Alert)
		}
		delete(sections, link)
	}
	if alerts < 10 {
		t.Fatal(alerts)
	}
	for name := range sections {
		t.Errorf("the runbook has a section %s without an alert", name)
	}
}
