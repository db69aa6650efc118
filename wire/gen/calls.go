package main

import (
	"fmt"
	"path/filepath"

	"mooncake/wire/pack"
)

// readCalls reads rpcs.json, checks every id, literal and hash in it, and joins the releases.
func (m *model) readCalls(dir string) error {
	var file struct {
		Prefix   string `json:"service_prefix"`
		Versions map[string][]jsonCall
	}
	if err := readJSON(filepath.Join(dir, "rpcs.json"), &file); err != nil {
		return err
	}
	if file.Prefix != pack.ServicePrefix {
		return fmt.Errorf("service prefix is %q", file.Prefix)
	}
	byName := map[string]*call{}
	for r, release := range releases {
		for _, j := range file.Versions[release] {
			c := byName[j.Name]
			if c == nil {
				c = &call{name: j.Name, id: j.ID}
				byName[j.Name] = c
				m.calls = append(m.calls, c)
			}
			if err := m.addCall(c, r, &j); err != nil {
				return fmt.Errorf("%s %s: %w", release, j.Name, err)
			}
		}
	}
	for _, c := range m.calls {
		if err := m.finishCall(c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// addCall notes one release's form of a call.
func (m *model) addCall(c *call, r int, j *jsonCall) error {
	if want := pack.FunctionID(pack.ServicePrefix + j.Name); j.ID != want || c.id != want {
		return fmt.Errorf("id is %08x, recorded %08x", want, j.ID)
	}
	c.in[r] = true
	for _, a := range j.Request {
		n, err := m.schemas[r].parse(a)
		if err != nil {
			return err
		}
		c.args[r] = append(c.args[r], n)
	}
	if root := requestRoot(c.args[r]); root != nil {
		if err := checkLiteral(literal(root), j.RequestLiteral, j.RequestHash); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	reply, err := m.schemas[r].parse(j.Response)
	if err != nil {
		return err
	}
	c.reply[r] = reply
	if err := checkLiteral(literal(reply), j.ResponseLiteral, j.ResponseHash); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// finishCall fills the releases without the call and finds the richest form.
func (m *model) finishCall(c *call) error {
	newest := len(releases) - 1
	if !c.in[newest] {
		return fmt.Errorf("not in release %s: its Go form is unknown", releases[newest])
	}
	for r := range releases {
		b := c.borrow(r)
		c.args[r], c.reply[r] = c.args[b], c.reply[b]
	}
	c.richArgs, c.rich = c.args[newest], c.reply[newest]
	c.names = argumentNames[c.name]
	if len(c.names) != len(c.richArgs) {
		return fmt.Errorf("%d arguments, %d names in the table", len(c.richArgs), len(c.names))
	}
	for r := range releases {
		if len(c.args[r]) > len(c.richArgs) {
			return fmt.Errorf("release %s has more arguments than the newest", releases[r])
		}
	}
	return nil
}
