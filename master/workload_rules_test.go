package master

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

func TestDecodeRules(t *testing.T) {
	rollout := catalog.Workload{
		Name: "rollout", Prefixes: []string{"miles-object-store/", "other/"}, Tenants: []string{"team a"},
		SoftBytes: 40 << 30, HardBytes: 64 << 30, ReservedBytes: 32 << 30, Evict: catalog.EvictBundle, Unread: catalog.UnreadKeep, TTLMs: 600_000, Priority: 10,
	}
	plain := catalog.Workload{Name: "kv", Prefixes: []string{""}}
	for name, c := range map[string]struct {
		text string
		want []catalog.Workload
	}{
		"none":  {"workloads: []", nil},
		"plain": {"workloads:\n- {name: kv, prefixes: ['']}", []catalog.Workload{plain}},
		"all": {`
workloads:
  - name: rollout
    prefixes: [miles-object-store/, "other/"]
    tenants: [team a]
    soft_bytes: 40GiB
    hard_bytes: 64 gb
    reserved_bytes: 34359738368
    evict: bundle
    unread: keep
    ttl_ms: 10m
    priority: 10
  - {name: kv, prefixes: [""]}
`, []catalog.Workload{rollout, plain}},
		"json": {"{\n\t\"workloads\": [\n\t\t{\"name\": \"kv\", \"prefixes\": [\"\"], \"ttl_ms\": 0, \"priority\": 0}\n\t]\n}\n", []catalog.Workload{plain}},
	} {
		got, err := decodeRules([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestDecodeRulesRefuses(t *testing.T) {
	rule := func(more string) string { return "workloads:\n- name: a\n  prefixes: [x/]\n  " + more }
	for _, c := range []struct{ text, want string }{
		{"", "the document of rules is empty"},
		{"# nothing\n", "the document of rules is empty"},
		{"[]", "line 1: the document is not a map of keys and values"},
		{"{}", "line 1: no key workloads; no rules at all is written as an empty list"},
		{"workloads:", "line 1: workloads is not a list"},
		{"workloads: {}", "line 1: workloads is not a list"},
		{"workloads: []\nrules: []", `line 2: unknown key "rules"; a document of rules has one key, workloads`},
		{"workloads: []\nworkloads: []", `line 2: the document has the key "workloads" twice, or a key that is no text`},
		{"workloads: []\n---\nworkloads: []", "more than one document of rules"},
		{"workloads: [x]", "line 1: a workload is not a map of keys and values"},
		{"workloads: [*x]", "unknown anchor 'x' referenced"},
		{"a: &x [1]\nworkloads: *x", `line 1: unknown key "a"; a document of rules has one key, workloads`},
		{"workloads:\n- {name: a}", `workload "a": neither prefixes nor tenants: no object would be its`},
		{"workloads:\n- {prefixes: [x]}", `line 2: name "": a workload is called by 1 to 64 of the characters a-z 0-9 _ - ., and not none or watermark`},
		{"workloads: [{name: A, tenants: [x]}", "line 1: did not find expected ',' or ']'"},
		{rule("name: A"), `line 4: a workload has the key "name" twice, or a key that is no text`},
		{rule("soft: 1GB"), `line 4: a workload has no key "soft"`},
		{rule("soft_bytes: 1 GBit"), `line 4: soft_bytes: size "1 GBit" is not a number of bytes nor a number with KB, MB, GB or TB`},
		{rule("soft_bytes: -1"), `line 4: soft_bytes: size "-1" is not a number of bytes nor a number with KB, MB, GB or TB`},
		{rule("soft_bytes: [1]"), "line 4: soft_bytes is not a plain value"},
		{rule("soft_bytes:"), "line 4: soft_bytes is not a plain value"},
		{rule("hard_bytes: 1\n  soft_bytes: 2"), `workload "a": soft limit of 2 bytes above the hard limit of 1`},
		{rule("hard_bytes: 1\n  reserved_bytes: 2"), `workload "a": reservation of 2 bytes above the hard limit of 1`},
		{rule("soft_bytes: 1\n  reserved_bytes: 2"), "line 2: workload a: reserved_bytes=2 is above soft_bytes=1"},
		{rule("evict: fifo"), `line 4: evict: "fifo" is none of lru, never, bundle`},
		{rule("unread: yes"), `line 4: unread: "yes" is none of drop, keep`},
		{rule("ttl_ms: 1d"), `line 4: ttl_ms: duration "1d" is not a whole number with ms, s, m or h`},
		{rule("priority: high"), `line 4: priority="high" is no whole number from -1000 to 1000`},
		{rule("priority: 1001"), `line 4: priority="1001" is no whole number from -1000 to 1000`},
		{rule("tenants: x"), "line 4: tenants is not a list"},
		{rule("tenants: ['']"), `workload "a": a tenant's name has 0 bytes; 1 to 512 are allowed`},
		{rule("tenants: [[x]]"), "line 4: an item of tenants is not a plain value"},
		{rule("tenants: [" + strings.Repeat("x", 513) + "]"), "line 4: an item of tenants has 513 bytes, at most 512"},
		{rule("tenants: [" + strings.Repeat("x, ", 65) + "]"), "line 4: 65 tenants, at most 64"},
		{rule("tenants: [t, t]"), `workload "a": tenant "t" is a rule of workload "a" already`},
		{rule("evict: lru\n- name: a\n  prefixes: [y]"), `two workloads are named "a"`},
		{rule("evict: lru\n- name: b\n  prefixes: [x/]"), `workload "b": prefix "x/" is a rule of workload "a" already`},
		{"workloads: [" + strings.Repeat("{name: x},", limits.Workloads+1) + "]", "line 1: 65 workloads, at most 64"},
		{"workloads: [" + strings.Repeat(" ", limits.WorkloadRulesBytes), "1048588 bytes of rules, at most 1048576"},
	} {
		text, want := c.text, c.want
		_, err := decodeRules([]byte(text))
		if err == nil {
			t.Errorf("%.60q is taken", text)
		} else if err.Error() != want {
			t.Errorf("%.60q:\n got %v\nwant %v", text, err, want)
		}
	}
}

// TestShippedRules reads the rules that come with the daemons.
func TestShippedRules(t *testing.T) {
	text, err := os.ReadFile("../deploy/workloads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeRules(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.Workload{
		{Name: "rollout", Prefixes: []string{"miles-object-store/"}, Evict: catalog.EvictBundle, Unread: catalog.UnreadKeep, Priority: 10},
		{Name: "kv", Prefixes: []string{""}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzDecodeRules feeds the decoder with anything. What it takes must be within the limits and read back as printed.
func FuzzDecodeRules(f *testing.F) {
	shipped, err := os.ReadFile("../deploy/workloads.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(shipped)
	for _, text := range []string{
		"workloads: []", "{\"workloads\":[{\"name\":\"a\",\"tenants\":[\"\\u00e9\"],\"ttl_ms\":\"3 S\"}]}",
		"a: &a [*a]", "workloads: &x [*x]", "<<: {workloads: []}", "workloads: !!binary aGk=", "\xff", "%YAML 1.1\n---\nworkloads: [{name: a, prefixes: [\"\\xff\"]}]",
		"workloads: [{name: n, prefixes: [2001-01-01, 0x10, null, ~, yes]}]",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rules, err := decodeRules(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("a complaint of more than one line: %q", err)
			}
			return
		}
		if len(rules) > limits.Workloads {
			t.Errorf("%d rules", len(rules))
		}
		views := make([]ruleView, len(rules))
		for i := range rules {
			views[i] = viewOfRule(&rules[i])
		}
		printed, err := json.Marshal(map[string]any{"workloads": views})
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeRules(printed)
		if err != nil {
			t.Fatalf("%s: %v", printed, err)
		}
		if fmt.Sprint(again) != fmt.Sprint(rules) && utf8.ValidString(fmt.Sprint(rules)) {
			t.Errorf("read back as\n%v, was\n%v", again, rules)
		}
	})
}
