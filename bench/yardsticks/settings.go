package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"mooncake/internal/limits"
	"mooncake/internal/units"
	"mooncake/interop"
)

// settings are the command line.
type settings struct {
	suites      []string
	contestants []contestant
	segments    []contestant // further segment daemons that join a master of ours
	binaries    string
	rounds      int
	phase       time.Duration // of one phase
	keys        int64         // that the suites of calls begin with
	many        int64         // the most keys, of suite memory and gaps
	settle      time.Duration // after which memory is looked at
	dataSizes   []int64       // of objects that are moved
	clients     []int         // that move them at a time
	room        int64         // bytes of a segment whose objects are moved
	steps       int           // of the traced loop
	rows        int           // samples of a bundle
	rayPython   string
	limit       time.Duration
	json        string
	out         io.Writer
	progress    io.Writer
}

// commands collects flags that may be repeated, each name=command.
type commands []string

func (m *commands) String() string { return strings.Join(*m, " ") }

// Set takes one.
func (m *commands) Set(text string) error {
	*m = append(*m, text)
	return nil
}

func (s *settings) parse(args []string) error {
	f := flag.NewFlagSet("yardsticks", flag.ContinueOnError)
	f.SetOutput(io.Discard) // the error says it all
	suite := f.String("suite", "all", "what is measured, comma between: all, "+strings.Join(suiteNames(), ", "))
	names := f.String("contestants", "13,ours", "who is measured, comma between: 12, 13, 14, ours")
	var more, daemons commands
	f.Var(&more, "master", "one more master, as name=command with {rpc} and {met} for its ports; may be repeated")
	f.Var(&daemons, "segment", "one more segment daemon before our master for suite data, as name=command; may be repeated")
	f.StringVar(&s.binaries, "binaries", "", "folder with our daemons; empty builds them")
	f.IntVar(&s.rounds, "rounds", 5, "how often each phase is measured")
	secs := f.Float64("secs", 1, "how long a phase is, in seconds")
	f.Int64Var(&s.keys, "keys", 100_000, "objects that are there when calls are measured")
	f.Int64Var(&s.many, "many", 10_000_000, "objects of the largest catalog")
	f.DurationVar(&s.settle, "settle", 30*time.Second, "how long after RemoveAll memory is looked at")
	sizes := f.String("sizes", "4kib,64kib,1mib,16mib,64mib", "sizes of the objects that are moved, comma between, in whole KiB")
	clients := f.String("clients", "1,4", "how many clients move them at a time, comma between")
	room := f.String("room", "1536mib", "memory of the segment through which they are moved")
	f.IntVar(&s.steps, "steps", 1500, "steps of the traced training loop")
	f.IntVar(&s.rows, "samples", 32_768, "samples of a bundle")
	f.StringVar(&s.rayPython, "ray-python", "", "interpreter with the packages ray and numpy; empty leaves Ray out")
	f.DurationVar(&s.limit, "limit", time.Hour, "how long the whole may take")
	f.StringVar(&s.json, "json", "", "file that everything measured is written to; empty writes only tables")
	if err := f.Parse(args); err != nil {
		if err == flag.ErrHelp {
			f.SetOutput(s.out)
			f.PrintDefaults()
		}
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q is no flag", f.Arg(0))
	}
	s.phase = time.Duration(*secs * float64(time.Second))
	if err := s.takeSuites(*suite); err != nil {
		return err
	}
	if err := s.takeContestants(*names, more, daemons); err != nil {
		return err
	}
	if err := s.takeMoves(*sizes, *clients, *room); err != nil {
		return err
	}
	return s.check(*secs)
}

// takeMoves reads what is said of objects that are moved.
func (s *settings) takeMoves(sizes, clients, room string) error {
	bytes, err := units.ParseSize(room)
	if err != nil || bytes < limits.BenchRoomBytesMin || bytes > limits.BenchRoomBytesMax {
		return fmt.Errorf("-room=%s is no size from %d to %d bytes", room, limits.BenchRoomBytesMin, int64(limits.BenchRoomBytesMax))
	}
	s.room = int64(bytes)
	for text := range strings.SplitSeq(sizes, ",") {
		size, err := units.ParseSize(text)
		if err != nil || size < 1024 || size%1024 != 0 || int64(size) > s.room/2 {
			return fmt.Errorf("-sizes=%s: %q is no size in whole KiB up to half of -room=%s", sizes, text, room)
		}
		s.dataSizes = append(s.dataSizes, int64(size))
	}
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > limits.BenchClients {
			return fmt.Errorf("-clients=%s: %q is no number from 1 to %d", clients, text, limits.BenchClients)
		}
		s.clients = append(s.clients, n)
	}
	return nil
}

