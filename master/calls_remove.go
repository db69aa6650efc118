package master

import (
	"errors"
	"time"

	"github.com/dlclark/regexp2"

	"mooncake/internal/limits"
	"mooncake/wire"
)

func (s *Service) registerRemoves() {
	register(s, &wire.Remove, func(_ *peerConn, q *wire.RemoveRequest, r *wire.RemoveReply) {
		r.Err = codeOf(s.cat.Remove(s.clock.Now(), q.Key, q.Force))
		s.calls.Count(wire.Remove.ID.Name(), r.Err != 0)
	})
	register(s, &wire.BatchRemove, func(_ *peerConn, q *wire.BatchRemoveRequest, r *wire.BatchRemoveReply) {
		out := make([]wire.Exp[wire.Void, wire.ErrorCode], len(q.Keys))
		for i, key := range q.Keys {
			out[i].Err = codeOf(s.cat.Remove(s.clock.Now(), key, q.Force))
			s.calls.Count(wire.Remove.ID.Name(), out[i].Err != 0) // the original counts the items as single removes
		}
		*r = out
	})
	register(s, &wire.RemoveByRegex, func(_ *peerConn, q *wire.RemoveByRegexRequest, r *wire.RemoveByRegexReply) {
		match, err := compilePattern(q.Regex)
		if err != nil {
			r.Err = wire.ErrInvalidParams
		} else {
			r.Value = s.cat.RemoveMatching(s.clock.Now(), match, q.Force)
		}
		s.calls.Count(wire.RemoveByRegex.ID.Name(), r.Err != 0)
	})
	register(s, &wire.RemoveAll, func(_ *peerConn, q *wire.RemoveAllRequest, r *wire.RemoveAllReply) {
		*r = wire.RemoveAllReply(s.RemoveAll(q.Force))
		s.calls.Count(wire.RemoveAll.ID.Name(), false)
	})
}

// RemoveAll removes every object that may go and returns how many went.
func (s *Service) RemoveAll(force bool) int64 {
	return s.cat.RemoveMatching(s.clock.Now(), nil, force)
}

var errPatternTooLong = errors.New("pattern too long")

// compilePattern reads an ECMAScript pattern, which matches anywhere in a key. Keys are bytes, not text: pattern and
// key are both taken byte for byte, so that any key can be matched and none is changed on the way.
func compilePattern(pattern string) (func(key string) bool, error) {
	if len(pattern) > limits.PatternBytes {
		return nil, errPatternTooLong
	}
	re, err := regexp2.Compile(latin1(pattern), regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = limits.PatternMatchMs * time.Millisecond
	return func(key string) bool {
		ok, err := re.MatchString(latin1(key))
		return ok && err == nil
	}, nil
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
