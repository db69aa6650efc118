package linear

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// parse reads calls like "put 7 done 1-2 a": kind, value, outcome, times, leader.
func parse(t *testing.T, text string) *History {
	t.Helper()
	h := new(History)
	for i, line := range strings.Split(text, ";") {
		f := strings.Fields(line)
		o := Op{Client: i, Key: "k", Place: f[4]}
		o.Kind = Kind(slices.Index([]string{"", "put", "get", "exist", "remove", "upsert"}, f[0]))
		o.Outcome = Outcome(slices.Index([]string{"", "done", "absent", "present", "unknown", "cleared", "either"}, f[2]))
		from, to, _ := strings.Cut(f[3], "-")
		o.Value, o.Call, o.Return = number(t, f[1]), int64(number(t, from)), int64(number(t, to))
		h.Add(o)
	}
	return h
}

func number(t *testing.T, text string) (n uint64) {
	t.Helper()
	for _, c := range text {
		if c < '0' || c > '9' {
			t.Fatalf("no number: %q", text)
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		what, text string
		good       bool
	}{
		{"a put is read", "put 7 done 1-2 a; get 7 done 3-4 a; exist 0 done 5-6 a", true},
		{"an acknowledged put is lost", "put 7 done 1-2 a; get 0 absent 3-4 b", false},
		{"what was read is gone", "put 7 unknown 1-2 a; get 7 done 3-4 a; get 0 absent 5-6 b", false},
		{"an unknown put came late", "put 7 unknown 1-2 a; get 0 absent 3-4 a; get 7 done 5-6 b", true},
		{"an unknown put was never", "put 7 unknown 1-2 a; put 8 done 3-4 a; get 8 done 5-6 b", true},
		{"an unknown put before its begin", "get 7 done 1-2 a; put 7 unknown 3-4 a", false},
		{"another's bytes", "put 7 done 1-2 a; get 8 done 3-4 a", false},
		{"two objects at once", "put 7 done 1-2 a; put 8 done 3-4 a", false},
		{"a removal", "put 7 done 1-2 a; remove 0 done 3-4 a; get 0 absent 5-6 a; put 8 done 7-8 a", true},
		{"a removal is undone", "put 7 done 1-2 a; remove 0 done 3-4 a; get 7 done 5-6 b", false},
		{"an unknown removal, undone", "put 7 done 1-2 a; remove 0 unknown 3-4 a; get 0 absent 5-6 a; get 7 done 7-8 b", true},
		{"the same, but seen elsewhere", "put 7 done 1-2 a; remove 0 unknown 3-4 a; get 0 absent 5-6 b; get 7 done 7-8 b", false},
		{"a removal finds nothing", "put 7 done 1-2 a; remove 0 absent 3-4 a", false},
		{"a removal of what is leased", "put 7 done 1-2 a; remove 0 present 3-4 a; get 7 done 5-6 a", true},
		{"a removal of what is not there", "remove 0 present 3-4 a", false},
		{"a removal of what was begun", "remove 0 cleared 1-2 a; put 7 done 3-4 a; remove 0 cleared 5-6 a; get 0 absent 7-8 a", true},
		{"an object that was cleared", "put 7 done 1-2 a; remove 0 cleared 3-4 a; get 7 done 5-6 a", false},
		{"two puts of published clients", "put 7 either 1-2 a; put 8 either 3-4 a; get 7 done 5-6 a", true},
		{"the second has no effect", "put 7 either 1-2 a; put 8 either 3-4 a; get 8 done 5-6 a", false},
		{"one of them has", "put 7 either 1-2 a; get 0 absent 3-4 b", false},
		{"an upsert", "put 7 done 1-2 a; upsert 8 done 3-4 a; get 8 done 5-6 a", true},
		{"an upsert is lost", "put 7 done 1-2 a; upsert 8 done 3-4 a; get 7 done 5-6 b", false},
		{"an upsert comes late, or never", "put 7 done 1-2 a; upsert 8 unknown 3-4 a; get 7 done 5-6 a; get 7 done 7-8 b", true},
		{"an upsert came and went", "put 7 done 1-2 a; upsert 8 unknown 3-4 a; get 8 done 5-6 a; get 7 done 7-8 b", false},
		{"overlapping", "put 7 done 1-6 a; get 0 absent 2-3 a; get 7 done 4-5 a", true},
		{"back again", "put 7 done 1-9 a; get 7 done 2-3 a; get 0 absent 4-5 a", false},
	} {
		h := parse(t, c.text)
		bad, err := h.Check(time.Minute)
		if err != nil || (len(bad) == 0) != c.good {
			t.Errorf("%s: %v, %v\n%s", c.what, bad, err, h.Text("k"))
		}
	}
}

// TestText shows a history up to the answer that cannot be.
func TestText(t *testing.T) {
	h := parse(t, "put 7 done 1-2 a; get 7 done 3-4 a; get 0 absent 5-6 a; get 0 absent 7-8 a")
	text := h.Text("k")
	if !strings.HasSuffix(text, "cannot be: 5..6 client 2 at a: get k 0: absent\n") || strings.Contains(text, "7..8") {
		t.Error(text)
	}
	h = parse(t, "put 7 done 1-2 a; get 7 done 3-4 a")
	if text := h.Text("k"); strings.Contains(text, "cannot") || strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
}

func TestNonsense(t *testing.T) {
	for _, o := range []Op{{Key: "k"}, {Key: "k", Kind: Get, Outcome: Done, Call: 2, Return: 1}, {Key: "k", Kind: Get, Outcome: 99}} {
		h := new(History)
		h.Add(o)
		if _, err := h.Check(time.Minute); err == nil {
			t.Errorf("%v is judged", o)
		}
	}
}
