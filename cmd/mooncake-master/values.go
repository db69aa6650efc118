package main

import (
	"fmt"
	"strconv"
	"time"

	"mooncake/catalog"
	"mooncake/internal/units"
	"mooncake/master"
)

// ttl is a duration flag in the spelling of the lease flags: a number with ms, s, m or h; a bare one is milliseconds.
type ttl struct{ d *time.Duration }

func (t ttl) String() string {
	if t.d == nil {
		return ""
	}
	return strconv.FormatInt(t.d.Milliseconds(), 10)
}

func (t ttl) Set(text string) error {
	d, err := units.ParseDuration(text)
	if err != nil {
		return err
	}
	*t.d = d
	return nil
}

func (t ttl) Type() string { return "string" }

// seconds is a duration flag that counts whole seconds.
type seconds struct{ d *time.Duration }

func (s seconds) String() string {
	if s.d == nil {
		return ""
	}
	return units.FormatSeconds(*s.d)
}

func (s seconds) Set(text string) error {
	d, err := units.ParseSeconds(text)
	if err != nil {
		return err
	}
	*s.d = d
	return nil
}

func (s seconds) Type() string { return "int64" }

// retention is the flag of retention rules.
type retention struct{ rules *[]catalog.RetentionRule }

func (r retention) String() string {
	if r.rules == nil {
		return ""
	}
	return master.FormatRetention(*r.rules)
}

func (r retention) Set(text string) (err error) {
	*r.rules, err = master.ParseRetention(text)
	return err
}

func (r retention) Type() string { return "string" }

// millis is a duration flag that counts whole milliseconds.
type millis struct{ d *time.Duration }

func (m millis) String() string {
	if m.d == nil {
		return ""
	}
	return strconv.FormatInt(m.d.Milliseconds(), 10)
}

func (m millis) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is no whole number of milliseconds", text)
	}
	*m.d = time.Duration(n) * time.Millisecond
	return nil
}

func (m millis) Type() string { return "int64" }
