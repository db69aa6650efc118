package catalog

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The plays of testdata are stories in a small language, one deed a line, with what came of it. -rewrite writes the
// outcome anew. Time stands still but for tick and stall; clients ping once a second until they are killed.
func TestPlays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no plays", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			p := newPlay(t)
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				if d.Cmd != "play" {
					d.Fatalf(t, "unknown command %q", d.Cmd)
				}
				p.out.Reset()
				for line := range strings.Lines(d.Input) {
					p.line(strings.TrimSpace(line))
				}
				return p.out.String()
			})
		})
	}
}

type play struct {
	t        *testing.T
	cfg      Config
	c        *replayed
	now      Time
	out      strings.Builder
	clients  map[string]bool // alive
	segments map[string]Segment
	owner    map[string]string
	names    map[UUID]string // of segments and clients
	evicted  []string
}

func newPlay(t *testing.T) *play {
	return &play{
		t: t, cfg: testConfig(), now: 1_800_000_000_064,
		clients: map[string]bool{}, segments: map[string]Segment{}, owner: map[string]string{}, names: map[UUID]string{},
	}
}

// catalog makes the Catalog at its first use, after the play has set its rules.
func (p *play) catalog() *replayed {
	if p.c == nil {
		p.c = newTest(p.t, p.cfg)
		log := p.c.onChange
		p.c.OnChange(func(changes []Change) {
			log(changes)
			for i := range changes {
				if changes[i].Cause == CauseEvict {
					p.evicted = append(p.evicted, strings.Clone(changes[i].Key))
				}
			}
		})
	}
	return p.c
}

// args are the words of a line: those without = in order, the others by name.
type args struct {
	words []string
	named map[string]string
}

func (a args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (p *play) line(line string) {
	if line == "" || strings.HasPrefix(line, "#") {
		return
	}
	a := args{named: map[string]string{}}
	for _, word := range strings.Fields(line)[1:] {
		if k, v, ok := strings.Cut(word, "="); ok {
			a.named[k] = v
		} else {
			a.words = append(a.words, word)
		}
	}
	verb := strings.Fields(line)[0]
	deed, ok := deeds[verb]
	if !ok {
		p.t.Fatalf("unknown deed %q", line)
	}
	p.evicted = nil
	result := deed(p, a)
	if p.c != nil {
		p.c.now = max(p.c.now, p.now)
		p.c.compare()
	}
	if len(p.evicted) > 0 {
		slices.Sort(p.evicted)
		result = strings.TrimSpace(result + " evicted: " + strings.Join(p.evicted, " "))
	}
	fmt.Fprintf(&p.out, "%s: %s\n", line, short(result))
}

var deeds = map[string]func(p *play, a args) string{
	"rules":     (*play).rules,
	"mount":     (*play).mount,
	"remount":   (*play).remount,
	"unmount":   (*play).unmount,
	"ping":      (*play).ping,
	"kill":      (*play).kill,
	"pause":     (*play).kill,
	"resume":    (*play).resume,
	"put":       (*play).put,
	"store":     (*play).store,
	"fill":      (*play).fill,
	"end":       (*play).end,
	"revoke":    (*play).revoke,
	"upsert":    (*play).upsert,
	"get":       (*play).get,
	"exist":     (*play).exist,
	"remove":    (*play).remove,
	"removeall": (*play).removeAll,
	"clear":     (*play).clear,
	"keys":      (*play).keys,
	"segments":  (*play).listSegments,
	"stats":     (*play).stats,
	"tick":      (*play).tick,
	"stall":     (*play).stall,
	"clients":   (*play).stages,
	"suspect":   (*play).suspect,
	"dead":      (*play).dead,
}

func (p *play) rules(a args) string {
	c := &p.cfg
	for k, v := range a.named {
		switch k {
		case "lease":
			c.LeaseMs = p.ms(v)
		case "active":
			c.ClientActiveTTLMs = p.ms(v)
		case "suspicion":
			c.ClientSuspicionTTLMs = p.ms(v)
		case "lost":
			c.ClientLostTTLMs = p.ms(v)
		case "discard":
			c.PutDiscardMs = p.ms(v)
		case "release":
			c.PutReleaseMs = p.ms(v)
		case "idle":
			c.BundleStagingIdleMs = p.ms(v)
		case "hide":
			c.HideDamagedBundles = v == "yes"
		case "retain":
			c.Retention = p.retention(v)
		case "watermark":
			c.HighWatermark, _ = strconv.ParseFloat(v, 64)
		case "evictsoft":
			c.AllowEvictSoftPinned = v == "yes"
		default:
			p.t.Fatalf("unknown rule %q", k)
		}
	}
	return "ok"
}

func (p *play) ms(text string) int64 {
	for unit, ms := range map[string]int64{"ms": 1, "s": 1000, "m": 60_000} {
		if n, err := strconv.ParseInt(strings.TrimSuffix(text, unit), 10, 64); err == nil && strings.HasSuffix(text, unit) {
			return n * ms
		}
	}
	p.t.Fatalf("bad time %q", text)
	return 0
}

func (p *play) bytes(text string) uint64 {
	shift := 0
	switch {
	case strings.HasSuffix(text, "K"):
		shift = 10
	case strings.HasSuffix(text, "M"):
		shift = 20
	}
	n, err := strconv.ParseUint(strings.TrimRight(text, "KM"), 10, 64)
	if err != nil {
		p.t.Fatalf("bad size %q", text)
	}
	return n << shift
}

func outcome(err error) string {
	var e Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e):
		return strings.ToUpper(e.Error())
	}
	return err.Error()
}

