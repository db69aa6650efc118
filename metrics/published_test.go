package metrics

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
)

// publishedRow is one series of the published masters.
type publishedRow struct{ name, kind, labels string }

// publishedRows reads the list of all series of the published masters.
func publishedRows(t *testing.T) (rows []publishedRow) {
	t.Helper()
	text, err := os.ReadFile("testdata/metrics.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, "\t"); f[0] == "master" {
			rows = append(rows, publishedRow{f[1], f[2], f[3]})
		}
	}
	if len(rows) < 290 {
		t.Fatalf("only %d rows", len(rows))
	}
	return rows
}

// fill gives every number of a struct a value of its own, and every list one item.
func fill(v reflect.Value, next *uint64) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Uint64:
		*next++
		v.SetUint(*next)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	}
}

// busyRegistry is one in which everything has moved that can.
func busyRegistry() *Registry {
	src, next := &fakeSource{}, uint64(0)
	for _, part := range []any{&src.stats, &src.segments, &src.bundles, &src.workloads, &src.tenants} {
		fill(reflect.ValueOf(part).Elem(), &next)
	}
	src.stats.HA.Newest, src.stats.HA.NoSpace = src.stats.HA.Applied+1, false
	calls := NewCalls()
	for _, c := range slices.Concat(callSeries, batchSeries) {
		calls.Count(c.call, true)
		calls.CountBatch(c.call, 2, 1)
	}
	calls.Count("Other", true)
	calls.CountLookup(true, false, 1)
	calls.CountLookup(true, true, 1)
	calls.CountExists(true)
	calls.CountExists(false)
	calls.CountRefusal("OBJECT_NOT_FOUND")
	calls.ObserveValue(1)
	return NewRegistry(src, calls, Build{"2", "x"})
}

// families gathers by name.
func families(t *testing.T, r *Registry) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range list {
		out[f.GetName()] = f
	}
	return out
}

// labelsOf names the labels of a family's samples.
func labelsOf(f *dto.MetricFamily) string {
	names := map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			names[l.GetName()] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ",")
}

// TestEveryPublishedSeries goes through all series of the published masters: each moves here, with the same type and labels, or
// is listed with the reason why it cannot.
func TestEveryPublishedSeries(t *testing.T) {
	silent := map[string]bool{}
	for _, g := range silentGroups {
		for _, name := range slices.Concat(g.gauges, g.counters, g.histograms, g.labelled) {
			if silent[name] {
				t.Errorf("%s is listed twice", name)
			}
			silent[name] = true
		}
	}
	still, busy := families(t, NewRegistry(&fakeSource{}, NewCalls(), Build{"2", "x"})), families(t, busyRegistry())
	for _, row := range publishedRows(t) {
		f := busy[row.name]
		if f != nil && typeText(f.GetType()) != row.kind {
			t.Errorf("%s is a %s, published as a %s", row.name, typeText(f.GetType()), row.kind)
		}
		// The figures of the process and the release have moved before this test looks.
		fixed := strings.HasPrefix(row.name, "mooncake_process_") || row.name == "mooncake_build_info"
		moves := f != nil && (fixed || still[row.name].String() != f.String())
		switch {
		case moves && silent[row.name]:
			t.Errorf("%s moves, and is listed as one that cannot", row.name)
		case !moves && !silent[row.name]:
			t.Errorf("%s does not move, and no reason is listed", row.name)
		case moves && labelsOf(f) != row.labels:
			t.Errorf("%s has the labels %q, published with %q", row.name, labelsOf(f), row.labels)
		}
		delete(silent, row.name)
	}
	for name := range silent {
		t.Errorf("%s is listed, and no published master has it", name)
	}
}

// TestSilentSeriesAreDocumented compares docs/metrics.md with the list.
func TestSilentSeriesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][2]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (0|no) \\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = [2]string{m[2], m[3]}
	}
	for _, g := range silentGroups {
		for printed, names := range map[string][]string{"0": slices.Concat(g.gauges, g.counters, g.histograms), "no": g.labelled} {
			for _, name := range names {
				if got := documented[name]; got != [2]string{printed, g.reason} {
					t.Errorf("docs/metrics.md says %q of %s, the code %s and %q", got, name, printed, g.reason)
				}
				delete(documented, name)
			}
		}
	}
	for name := range documented {
		t.Errorf("docs/metrics.md lists %s, which is not silent", name)
	}
}

// TestOurSeriesAreDocumented wants every series of our own in docs/metrics.md: by its name, or by a pattern that it ends in.
func TestOurSeriesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var known []*regexp.Regexp
	for _, m := range regexp.MustCompile("`([a-z_*]+)[`{]").FindAllStringSubmatch(string(page), -1) {
		known = append(known, regexp.MustCompile("^"+strings.ReplaceAll(m[1], "*", "[a-z0-9_]*")+"$"))
	}
	published := map[string]bool{}
	for _, row := range publishedRows(t) {
		published[row.name] = true
	}
	for name := range families(t, busyRegistry()) {
		if !published[name] && !slices.ContainsFunc(known, func(re *regexp.Regexp) bool { return re.MatchString(name) }) {
			t.Errorf("docs/metrics.md does not tell of %s", name)
		}
	}
}

// TestLint holds all series to the rules of client_golang's linter, but for the names that published masters gave.
func TestLint(t *testing.T) {
	published := map[string]bool{}
	for _, row := range publishedRows(t) {
		published[row.name] = true
	}
	var list []*dto.MetricFamily
	for name, f := range families(t, busyRegistry()) {
		// Go's own names are not ours to choose either.
		if !published[name] && !strings.HasPrefix(name, "mooncake_go_memstats_") && !strings.HasPrefix(name, "mooncake_go_gc_") {
			list = append(list, f)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(list).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
