package master

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"mooncake/internal/limits"
)

// metadataToken is what requests to the metadata server must carry, as a hash; nil: nothing.
type metadataToken []byte

// readMetadataToken reads the file of the token: one line.
func readMetadataToken(path string) (metadataToken, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagMetadataToken, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limits.AccessTokensBytes))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flagMetadataToken, err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < limits.AccessTokenBytesMin || strings.ContainsAny(token, " \t\r\n") {
		return nil, fmt.Errorf("--%s=%s: want one token of at least %d characters without blanks", flagMetadataToken, path, limits.AccessTokenBytesMin)
	}
	sum := sha256.Sum256([]byte(token))
	return sum[:], nil
}

const flagMetadataToken = "http_metadata_server_token_file"

// guard lets through what carries the token. Probes of /health carry none.
func (m metadataToken) guard(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if r.URL.Path != "/health" && !(strings.EqualFold(kind, "Bearer") && subtle.ConstantTimeCompare(sum[:], m) == 1) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="mooncake metadata"`)
			deadline(w)
			reply(w, http.StatusUnauthorized, "", "a token is needed")
			return
		}
		next.ServeHTTP(w, r)
	})
}
