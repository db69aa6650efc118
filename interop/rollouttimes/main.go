// Command rollouttimes measures how long it takes to hand over a rollout: by the client in Go, by an unchanged client of
// 0.3.13, and, where there is one, by Ray's object store.
//
//	go run ./interop/rollouttimes                        the client in Go and the wheel, under our master and segment daemon
//	go run ./interop/rollouttimes -ray-python PYTHON     Ray's object store beside them; PYTHON has the packages ray and numpy
//	go run ./interop/rollouttimes -shape miles           rollouts as Miles hands them over, with texts, in place of the yardsticks'
//	go run ./interop/rollouttimes -json                  every time, and the medians, as JSON
//
// All of them hand over the same rollouts, and take turns: what else the machine does meets all. Each reading is compared with
// what was written. The numbers of calls to the master are held against what is promised: 3 for a PUT, 1 for a GET.
//
// Everything stays on 127.0.0.1; Ray, which listens on all addresses, has a network namespace of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// What is taken on a command line.
const (
	maxRounds  = 101    // more would only be longer
	maxSamples = 32_768 // a rollout of 100 MB, of which each party has a few at a time
	maxLimit   = 2 * time.Hour
)

// settings are the command line.
type settings struct {
	binaries string
	python   string // with Ray; empty measures none
	shape    shape
	samples  []int
	times    int // that a party hands over in its turn
	rounds   int
	limit    time.Duration
	json     bool
	out      io.Writer
	progress io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := settings{out: os.Stdout, progress: os.Stderr}
	samples := flag.String("samples", "1,256,8192", "sizes of the rollouts in samples, comma between")
	shape := flag.String("shape", shapes[0].name, "what the rollouts consist of: "+strings.Join(shapeNames(), ", "))
	flag.IntVar(&s.times, "times", 3, "how often a party hands over in its turn, of which the median counts")
	flag.StringVar(&s.binaries, "binaries", "", "folder with the daemons; empty builds them")
	flag.StringVar(&s.python, "ray-python", "", "interpreter with the packages ray and numpy; empty leaves Ray out")
	flag.IntVar(&s.rounds, "rounds", 7, "how many turns each party has with each rollout, after a first one that does not count")
	flag.DurationVar(&s.limit, "limit", 15*time.Minute, "how long the whole may take")
	flag.BoolVar(&s.json, "json", false, "write JSON in place of the table")
	flag.Parse()
	err := s.check(*samples, *shape, flag.Args())
	if err == nil {
		err = measure(ctx, &s)
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted; everything it started is stopped")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollouttimes:", err)
		os.Exit(1)
	}
}

// check refuses what makes no sense.
func (s *settings) check(samples, shape string, rest []string) error {
	for text := range strings.SplitSeq(samples, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 || n > maxSamples {
			return fmt.Errorf("-samples=%s: %q is no number from 1 to %d", samples, text, maxSamples)
		}
		s.samples = append(s.samples, n)
	}
	at := slices.Index(shapeNames(), shape)
	switch {
	case at < 0:
		return fmt.Errorf("-shape=%s is none of %s", shape, strings.Join(shapeNames(), ", "))
	case len(rest) > 0:
		return fmt.Errorf("%q is no flag", rest[0])
	case s.rounds < 1 || s.rounds > maxRounds:
		return fmt.Errorf("-rounds=%d is not from 1 to %d", s.rounds, maxRounds)
	case s.times < 1 || s.times > maxRounds:
		return fmt.Errorf("-times=%d is not from 1 to %d", s.times, maxRounds)
	case s.limit <= 0 || s.limit > maxLimit:
		return fmt.Errorf("-limit=%v is not above 0 and up to %v", s.limit, maxLimit)
	}
	s.shape = shapes[at]
	return nil
}
