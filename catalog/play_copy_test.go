package catalog

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

func init() {
	maps.Copy(deeds, map[string]func(p *play, a args) string{
		"copy":       func(p *play, a args) string { return p.startCopy(a, false) },
		"move":       func(p *play, a args) string { return p.startCopy(a, true) },
		"copyend":    func(p *play, a args) string { return p.ended((*Catalog).CopyEnd, a) },
		"moveend":    func(p *play, a args) string { return p.ended((*Catalog).MoveEnd, a) },
		"copyrevoke": func(p *play, a args) string { return p.ended((*Catalog).CopyRevoke, a) },
		"moverevoke": func(p *play, a args) string { return p.ended((*Catalog).MoveRevoke, a) },
		"pin":        (*play).pin,
		"leave":      (*play).leave,
		"state":      (*play).setState,
		"drain":      (*play).drain,
	})
}

// copy CLIENT KEY SOURCE TARGET… ; move likewise with one target
func (p *play) startCopy(a args, move bool) string {
	c, id, k := p.catalog(), p.id(a.word(0)), key(a.word(1))
	var from Replica
	var made []Replica
	var err error
	if move {
		from, made, err = c.MoveStart(p.now, id, k, a.word(2), a.word(3), nil)
	} else {
		from, made, err = c.CopyStart(p.now, id, k, a.word(2), a.words[3:], nil)
	}
	if err != nil {
		return outcome(err)
	}
	return p.places([]Replica{from}) + " to " + p.places(made)
}

// copyend CLIENT KEY and so on
func (p *play) ended(fn func(*Catalog, Time, UUID, string) error, a args) string {
	return outcome(fn(p.catalog().Catalog, p.now, p.id(a.word(0)), key(a.word(1))))
}

// leave CLIENT SEGMENT TIME
func (p *play) leave(a args) string {
	return outcome(p.catalog().LeaveSegment(p.now, p.id(a.word(1)), p.id(a.word(0)), p.ms(a.word(2))))
}

var stateNumbers = map[string]uint8{"ok": SegmentOK, "draining": SegmentDraining, "drained": SegmentDrained, "leaving": SegmentLeaving}

// state NAME STATE FROM…
func (p *play) setState(a args) string {
	var from []uint8
	for _, word := range a.words[2:] {
		from = append(from, stateNumbers[word])
	}
	return outcome(p.catalog().SetSegmentState(p.now, a.word(0), stateNumbers[a.word(1)], a.named["note"], from...))
}

// drain NAME MOST
func (p *play) drain(a args) string {
	most, _ := strconv.Atoi(a.word(1))
	step := p.catalog().DrainStep(p.now, a.word(0), most, false)
	text := strings.Join(step.Keys, " ")
	return fmt.Sprintf("%s, %d blocked, %d left, all seen %v", text, step.Blocked, step.Left, step.Whole)
}

// pin KEY TIME ; 0s takes the pin away
func (p *play) pin(a args) string {
	return outcome(p.catalog().SoftPin(p.now, key(a.word(0)), p.ms(a.word(1))))
}
