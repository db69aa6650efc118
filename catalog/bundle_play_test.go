package catalog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

func init() {
	deeds["bundles"] = (*play).bundles
	deeds["members"] = (*play).members
	deeds["reclaim"] = (*play).reclaim
	deeds["gc"] = (*play).gc
	deeds["totals"] = (*play).totals
}

// In plays @7 is the id of a bundle, and @7/meta a key of it.
var (
	bundleWord = regexp.MustCompile(`^@(\w*?)(\d+)`)
	bundleID   = regexp.MustCompile(`p(\w*)/d/0*([0-9]+)\b`)
)

func ofBundle(text string) string {
	return bundleWord.ReplaceAllStringFunc(text, func(word string) string {
		m := bundleWord.FindStringSubmatch(word)
		n, _ := strconv.Atoi(m[2])
		return fmt.Sprintf("p%s/d/%032d", m[1], n)
	})
}

// short writes ids as the play does.
func short(text string) string { return bundleID.ReplaceAllString(text, "@$1$2") }

// retention PREFIX:AGE or PREFIX:COUNT, separated by commas
func (p *play) retention(text string) (rules []RetentionRule) {
	for _, word := range strings.Split(text, ",") {
		prefix, bound, _ := strings.Cut(word, ":")
		rule := RetentionRule{Prefix: prefix}
		if n, err := strconv.Atoi(bound); err == nil {
			rule.MaxCount = n
		} else {
			rule.MaxAgeMs = p.ms(bound)
		}
		rules = append(rules, rule)
	}
	return rules
}

func (p *play) describe(b *BundleInfo) string {
	text := fmt.Sprintf("%s %v %d keys %d bytes", b.ID, b.State, b.Keys, b.AllocatedBytes)
	if open := b.Keys - b.Payload.CompleteKeys - b.Meta.CompleteKeys - b.Manifest.CompleteKeys; open > 0 {
		text += fmt.Sprintf(" %d unfinished", open)
	}
	if b.LostKeys > 0 {
		text += fmt.Sprintf(" %d lost", b.LostKeys)
	}
	if b.Reads > 0 {
		text += fmt.Sprintf(" read %d times", b.Reads)
	}
	if b.Evicted {
		text += " evicted"
	}
	return text
}

// bundles [prefix=] [partition=] [state=] [group=] [older=]: in pages of two
func (p *play) bundles(a args) string {
	f := BundleFilter{
		Prefix: a.named["prefix"], Partition: a.named["partition"], Group: a.named["group"], State: ParseBundleState(a.named["state"]),
	}
	if v, ok := a.named["older"]; ok {
		f.OlderThanMs = p.ms(v)
	}
	var list []string
	for after, more := "", true; more; {
		page, next := p.catalog().Bundles(p.now, f, after, 2)
		for i := range page {
			list = append(list, p.describe(&page[i]))
		}
		after, more = next, next != ""
	}
	return strings.Join(list, "; ")
}

func (p *play) members(a args) string {
	info, members, ok := p.catalog().Bundle(p.now, key(a.word(0)))
	if !ok {
		return "unknown"
	}
	list := []string{p.describe(&info)}
	for _, m := range members {
		list = append(list, fmt.Sprintf("%s %v %d bytes complete %v on %s", m.Key, m.Part, m.Size, m.Complete, p.places(m.Replicas)))
	}
	return strings.Join(list, "; ")
}

func (p *play) reclaim(a args) string {
	info, err := p.catalog().ReclaimBundle(p.now, key(a.word(0)))
	if err != nil {
		return outcome(err)
	}
	return p.describe(&info)
}

// gc [dry]
func (p *play) gc(a args) string {
	var list []string
	infos := p.catalog().CollectBundles(p.now, a.has("dry"))
	for i := range infos {
		list = append(list, p.describe(&infos[i]))
	}
	return strings.Join(list, "; ")
}

func (p *play) totals(args) string {
	var list []string
	for _, t := range p.catalog().BundleTotals(p.now) {
		list = append(list, fmt.Sprintf("%v %d bundles %d keys %d bytes %d allocated", t.State, t.Bundles, t.Keys, t.Bytes, t.Allocated))
	}
	return strings.Join(list, "; ")
}

// news tells what a sweep says of bundles.
func (p *play) news(n BundleNews) (events []string) {
	for _, e := range []struct {
		what string
		list []BundleInfo
	}{{"evicted unread", n.EvictedUnread}, {"collected", n.Collected}, {"retired", n.Retired}} {
		for i := range e.list {
			events = append(events, e.what+" "+p.describe(&e.list[i]))
		}
	}
	for _, e := range []struct {
		what string
		list []BundleTime
	}{{"published", n.Published}, {"first read", n.HandedOff}} {
		for _, b := range e.list {
			events = append(events, fmt.Sprintf("%s %s after %d ms", b.ID, e.what, b.Ms))
		}
	}
	return events
}
