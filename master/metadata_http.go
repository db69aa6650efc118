package master

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"mooncake/descriptor"
	"mooncake/internal/hostport"
	"mooncake/internal/limits"
)

// MetadataServer is the HTTP metadata server: where clients that were started with http://HOST:PORT/metadata tell each
// other how to reach their segments. It keeps the entries in memory, and they live until they are deleted or until the
// master calls RemoveSegment for an owner that is gone.
//
// Keys are percent-decoded, so that a key means the same whether it came raw or encoded and the master, which knows
// segments by their plain names, can remove what clients stored. Its lock is a leaf.
type MetadataServer struct {
	prefixes []string // of keys; what stands before ram/ and rpc_meta/

	mu      sync.RWMutex
	entries map[string][]byte
	bytes   int // of all keys and values

	// Locations of clients that fell silent, by key, with the segment's name. Another client may take such a name over,
	// unless inUse says that the first was heard again.
	abandoned map[string]string
	inUse     func(segment string) bool

	history *history // keeps the entries, if they are to survive
}

// NewMetadataServer returns an empty server. clusterID is the value of MC_METADATA_CLUSTER_ID that the clients of this
// cluster are started with, or "".
func NewMetadataServer(clusterID string) *MetadataServer {
	m := &MetadataServer{
		prefixes: []string{"mooncake/"}, entries: map[string][]byte{},
		abandoned: map[string]string{}, inUse: func(string) bool { return true }, history: &history{},
	}
	if id := strings.Trim(clusterID, "/"); id != "" {
		m.prefixes = append(m.prefixes, "mooncake/"+id+"/")
	}
	return m
}

// take starts with the entries of a history, and keeps what follows in it.
func (m *MetadataServer) take(h *history) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = h
	for key, value := range h.names {
		m.entries[key] = value
		m.bytes += len(key) + len(value)
	}
	h.names = nil
}

// ServeHTTP answers GET, PUT and DELETE of /metadata?key=K and GET of /health.
func (m *MetadataServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline(w)
	switch {
	case r.URL.Path == "/health" && r.Method == http.MethodGet:
		reply(w, http.StatusOK, "", "OK")
		return
	case r.URL.Path != "/metadata":
		notFound(w)
		return
	}
	var serve func(http.ResponseWriter, *http.Request, string)
	switch r.Method {
	case http.MethodGet:
		serve = m.serveGet
	case http.MethodPut:
		serve = m.servePut
	case http.MethodDelete:
		serve = m.serveDelete
	default:
		notFound(w)
		return
	}
	key, ok := queryValue(r.URL.RawQuery, "key")
	if key = percentDecoded(key); !ok || key == "" {
		reply(w, http.StatusBadRequest, "", "Missing key parameter")
		return
	}
	serve(w, r, key)
}

func (m *MetadataServer) serveGet(w http.ResponseWriter, _ *http.Request, key string) {
	m.mu.RLock()
	value, ok := m.entries[key]
	m.mu.RUnlock()
	if !ok {
		reply(w, http.StatusNotFound, "", textMetadataNotFound)
		return
	}
	// Values are replaced, never changed in place, so this one may be read without the lock.
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(value) // a reader that left needs no answer
}

func (m *MetadataServer) servePut(w http.ResponseWriter, r *http.Request, key string) {
	value, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limits.MetadataServerValueBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			reply(w, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("metadata value is larger than %d bytes", limits.MetadataServerValueBytes))
			return
		}
		reply(w, http.StatusBadRequest, "", "metadata value was cut off")
		return
	}
	status, text := m.put(key, value, m.mayTakeOver(key))
	m.replyKept(w, status, text)
}

func (m *MetadataServer) serveDelete(w http.ResponseWriter, _ *http.Request, key string) {
	if !m.remove(key) {
		reply(w, http.StatusNotFound, "", textMetadataNotFound)
		return
	}
	m.replyKept(w, http.StatusOK, "metadata deleted")
}

// replyKept replies when what the reply tells is kept.
func (m *MetadataServer) replyKept(w http.ResponseWriter, status int, text string) {
	if err := m.history.wait(); err != nil {
		reply(w, http.StatusServiceUnavailable, "", err.Error())
		return
	}
	reply(w, status, "", text)
}

const textMetadataNotFound = "metadata not found"

// mayTakeOver tells whether the owner of a location fell silent and was not heard since.
func (m *MetadataServer) mayTakeOver(key string) bool {
	m.mu.RLock()
	name, abandoned := m.abandoned[key]
	m.mu.RUnlock()
	return abandoned && !m.inUse(name)
}

