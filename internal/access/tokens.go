package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"

	"mooncake/internal/limits"
)

// Level is what a token allows; each includes those below it.
type Level uint8

// The levels. Nobody is what a request without a token has.
const (
	Nobody  Level = iota
	Read          // look at everything
	Operate       // change what can be changed back
	Admin         // destroy, and look into the process
)

var levelNames = [...]string{"nobody", "read", "operate", "admin"}

// String is the word of a level in a file of tokens.
func (l Level) String() string { return levelNames[l] }

// grant is one token.
type grant struct {
	digest [sha256.Size]byte
	level  Level
}

// Tokens are the tokens of one file. Nil asks for none.
type Tokens struct {
	path    string
	grants  atomic.Pointer[[]grant]
	refused atomic.Uint64
}

// OpenTokens reads a file: a level and a token on each line, '#' comments. An empty path is no tokens at all.
func OpenTokens(path string) (*Tokens, error) {
	if path == "" {
		return nil, nil
	}
	t := &Tokens{path: path}
	return t, t.Reload()
}

// Reload reads the file again. After an error the former tokens stay.
func (t *Tokens) Reload() error {
	if t == nil {
		return nil
	}
	file, err := os.Open(t.path)
	if err != nil {
		return plain(err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limits.AccessTokensBytes+1))
	if err != nil {
		return plain(err)
	}
	if len(text) > limits.AccessTokensBytes {
		return fmt.Errorf("larger than %d bytes", limits.AccessTokensBytes)
	}
	grants, err := parseTokens(string(text))
	if err != nil {
		return err
	}
	t.grants.Store(&grants)
	return nil
}

func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// parseTokens reads the lines. Its errors never repeat what may be a secret.
func parseTokens(text string) ([]grant, error) {
	var out []grant
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d: want a level and a token", n)
		}
		level := Nobody
		for l := Read; l <= Admin; l++ {
			if words[0] == l.String() {
				level = l
			}
		}
		if level == Nobody {
			return nil, fmt.Errorf("line %d: the level is none of read, operate, admin", n)
		}
		if len(words[1]) < limits.AccessTokenBytesMin {
			return nil, fmt.Errorf("line %d: a token has %d characters at least", n, limits.AccessTokenBytesMin)
		}
		out = append(out, grant{sha256.Sum256([]byte(words[1])), level})
	}
	if len(out) == 0 {
		return nil, errors.New("there is no token in it")
	}
	return out, nil
}

// LevelOf is what a token allows. It takes the same time for every token.
func (t *Tokens) LevelOf(token string) Level {
	level, digest := 0, sha256.Sum256([]byte(token))
	for _, g := range *t.grants.Load() {
		level = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(g.digest[:], digest[:]), max(level, int(g.level)), level)
	}
	return Level(level)
}

// asksToRead tells whether a token is needed to look: only where there is one for that.
func (t *Tokens) asksToRead() bool {
	for _, g := range *t.grants.Load() {
		if g.level == Read {
			return true
		}
	}
	return false
}

// Refused counts requests that were not let through.
func (t *Tokens) Refused() uint64 {
	if t == nil {
		return 0
	}
	return t.refused.Load()
}
