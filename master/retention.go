package master

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"mooncake/catalog"
	"mooncake/internal/limits"
	"mooncake/internal/units"
)

// ParseRetention reads the rules of --bundle_retention: PREFIX:AGE:COUNT, more after commas. A prefix may contain colons.
func ParseRetention(text string) (rules []catalog.RetentionRule, err error) {
	if text == "" {
		return nil, nil
	}
	items := strings.Split(text, ",")
	if len(items) > limits.RetentionRules {
		return nil, fmt.Errorf("%d rules, at most %d", len(items), limits.RetentionRules)
	}
	for _, item := range items {
		rule, err := parseRetentionRule(item)
		if err != nil {
			return nil, err
		}
		for _, r := range rules {
			if r.Prefix == rule.Prefix {
				return nil, fmt.Errorf("two rules for the prefix %s", quoted(rule.Prefix))
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

func parseRetentionRule(item string) (r catalog.RetentionRule, err error) {
	rest, count, two := cutLastColon(item)
	prefix, age, three := cutLastColon(rest)
	if !two || !three {
		return r, fmt.Errorf("%s is not PREFIX:AGE:COUNT", quoted(item))
	}
	r.Prefix = prefix
	if age != "" {
		d, err := units.ParseDuration(age)
		if err != nil {
			return r, err
		}
		r.MaxAgeMs = d.Milliseconds()
	}
	if count != "" {
		if r.MaxCount, err = strconv.Atoi(count); err != nil || r.MaxCount < 0 || r.MaxCount > math.MaxInt32 {
			return r, fmt.Errorf("the count %s is no whole number from 0 to %d", quoted(count), math.MaxInt32)
		}
	}
	if r.MaxAgeMs == 0 && r.MaxCount == 0 {
		return r, fmt.Errorf("%s has neither an age nor a count above 0", quoted(item))
	}
	return r, nil
}

func cutLastColon(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// FormatRetention writes what ParseRetention reads.
func FormatRetention(rules []catalog.RetentionRule) string {
	items := make([]string, len(rules))
	for i, r := range rules {
		age, count := "", ""
		if r.MaxAgeMs > 0 {
			age = durationText(r.MaxAgeMs)
		}
		if r.MaxCount > 0 {
			count = strconv.Itoa(r.MaxCount)
		}
		items[i] = r.Prefix + ":" + age + ":" + count
	}
	return strings.Join(items, ",")
}

// durationText writes a duration with the largest unit that it is a whole number of.
func durationText(ms int64) string {
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if ms%u.size.Milliseconds() == 0 {
			return strconv.FormatInt(ms/u.size.Milliseconds(), 10) + u.name
		}
	}
	return strconv.FormatInt(ms, 10) + "ms"
}