func (s *settings) takeSuites(text string) error {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "all" {
			s.suites = suiteNames()
			return nil
		}
		if !slices.Contains(suiteNames(), name) {
			return fmt.Errorf("-suite=%s: there is no %q; there are all, %s", text, name, strings.Join(suiteNames(), ", "))
		}
		s.suites = append(s.suites, name)
	}
	return nil
}

func (s *settings) takeContestants(text string, more, daemons commands) error {
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == ours {
			s.contestants = append(s.contestants, contestant{name: ours})
			continue
		}
		r, err := release(name)
		if err != nil {
			return fmt.Errorf("-contestants=%s: %w", text, err)
		}
		s.contestants = append(s.contestants, contestant{name: name, release: r})
	}
	for _, m := range more {
		name, command, ok := strings.Cut(m, "=")
		if !ok || name == "" || !strings.Contains(command, "{rpc}") {
			return fmt.Errorf("-master=%s: want name=command, with {rpc} where the port of calls goes", m)
		}
		s.contestants = append(s.contestants, contestant{name: name, command: strings.Fields(command)})
	}
	for _, d := range daemons {
		name, command, ok := strings.Cut(d, "=")
		words := strings.Fields(command)
		if !ok || name == "" || len(words) == 0 {
			return fmt.Errorf("-segment=%s: want name=command", d)
		}
		if !slices.Contains(s.suites, "data") {
			return fmt.Errorf("-segment=%s: only suite data measures it, and -suite leaves that out", d)
		}
		s.segments = append(s.segments, contestant{name: name, segment: words})
	}
	seen := map[string]bool{}
	for _, c := range slices.Concat(s.contestants, s.segments) {
		if seen[c.name] {
			return fmt.Errorf("-contestants=%s: %s is there twice", text, c.name)
		}
		seen[c.name] = true
	}
	return nil
}

func release(name string) (interop.Release, error) {
	for _, r := range interop.Releases {
		if r.String() == name {
			return r, nil
		}
	}
	return 0, fmt.Errorf("%q is neither ours nor a release that the tests know", name)
}

func (s *settings) check(secs float64) error {
	switch {
	case s.rounds < 1 || s.rounds > limits.BenchRounds:
		return fmt.Errorf("-rounds=%d is not from 1 to %d", s.rounds, limits.BenchRounds)
	case s.phase < time.Millisecond || s.phase > limits.BenchPhaseMs*time.Millisecond:
		return fmt.Errorf("-secs=%v is not from 0.001 to %d", secs, limits.BenchPhaseMs/1000)
	case s.keys < 100 || s.keys > limits.BenchKeys:
		return fmt.Errorf("-keys=%d is not from 100 to %d", s.keys, limits.BenchKeys)
	case s.many < 1000 || s.many > limits.BenchKeys:
		return fmt.Errorf("-many=%d is not from 1000 to %d", s.many, limits.BenchKeys)
	case s.settle < 0 || s.settle > limits.BenchPhaseMs*time.Millisecond:
		return fmt.Errorf("-settle=%v is not from 0 to %v", s.settle, limits.BenchPhaseMs*time.Millisecond)
	case s.steps < 1 || s.steps > limits.BenchSteps:
		return fmt.Errorf("-steps=%d is not from 1 to %d", s.steps, limits.BenchSteps)
	case s.rows < 1 || s.rows > limits.BenchSamples:
		return fmt.Errorf("-samples=%d is not from 1 to %d", s.rows, limits.BenchSamples)
	case s.limit <= 0 || s.limit > limits.BenchLimitMs*time.Millisecond:
		return fmt.Errorf("-limit=%v is not above 0 and up to %v", s.limit, limits.BenchLimitMs*time.Millisecond)
	}
	return nil
}
