package master

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"mooncake/catalog"
	"mooncake/internal/limits"
)

// serveKeys lists all readable keys, one per line, straight from the catalog to the connection: neither the list nor any
// lock is held while a slow reader takes its time. A key never spans lines, see appendEscaped.
func (a *Admin) serveKeys(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", typeMetrics)
	out := bufio.NewWriterSize(&patientWriter{w}, limits.AdminKeysBuffer)
	var line []byte
	for key := range a.source.Keys {
		line = append(appendEscaped(line[:0], key), '\n')
		if _, err := out.Write(line); err != nil {
			return // the reader left
		}
	}
	_ = out.Flush() // as above
}

// patientWriter gives a reader a new while for each piece.
type patientWriter struct{ w http.ResponseWriter }

func (p *patientWriter) Write(b []byte) (int, error) {
	deadline(p.w)
	return p.w.Write(b)
}

// appendEscaped appends a name as one line of printable text. Control characters (also DEL, those of the upper table, and
// the two line separators of Unicode) and bytes that are not UTF-8 become \n, \r, \t or \xNN, one per byte, and a
// backslash becomes two, so that the name can be read back. Names without any of these, which is to say nearly all,
// stay as they are.
func appendEscaped(dst []byte, name string) []byte {
	for len(name) > 0 {
		r, size := utf8.DecodeRuneInString(name)
		switch {
		case r == '\\':
			dst = append(dst, '\\', '\\')
		case r == utf8.RuneError && size == 1, r < ' ', 0x7f <= r && r < 0xa0, r == '\u2028', r == '\u2029':
			for i := range size {
				dst = appendEscapedByte(dst, name[i])
			}
		default:
			dst = append(dst, name[:size]...)
		}
		name = name[size:]
	}
	return dst
}

func appendEscapedByte(dst []byte, c byte) []byte {
	switch c {
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'x', digits[c>>4], digits[c&15])
}

// buffer is one replica as the pages show it.
type buffer struct {
	Size     uint64 `json:"size_"`
	Address  uint64 `json:"buffer_address_"`
	Protocol string `json:"protocol_"`
	Endpoint string `json:"transport_endpoint_"`
}

func buffersOf(replicas []catalog.Replica) []buffer {
	out := make([]buffer, 0, len(replicas))
	for _, r := range replicas {
		if r.Disk == nil {
			out = append(out, buffer{r.Size, r.Segment.Base + r.Offset, r.Segment.Protocol, r.Segment.Endpoint})
		}
	}
	return out
}

// serveQueryKey shows the replicas of one key. The published masters take the key as it stands in the query; here it is
// decoded, and as it stands it is asked for only if there is no such key.
func (a *Admin) serveQueryKey(w http.ResponseWriter, r *http.Request) {
	raw, _ := queryValue(r.URL.RawQuery, "key")
	key := percentDecoded(raw)
	replicas, err := a.source.Lookup(key)
	if err != nil && key != raw {
		if found, rawErr := a.source.Lookup(raw); rawErr == nil {
			replicas, err = found, nil
		}
	}
	if err != nil {
		if key == "" {
			err = catalog.ErrObjectNotFound // as for any key that is not there
		}
		replyCode(w, err)
		return
	}
	replyJSON(w, http.StatusOK, struct {
		Success bool     `json:"success"`
		Data    []buffer `json:"data"`
	}{true, buffersOf(replicas)})
}

// keyAnswer is one key's part of a batch answer. A list without items is null, but for that of what is in memory.
type keyAnswer struct {
	OK        bool        `json:"ok"`
	Error     *string     `json:"error"`
	Values    []buffer    `json:"values"`
	Disk      []diskFile  `json:"disk_values"`
	LocalDisk []localDisk `json:"local_disk_values"`
	NoF       *string     `json:"nof_values"` // nothing ever lies there
}

// diskFile is a file that all clients share, localDisk a copy that one keeps.
type diskFile struct {
	Path string `json:"file_path"`
	Size uint64 `json:"object_size"`
}

type localDisk struct {
	Client   string `json:"client_id"`
	Size     uint64 `json:"object_size"`
	Endpoint string `json:"transport_endpoint"`
}

func (a *Admin) answerOf(key string, replicas []catalog.Replica) keyAnswer {
	out := keyAnswer{OK: true, Values: buffersOf(replicas)}
	for _, r := range replicas {
		switch {
		case r.Disk == nil:
		case r.Disk.Owner == catalog.UUID{}:
			out.Disk = append(out.Disk, diskFile{a.source.FilePath(key), r.Size})
		default:
			out.LocalDisk = append(out.LocalDisk, localDisk{r.Disk.Owner.String(), r.Size, r.Disk.Endpoint})
		}
	}
	return out
}

// serveBatchQuery shows the replicas of many keys, separated by commas.
func (a *Admin) serveBatchQuery(w http.ResponseWriter, r *http.Request) {
	list, _ := queryValue(r.URL.RawQuery, "keys")
	keys := strings.Split(percentDecoded(strings.ReplaceAll(list, "+", " ")), ",")
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	switch {
	case len(keys) == 0:
		replyJSON(w, http.StatusBadRequest, plainError{Error: "No keys provided. Use ?keys=key1,key2,..."})
		return
	case len(keys) > limits.AdminBatchKeys:
		replyJSON(w, http.StatusBadRequest, plainError{Error: "too many keys in one query"})
		return
	}
	data := make(map[string]keyAnswer, len(keys))
	for _, key := range keys {
		replicas, err := a.source.Lookup(key)
		if err != nil {
			text := codeOf(err).String()
			data[key] = keyAnswer{Error: &text}
			continue
		}
		data[key] = a.answerOf(key, replicas)
	}
	replyJSON(w, http.StatusOK, struct {
		Success bool                 `json:"success"`
		Data    map[string]keyAnswer `json:"data"`
	}{true, data})
}

// plainError is a refusal without a code.
type plainError struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}
