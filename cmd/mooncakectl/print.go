package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/units"
	"mooncake/wire"
)

// column is a column of a table.
type column[T any] struct {
	name string
	show func(T) any
}

// list prints rows: a table, or the rows themselves as JSON.
func list[T any](e *env, rows []T, columns ...column[T]) error {
	if e.json {
		if rows == nil {
			rows = []T{}
		}
		return e.asJSON(rows)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	fmt.Fprintln(w, strings.Join(names, "\t"))
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = fmt.Sprint(c.show(row))
			if cells[i] == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	return w.Flush()
}

func (e *env) asJSON(v any) error {
	enc := json.NewEncoder(e.out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// fact is a line of a description.
type fact struct {
	name  string
	value any
}

// facts prints a description, or a value as JSON.
func facts(e *env, v any, lines ...fact) error {
	if e.json {
		return e.asJSON(v)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, f := range lines {
		if text := fmt.Sprint(f.value); text != "" {
			fmt.Fprintf(w, "%s\t%s\n", f.name, text)
		}
	}
	return w.Flush()
}

func id(u *mooncakev1.Uuid) string { return wire.UUID{Hi: u.GetHigh(), Lo: u.GetLow()}.String() }

func size(n uint64) string { return units.FormatSize(n) }

// percent is how much of something is used.
func percent(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

// at prints a time in milliseconds since 1970.
func at(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format(time.RFC3339)
}

// stateName is a bundle's state as the pages of the master have it.
func stateName(s mooncakev1.BundleState) string {
	return strings.TrimPrefix(s.String(), "BUNDLE_STATE_")
}