// Abandon lets others take the name of a segment over whose owner fell silent. The entries stay: it may come back.
func (m *MetadataServer) Abandon(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, prefix := range m.prefixes {
		if key := prefix + "rpc_meta/" + name; m.entries[key] != nil {
			m.abandoned[key] = name
		}
	}
}

// put stores an entry. Keys of rpc_meta are where a client announces its name: a second client of the same name must
// notice, so they are not overwritten, unless takeOver says that the first is away.
func (m *MetadataServer) put(key string, value []byte, takeOver bool) (status int, text string) {
	if len(key) > limits.MetadataServerKeyBytes {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("metadata key of %d bytes is longer than %d", len(key), limits.MetadataServerKeyBytes)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, exists := m.entries[key]
	if exists && strings.Contains(key, "rpc_meta") {
		if bytes.Equal(old, value) {
			delete(m.abandoned, key)
			return http.StatusOK, "metadata unchanged"
		}
		if !takeOver {
			return http.StatusBadRequest, "Duplicate rpc_meta key not allowed"
		}
		m.removeLocked(descriptorKey(strings.TrimSuffix(key, "rpc_meta/"+m.abandoned[key]), m.abandoned[key]))
	}
	size := m.bytes + len(value) - len(old)
	if !exists {
		size += len(key)
		if len(m.entries) >= limits.MetadataServerEntries {
			return http.StatusInsufficientStorage, fmt.Sprintf("metadata holds %d entries, the most it may", len(m.entries))
		}
	}
	if size > limits.MetadataServerBytes {
		return http.StatusInsufficientStorage, fmt.Sprintf("metadata would exceed %d bytes", limits.MetadataServerBytes)
	}
	m.entries[key] = value
	m.history.name(key, value, false)
	delete(m.abandoned, key)
	m.bytes = size
	return http.StatusOK, "metadata updated"
}

func (m *MetadataServer) remove(key string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.removeLocked(key)
}

func (m *MetadataServer) removeLocked(key string) bool {
	value, ok := m.entries[key]
	if ok {
		m.bytes -= len(key) + len(value)
		delete(m.entries, key)
		m.history.name(key, nil, true)
		delete(m.abandoned, key)
	}
	return ok
}

// descriptorKey is where clients put the descriptor of a segment: names with a slash stand right behind the prefix.
func descriptorKey(prefix, name string) string {
	if strings.Contains(name, "/") {
		return prefix + name
	}
	return prefix + "ram/" + name
}

// Abandoned tells whether the name was abandoned and nobody has announced himself under it since.
func (m *MetadataServer) Abandoned(name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, prefix := range m.prefixes {
		if _, abandoned := m.abandoned[prefix+"rpc_meta/"+name]; abandoned {
			return true
		}
	}
	return false
}

// RemoveSegment removes the entries of a segment whose owner is gone, under the cluster's prefix and the plain one, and
// tells how many there were. A client whose name is free again can be started at once.
func (m *MetadataServer) RemoveSegment(name string) int {
	removed := 0
	for _, prefix := range m.prefixes {
		for _, key := range [...]string{descriptorKey(prefix, name), prefix + "rpc_meta/" + name} {
			if m.remove(key) {
				removed++
			}
		}
	}
	return removed
}

// Handshake tells where the process that published a segment listens for handshakes.
func (m *MetadataServer) Handshake(name string) (address string, known bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, prefix := range m.prefixes {
		if at, err := descriptor.ParseLocation(m.entries[prefix+"rpc_meta/"+name]); err == nil {
			return hostport.Join(at.Host, int(at.RPCPort)), true
		}
	}
	return "", false
}

// Len is the number of entries.
func (m *MetadataServer) Len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.entries)
}

// deadline bounds the time that a reader who has stopped reading holds a handler.
func deadline(w http.ResponseWriter) {
	// Not every ResponseWriter can do it (those of tests cannot), and none needs it to be right.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limits.HTTPWriteMs * time.Millisecond))
}

// reply sends a short body. An empty content type sends none, as the published servers do for plain texts.
func reply(w http.ResponseWriter, status int, contentType, body string) {
	if contentType == "" {
		w.Header()["Content-Type"] = nil
	} else {
		w.Header().Set("Content-Type", contentType)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a reader that left needs no answer
}

// notFound is the answer to every unknown path and every wrong method.
func notFound(w http.ResponseWriter) { reply(w, http.StatusNotFound, "", "404 Not Found") }
