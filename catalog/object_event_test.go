package catalog

import "strings"

// toldObjects is what somebody knows who hears of objects that come and go. Every catalog of the tests has one.
type toldObjects struct {
	known [2]map[string]bool // in memory, on disk
	wrong []string           // what cannot be: an object that came twice, or went without having come
}

func (t *toldObjects) hear(e ObjectEvent) {
	at := 0
	if e.Disk {
		at = 1
	}
	if t.known[at] == nil {
		t.known[at] = map[string]bool{}
	}
	if t.known[at][e.Key] != e.Gone {
		t.wrong = append(t.wrong, strings.Clone(e.Key))
	}
	if e.Gone {
		delete(t.known[at], e.Key)
	} else {
		t.known[at][strings.Clone(e.Key)] = true
	}
}

// check compares that with what there is.
func (t *toldObjects) check(f fataler, s *state) {
	f.Helper()
	var is [2]map[string]bool
	is[0], is[1] = map[string]bool{}, map[string]bool{}
	eachRecord(s, func(n name, r *record) {
		if r.marks&markStaged == 0 && s.hasComplete(n) {
			is[0][r.key()] = true
		}
	})
	for key, obj := range s.disks.byKey {
		if obj.complete() {
			is[1][key] = true
		}
	}
	for at, keys := range is {
		for key := range keys {
			if !t.known[at][key] {
				f.Fatalf("nobody was told of %q (%d)", key, at)
			}
		}
		if len(keys) != len(t.known[at]) {
			f.Fatalf("%d objects are known, and %d are there (%d)", len(t.known[at]), len(keys), at)
		}
	}
	if len(t.wrong) > 0 {
		f.Fatalf("told of twice, or gone before they came: %q", t.wrong)
	}
}
