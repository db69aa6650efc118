package metrics

import (
	"fmt"
	"testing"

	"mooncake/internal/limits"
)

// TestStrangeArguments counts layouts one by one up to the bound, and the others together.
func TestStrangeArguments(t *testing.T) {
	calls := NewCalls()
	registry := NewRegistry(&fakeSource{}, calls, Build{})
	series := func(id, hash string) string {
		return fmt.Sprintf("%s{function_id=%q,hash=%q}", strangeArguments, id, hash)
	}
	fresh := samples(t, render(t, registry))
	if got := fresh[series("other", "other")]; got != "0" {
		t.Errorf("before any: others %q", got)
	}
	for i := range uint32(limits.MetricsStrangeArguments) {
		calls.CountStrange(Arguments{0xab, i << 1})
	}
	calls.CountStrange(Arguments{0xab, 2})
	for range 3 {
		calls.CountStrange(Arguments{0xdeadbeef, 2}) // a known hash at another call is one more
	}
	got := samples(t, render(t, registry))
	for series, want := range map[string]string{
		series("0x000000ab", "0x00000000"): "1",
		series("0x000000ab", "0x00000002"): "2",
		series("0x000000ab", "0x000001fe"): "1",
		series("other", "other"):           "3",
	} {
		if got[series] != want {
			t.Errorf("%s is %q, want %s", series, got[series], want)
		}
	}
	if grown := len(got) - len(fresh); grown != limits.MetricsStrangeArguments {
		t.Errorf("%d more series, want %d", grown, limits.MetricsStrangeArguments)
	}
	if n, others := calls.Strange(Arguments{0xab, 2}); n != 2 || others != 3 {
		t.Errorf("read %d and %d", n, others)
	}
}
