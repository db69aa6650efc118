package descriptor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"mooncake/internal/limits"
)

// httpStore keeps the keys in a metadata server: GET, PUT and DELETE of <address>?key=<escaped key>. The server may
// compare keys in their escaped form, so they are escaped exactly as the original's clients do it.
type httpStore struct {
	address string
	token   string
	client  *http.Client
}

func checkHTTP(metadataServer string) error {
	parsed, err := url.Parse(metadataServer)
	if err != nil {
		return fmt.Errorf("metadata server %q: %w", metadataServer, errors.Unwrap(err))
	}
	if parsed.Hostname() == "" || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
		return fmt.Errorf("metadata server %q is not http://host:port/path", metadataServer)
	}
	if port := parsed.Port(); port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("metadata server %q: port %q is not a number from 0 to 65535", metadataServer, port)
		}
	}
	return nil
}

func openHTTP(metadataServer string) Store {
	dialer := net.Dialer{Timeout: limits.MetadataConnectMs * time.Millisecond}
	return &httpStore{
		address: metadataServer,
		token:   os.Getenv("MC_METADATA_HTTP_TOKEN"),
		client: &http.Client{
			Timeout: limits.MetadataCallMs * time.Millisecond,
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				MaxIdleConnsPerHost: limits.MetadataIdleConns,
				IdleConnTimeout:     limits.MetadataIdleMs * time.Millisecond,
			},
			// Only status 200 is a success, and a redirect is not one.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (s *httpStore) Get(ctx context.Context, key string) ([]byte, error) {
	return s.call(ctx, http.MethodGet, key, nil)
}

func (s *httpStore) Put(ctx context.Context, key string, value []byte) error {
	_, err := s.call(ctx, http.MethodPut, key, value)
	return err
}

func (s *httpStore) Delete(ctx context.Context, key string) error {
	_, err := s.call(ctx, http.MethodDelete, key, nil)
	return err
}

func (s *httpStore) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

func (s *httpStore) call(ctx context.Context, method, key string, value []byte) ([]byte, error) {
	var content io.Reader
	if value != nil {
		content = bytes.NewReader(value)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.address+"?key="+escapeKey(key), content)
	if err != nil {
		return nil, fmt.Errorf("metadata server %s: %w", s.address, err)
	}
	if value != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metadata server %s: %s of %s: %w", s.address, method, key, causeOf(err))
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, limits.MetadataValueBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("metadata server %s: %s of %s: %w", s.address, method, key, err)
	case len(body) > limits.MetadataValueBytes:
		return nil, fmt.Errorf("metadata server %s: value of %s is larger than %d bytes", s.address, key, limits.MetadataValueBytes)
	case answer.StatusCode == http.StatusOK:
		return body, nil
	}
	return nil, s.refusal(answer.StatusCode, method, key, body)
}

// refusal turns a status into an error that callers can tell apart.
func (s *httpStore) refusal(status int, method, key string, body []byte) error {
	switch {
	case status == http.StatusNotFound && method != http.MethodPut:
		return fmt.Errorf("metadata server %s: %w: %s", s.address, ErrNotFound, key)
	case status == http.StatusBadRequest && bytes.Contains(body, []byte("Duplicate rpc_meta")):
		return fmt.Errorf("metadata server %s: %w: %s", s.address, ErrNameTaken, key)
	}
	said, _, _ := strings.Cut(string(body[:min(len(body), limits.MetadataQuoteBytes)]), "\n")
	return fmt.Errorf("metadata server %s: %s of %s: status %d %q", s.address, method, key, status, said)
}

// causeOf drops the address and method that the client's error repeats.
func causeOf(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// escapeKey escapes as libcurl does: letters, digits and - . _ ~ stay, every other byte becomes %XX.
func escapeKey(key string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for _, b := range []byte(key) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-._~", b) >= 0 {
			out.WriteByte(b)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(digits[b>>4])
		out.WriteByte(digits[b&15])
	}
	return out.String()
}