// id gives every name of the play its own UUID.
func (p *play) id(text string) UUID {
	id := UUID{Hi: 7}
	for _, b := range []byte(text) {
		id.Lo = id.Lo<<8 | uint64(b)
	}
	p.names[id] = text
	return id
}

// mount CLIENT SEGMENT SIZE [name=] [base=] [host=]
func (p *play) mount(a args) string {
	s := Segment{
		ID: p.id(a.word(1)), Name: a.word(0), Base: 1<<40 + p.id(a.word(1)).Lo<<30, Size: p.bytes(a.word(2)),
		Endpoint: a.word(0) + ":1", Protocol: "tcp", HostID: a.named["host"],
	}
	if v, ok := a.named["at"]; ok {
		s.Endpoint = v
	}
	if v, ok := a.named["name"]; ok {
		s.Name = v
	}
	if v, ok := a.named["base"]; ok {
		s.Base, _ = strconv.ParseUint(v, 0, 64)
	}
	p.clients[a.word(0)] = true
	err := p.catalog().MountSegment(p.now, p.id(a.word(0)), s)
	if _, ok := p.segments[a.word(1)]; !ok && err == nil {
		p.segments[a.word(1)], p.owner[a.word(1)] = s, a.word(0)
	}
	return outcome(err)
}

