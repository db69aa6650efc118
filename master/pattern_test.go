package master

import (
	"slices"
	"strings"
	"testing"

	"mooncake/internal/limits"
	"mooncake/wire"
)

func TestPattern(t *testing.T) {
	for _, tc := range []struct {
		pattern, key string
		want         bool
	}{
		{"b", "abc", true},
		{"^b", "abc", false},
		{"^a.c$", "abc", true},
		{`^a.c$`, "a\nc", false}, // as in ECMAScript, the dot takes no line feed
		{`^step_\d+/rank_[01]$`, "step_12/rank_1", true},
		{`^step_\d+/rank_[01]$`, "step_12/rank_2", false},
		{"", "anything", true},
		{"(?=a)a", "a", true},
		{`(a)\1`, "aa", true},
		{"ü", "grün", true},
		{"^gr..n$", "grün", true}, // two bytes, two characters
		{"\xff", "a\xffb", true},
		{`\x00`, "a\x00b", true},
		{"漢", "\xe6\xbc", false},
	} {
		p, err := compilePattern(tc.pattern, nil)
		if err != nil {
			t.Errorf("%q: %v", tc.pattern, err)
			continue
		}
		if got := p.match(tc.key); got != tc.want || p.err != nil {
			t.Errorf("%q on %q: %v, %v", tc.pattern, tc.key, got, p.err)
		}
	}
}

func TestPatternRefused(t *testing.T) {
	for _, text := range []string{
		"(", ")", "[", "*", "a**", `\`, "(?<n", "a{2,1}", "[b-a]", "(?#", strings.Repeat("(", 60_000), strings.Repeat("a", limits.PatternBytes+1),
	} {
		if _, err := compilePattern(text, nil); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
}

// slowPattern takes time that doubles with every letter of slowKey.
const slowPattern = `^(a+)+$`

var slowKey = strings.Repeat("a", 60) + "!"

func TestPatternGivenUp(t *testing.T) {
	p, err := compilePattern(slowPattern, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !p.match("aaa") || p.err != nil {
		t.Fatal(p.err)
	}
	if p.match(slowKey) || p.err == nil {
		t.Fatal("the search goes on")
	}
	if p.match("aaa") {
		t.Error("a part is taken for the whole")
	}
}

// TestSlowPatternHurtsItsAuthorOnly lets one client search with a pattern that never ends. It is told so, nothing it asked
// to remove is half removed in silence, and others go on meanwhile.
func TestSlowPatternHurtsItsAuthorOnly(t *testing.T) {
	b := newBed(t)
	p, other := b.client(wire.V13), b.client(wire.V14)
	p.mount("node", 1<<44, mib)
	for _, key := range []string{slowKey, slowKey + "2", "plain"} {
		p.put(key, 1)
	}
	searching := make(chan wire.ErrorCode)
	go func() {
		rep, err := try(p, &wire.GetReplicaListByRegex, &wire.GetReplicaListByRegexRequest{Regex: slowPattern})
		if err != nil {
			t.Error(err)
		}
		searching <- rep.Err
	}()
	calls := 0
	for done := false; !done; calls++ {
		select {
		case code := <-searching:
			expect(t, "slow search", code, wire.ErrInvalidParams)
			done = true
		default:
			other.put("meanwhile", 1)
			expect(t, "remove", other.remove("meanwhile", true), 0)
		}
	}
	// Whoever waited for the search would have one round, and see its end in the next. How many more there are is a matter of speed.
	if calls < 3 {
		t.Errorf("only %d rounds of another client during the search", calls)
	}
	removed := invoke(p, &wire.RemoveByRegex, &wire.RemoveByRegexRequest{Regex: slowPattern, Force: true})
	expect(t, "slow removal", removed.Err, wire.ErrInvalidParams)
	expect(t, "key left", p.exists(slowKey), true)
	lines := slices.DeleteFunc(b.complaints(), func(l string) bool { return strings.Contains(l, "misses pings") }) // nobody pings here
	if len(lines) != 2 || !strings.Contains(lines[0], "given up") || !strings.Contains(lines[1], "given up") {
		t.Errorf("logged: %q", lines)
	}
}

// FuzzPattern looks for texts that break the engine instead of being refused.
func FuzzPattern(f *testing.F) {
	for _, text := range []string{`^a.*\d{2,3}[^b-c]$`, slowPattern, `(?<x>a)\k<x>(?!b)(?=c)`, `\u0041\x41\cA\0\1`, "[\\s\\S]*?|(?:)", "\xff{1,2}"} {
		f.Add(text, "abc\x00\xff")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		if len(text) > 200 || len(key) > 100 {
			return
		}
		if p, err := compilePattern(text, nil); err == nil {
			p.match(key)
		}
	})
}

func TestSearchEndsWithTheMaster(t *testing.T) {
	quit := make(chan struct{})
	p, err := compilePattern("a", quit)
	if err != nil || !p.match("a") {
		t.Fatal(err, p.err)
	}
	close(quit)
	if p.match("a") || p.err == nil {
		t.Error("the search goes on")
	}
}
