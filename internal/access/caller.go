package access

import (
	"fmt"
	"strings"
)

// Refusal says why a caller is not let through.
type Refusal struct {
	Needed, Has Level
}

// Error implements error.
func (r *Refusal) Error() string {
	if r.Has == Nobody {
		return "a token of level " + r.Needed.String() + " is needed"
	}
	return fmt.Sprintf("this needs a token of level %s, and this one is of level %s", r.Needed, r.Has)
}

// Check tells whether what a caller shows, "Bearer TOKEN", allows a level; the error is a *Refusal, which is counted. Looking
// needs a token only if the file has one of the level read.
func (t *Tokens) Check(authorization string, needed Level) error {
	if t == nil || needed == Nobody || needed == Read && !t.asksToRead() {
		return nil
	}
	level := Nobody
	if scheme, token, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		level = t.LevelOf(strings.TrimSpace(token))
	}
	if level >= needed {
		return nil
	}
	t.refused.Add(1)
	return &Refusal{Needed: needed, Has: level}
}