// remount CLIENT [size=]: with all segments it ever mounted
func (p *play) remount(a args) string {
	var list []Segment
	for text, s := range p.segments {
		if p.owner[text] == a.word(0) || a.named["steal"] == text {
			if v, ok := a.named["size"]; ok {
				s.Size = p.bytes(v)
			}
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(x, y Segment) int { return int(x.ID.Lo) - int(y.ID.Lo) })
	return outcome(p.catalog().ReMountSegments(p.now, p.id(a.word(0)), list))
}

func (p *play) unmount(a args) string {
	gone, err := p.catalog().UnmountSegment(p.now, p.id(a.word(0)), UUID{})
	for _, s := range gone {
		return "gone " + p.names[s.ID]
	}
	return outcome(err)
}

func (p *play) ping(a args) string {
	if p.catalog().Ping(p.now, p.id(a.word(0))) {
		return "ok"
	}
	return "need remount"
}

func (p *play) kill(a args) string {
	p.clients[a.word(0)] = false
	return "ok"
}

func (p *play) resume(a args) string {
	p.clients[a.word(0)] = true
	return p.ping(a)
}

func (p *play) options(a args) *PutOptions {
	o := &PutOptions{Replicas: 1, Group: a.named["group"], Tenant: a.named["tenant"], HardPin: a.has("hard"), File: a.has("file"), HostID: a.named["host"], SameHost: a.has("samehost")}
	if v, ok := a.named["replicas"]; ok {
		o.Replicas, _ = strconv.ParseUint(v, 10, 64)
	}
	if v, ok := a.named["prefer"]; ok {
		o.Preferred = strings.Split(v, ",")
	}
	switch a.named["soft"] {
	case "enable":
		o.SoftPin = SoftPinEnable
	case "disable":
		o.SoftPin = SoftPinDisable
	case "odd":
		o.SoftPin = 9
	}
	if v, ok := a.named["ttl"]; ok {
		o.SoftPinTTLSet, o.SoftPinTTLMs = true, p.ms(v)
	}
	return o
}

func (p *play) writer(a args) UUID {
	if by, ok := a.named["by"]; ok {
		return p.id(by)
	}
	return p.id("w")
}

func (p *play) places(replicas []Replica) string {
	var list []string
	for _, r := range replicas {
		if r.Disk != nil {
			list = append(list, fmt.Sprintf("disk of %q", p.names[r.Disk.Owner]))
			continue
		}
		list = append(list, fmt.Sprintf("%s+%d", p.names[r.Segment.ID], r.Offset))
	}
	return strings.Join(list, " ")
}

func key(text string) string {
	if text == `""` {
		return ""
	}
	if n, ok := strings.CutPrefix(text, "long:"); ok {
		size, _ := strconv.Atoi(n)
		return strings.Repeat("k", size)
	}
	return ofBundle(text)
}

// put KEY SIZE [by=] [replicas=] [group=] [prefer=] [hard] [soft=] [ttl=]
func (p *play) put(a args) string {
	replicas, err := p.catalog().PutStart(p.now, p.writer(a), key(a.word(0)), p.bytes(a.word(1)), p.options(a), nil)
	if err != nil {
		return outcome(err)
	}
	return p.places(replicas)
}

// store is put and end.
func (p *play) store(a args) string {
	result := p.put(a)
	if err := p.c.PutEnd(p.now, p.writer(a), key(a.word(0)), 0, false, ReplicaTypeAll); err != nil && result != "" {
		return result + ", end: " + outcome(err)
	}
	return result
}

// fill PREFIX SIZE COUNT: store PREFIX0 …, one millisecond apart
func (p *play) fill(a args) string {
	n, _ := strconv.Atoi(a.word(2))
	failed := 0
	for i := range n {
		k := a.word(0) + strconv.Itoa(i)
		if _, err := p.catalog().PutStart(p.now, p.writer(a), k, p.bytes(a.word(1)), p.options(a), nil); err != nil {
			failed++
			continue
		}
		if err := p.c.PutEnd(p.now, p.writer(a), k, 0, false, ReplicaTypeAll); err != nil {
			failed++
		}
		p.now++
	}
	return fmt.Sprintf("%d of %d failed", failed, n)
}

func (p *play) end(a args) string {
	return outcome(p.catalog().PutEnd(p.now, p.writer(a), key(a.word(0)), 0, false, ReplicaTypeAll))
}

func (p *play) revoke(a args) string {
	return outcome(p.catalog().PutRevoke(p.now, p.writer(a), key(a.word(0)), ReplicaTypeAll))
}

func (p *play) upsert(a args) string {
	replicas, err := p.catalog().UpsertStart(p.now, p.writer(a), key(a.word(0)), p.bytes(a.word(1)), p.options(a), nil)
	if err != nil {
		return outcome(err)
	}
	return p.places(replicas)
}

func (p *play) get(a args) string {
	o, replicas, err := p.catalog().Get(p.now, key(a.word(0)), nil)
	if err != nil {
		return outcome(err)
	}
	return fmt.Sprintf("%s, %d bytes", p.places(replicas), o.Size)
}

func (p *play) exist(a args) string {
	return strconv.FormatBool(p.catalog().Exist(p.now, key(a.word(0))))
}

func (p *play) remove(a args) string {
	return outcome(p.catalog().Remove(p.now, key(a.word(0)), a.has("force")))
}

func (p *play) removeAll(a args) string {
	var match func(string) bool
	if prefix, ok := a.named["prefix"]; ok {
		match = func(key string) bool { return strings.HasPrefix(key, prefix) }
	}
	return strconv.FormatInt(p.catalog().RemoveMatching(p.now, match, a.has("force")), 10)
}

func (p *play) clear(a args) string {
	name := a.named["name"]
	return strconv.FormatBool(p.catalog().ClearReplicas(p.now, p.writer(a), key(a.word(0)), name))
}

func (p *play) keys(args) string {
	list := slices.Sorted(p.catalog().Keys)
	if len(list) > 12 {
		return fmt.Sprintf("%d, %s … %s", len(list), list[0], list[len(list)-1])
	}
	return strings.Join(list, " ")
}

func (p *play) listSegments(args) string {
	var list []string
	for _, s := range p.catalog().Segments() {
		text := fmt.Sprintf("%s of %s %q used %d held %d objects %d", p.names[s.ID], p.names[s.Client], s.Name, s.Used, s.Quarantined, s.ObjectCount)
		if s.Status != SegmentOK {
			text += fmt.Sprint(" state ", s.Status)
		}
		list = append(list, text)
	}
	return strings.Join(list, "; ")
}

func (p *play) stats(args) string {
	s := p.catalog().Stats()
	text := fmt.Sprintf("keys %d open %d soft %d allocated %d quarantined %d of %d active %d evicted %d discarded %d released %d refused %d partial %d",
		s.Keys, s.OpenKeys, s.SoftPinnedKeys, s.AllocatedBytes, s.QuarantinedBytes, s.CapacityBytes, s.ActiveClients,
		s.EvictedKeys, s.DiscardedPuts, s.ReleasedPuts, s.PutStartAllocFailures, s.PutStartPartialAllocs)
	if s.LostKeys+s.LostBytes > 0 {
		text += fmt.Sprintf(" lost %d keys %d bytes", s.LostKeys, s.LostBytes)
	}
	if s.HandOutReuses > 0 {
		text += fmt.Sprintf(" reused %d", s.HandOutReuses)
	}
	for _, r := range []struct {
		why string
		n   uint64
	}{
		{"leased", s.Refusals.Leased},
		{"pinned", s.Refusals.Pinned},
		{"in flight", s.Refusals.InFlight},
		{"own", s.Refusals.OwnBundle},
		{"quota", s.Refusals.Quota},
		{"reserved", s.Refusals.Reserved},
		{"unread kept", s.Refusals.UnreadKept},
		{"no segment", s.Refusals.NoSegment},
	} {
		if r.n > 0 {
			text += fmt.Sprintf(" (%s %d)", r.why, r.n)
		}
	}
	return text
}

// clients: everybody's stage, in order of name
func (p *play) stages(args) string {
	var list []string
	for _, text := range slices.Sorted(maps.Keys(p.clients)) {
		list = append(list, text+" "+p.catalog().ClientStage(p.id(text)).String())
	}
	return strings.Join(list, ", ")
}

// suspect CLIENT: a probe failed
func (p *play) suspect(a args) string {
	return strconv.FormatBool(p.catalog().Suspect(p.now, p.id(a.word(0))))
}

// dead CLIENT [ago=]: its connections are gone
func (p *play) dead(a args) string {
	at := p.now
	if v, ok := a.named["ago"]; ok {
		at -= Time(p.ms(v))
	}
	return strconv.Itoa(p.catalog().WritersGone(p.now, []Departure{{p.id(a.word(0)), at}})[0]) + " writes ended"
}

// tick TIME: pings and sweeps, once a second
func (p *play) tick(a args) string {
	var events []string
	end := p.now + Time(p.ms(a.word(0)))
	start := p.now
	for p.now < end {
		p.now = min(end, p.now+1000)
		for client, alive := range p.clients {
			if alive {
				p.catalog().Ping(p.now, p.id(client))
			}
		}
		s := p.catalog().Sweep(p.now)
		for _, e := range []struct {
			what string
			ids  []UUID
		}{{"suspect", s.SuspectClients}, {"suspected", s.SuspectedClients}, {"lost", s.LostClients}, {"gone", s.GoneClients}} {
			for _, id := range e.ids {
				events = append(events, fmt.Sprintf("after %d ms %s is %s", p.now-start, p.names[id], e.what))
			}
		}
		for _, seg := range s.LostSegments {
			events = append(events, "without "+p.names[seg.ID])
		}
		for _, seg := range s.LeftSegments {
			events = append(events, fmt.Sprintf("after %d ms %s left", p.now-start, p.names[seg.ID]))
		}
		if s.AbortedPuts > 0 {
			events = append(events, fmt.Sprintf("%d writes ended", s.AbortedPuts))
		}
		if s.ExpiredKeys > 0 {
			events = append(events, fmt.Sprintf("after %d ms %d expired", p.now-start, s.ExpiredKeys))
		}
		events = append(events, p.news(s.Bundles)...)
		if s.ReleasedPuts > 0 {
			events = append(events, fmt.Sprintf("after %d ms %d unfinished released", p.now-start, s.ReleasedPuts))
		}
	}
	if len(events) == 0 {
		return "ok"
	}
	return strings.Join(events, ", ")
}

// stall TIME: nothing runs
func (p *play) stall(a args) string {
	p.now += Time(p.ms(a.word(0)))
	return "ok"
}
