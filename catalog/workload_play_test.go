package catalog

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func init() {
	deeds["workload"] = (*play).workload
	deeds["noworkload"] = (*play).noWorkload
	deeds["workloads"] = (*play).workloads
	deeds["whose"] = (*play).whose
	deeds["bundle"] = (*play).bundle
}

// workload NAME [prefix=,] [tenant=,] [soft=] [hard=] [reserved=] [evict=] [unread=] [ttl=] [priority=]: adds a rule, or replaces
// the one of that name
func (p *play) workload(a args) string {
	w := Workload{Name: key(a.word(0))}
	for k, v := range a.named {
		var err error
		switch k {
		case "prefix":
			w.Prefixes = strings.Split(v, ",")
		case "tenant":
			w.Tenants = strings.Split(v, ",")
		case "soft":
			w.SoftBytes = p.bytes(v)
		case "hard":
			w.HardBytes = p.bytes(v)
		case "reserved":
			w.ReservedBytes = p.bytes(v)
		case "evict":
			err = w.Evict.UnmarshalText([]byte(v))
		case "unread":
			err = w.Unread.UnmarshalText([]byte(v))
		case "ttl":
			w.TTLMs = p.ms(v)
		case "priority":
			w.Priority, err = strconv.Atoi(v)
		default:
			p.t.Fatalf("unknown word %q", k)
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	list := slices.DeleteFunc(p.catalog().Workloads(), func(x Workload) bool { return x.Name == w.Name })
	if err := p.catalog().SetWorkloads(p.now, append(list, w)); err != nil {
		return err.Error()
	}
	return "ok"
}

func (p *play) noWorkload(a args) string {
	list := slices.DeleteFunc(p.catalog().Workloads(), func(x Workload) bool { return x.Name == a.word(0) })
	if err := p.catalog().SetWorkloads(p.now, list); err != nil {
		return err.Error()
	}
	return "ok"
}

// workloads: what each of them has and lost
func (p *play) workloads(args) string {
	var list []string
	for _, st := range p.catalog().WorkloadStats() {
		text := fmt.Sprintf("%q %d keys %d bytes", st.Name, st.Keys, st.Bytes)
		if st.EvictedKeys > 0 {
			text += fmt.Sprintf(" evicted %d of %d bytes", st.EvictedKeys, st.EvictedBytes)
		}
		for _, e := range st.EvictedFor {
			who := strconv.Quote(e.Workload)
			if e.Watermark {
				who = "the watermark"
			}
			text += fmt.Sprintf(", %d for %s", e.Keys, who)
		}
		if st.EvictedUnreadKeys > 0 {
			text += fmt.Sprintf(", %d unread", st.EvictedUnreadKeys)
		}
		if st.ExpiredKeys > 0 {
			text += fmt.Sprintf(" expired %d of %d bytes", st.ExpiredKeys, st.ExpiredBytes)
		}
		if st.Refusals != (Refusals{}) {
			text += fmt.Sprintf(" refused %+v", st.Refusals)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

// whose KEY [tenant=]
func (p *play) whose(a args) string {
	return strconv.Quote(p.catalog().WorkloadOf(key(a.word(0)), a.named["tenant"]))
}

// bundle PREFIX NUMBER SIZE COUNT [unpublished]: stores meta, payload members and a manifest of 1 byte each
func (p *play) bundle(a args) string {
	n, _ := strconv.Atoi(a.word(1))
	count, _ := strconv.Atoi(a.word(3))
	prefix := fmt.Sprintf("%s/%032x/", a.word(0), n)
	keys := []string{prefix + "meta"}
	for i := range count {
		keys = append(keys, prefix+"buffer/m"+strconv.Itoa(i))
	}
	if !a.has("unpublished") {
		keys = append(keys, prefix+"manifest")
	}
	for i, k := range keys {
		size := p.bytes(a.word(2))
		if i == 0 || strings.HasSuffix(k, "/manifest") {
			size = 1
		}
		if _, err := p.catalog().PutStart(p.now, p.writer(a), k, size, p.options(a), nil); err != nil {
			return strings.TrimPrefix(k, prefix) + ": " + outcome(err)
		}
		if err := p.c.PutEnd(p.now, p.writer(a), k, 0, false, ReplicaTypeAll); err != nil {
			return strings.TrimPrefix(k, prefix) + ": " + outcome(err)
		}
	}
	p.now++
	return "ok"
}
