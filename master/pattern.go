package master

import (
	"errors"
	"fmt"
	"time"

	"github.com/dlclark/regexp2"

	"mooncake/internal/limits"
)

var (
	errPatternTooLong = errors.New("pattern too long")
	errPatternTooSlow = errors.New("pattern takes too long")
	errStopping       = errors.New("the master stops")
)

// pattern finds keys by an ECMAScript pattern, which matches anywhere in a key. Keys are bytes, not text: pattern and key
// are both taken byte for byte, so that any key can be matched and none is changed on the way.
type pattern struct {
	re   *regexp2.Regexp
	end  time.Time
	quit <-chan struct{} // closed when the master stops
	// err is why the search was given up: a pattern may backtrack without end. Nothing matches after that, and what was
	// found before is only a part.
	err error
}

func compilePattern(text string, quit <-chan struct{}) (p *pattern, err error) {
	if len(text) > limits.PatternBytes {
		return nil, errPatternTooLong
	}
	re, err := regexp2.Compile(latin1(text), regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = limits.PatternMatchMs * time.Millisecond
	return &pattern{re: re, end: time.Now().Add(limits.PatternSearchMs * time.Millisecond), quit: quit}, nil
}

func (p *pattern) match(key string) bool {
	if p.err != nil {
		return false
	}
	select {
	case <-p.quit:
		p.err = errStopping
		return false
	default:
	}
	ok, err := p.re.MatchString(latin1(key))
	switch {
	case err != nil:
		p.err = fmt.Errorf("%w: on a key of %d bytes", errPatternTooSlow, len(key))
	case time.Now().After(p.end):
		p.err = fmt.Errorf("%w: on all keys together", errPatternTooSlow)
	}
	return ok && p.err == nil
}

// latin1 gives every byte its own character.
func latin1(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			r := make([]rune, len(s))
			for j := 0; j < len(s); j++ {
				r[j] = rune(s[j])
			}
			return string(r)
		}
	}
	return s
}

// shortened is a text for the log, at most a line long.
func shortened(text string) string {
	return text[:min(len(text), limits.LogTextBytes)]
}
