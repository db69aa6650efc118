package interop

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"unicode/utf8"
)

// StoreOptions says how a client sets up a store.
type StoreOptions struct {
	Name         string // which store of the client; empty is the first
	Master       string // host:port
	Metadata     string // empty is P2PHANDSHAKE
	Host         string // empty is 127.0.0.1; with a port it is the explicit name of the client
	SegmentBytes int64  // what the client itself contributes
	BufferBytes  int64  // zero is 64 MiB
	Positional   bool   // use the positional form of setup
	Protocol     string // empty is tcp
	Devices      string // RDMA devices, comma between; empty lets the client choose
	Tenant       string // for whom the client works; empty is what the client takes by itself
}

func (o StoreOptions) args() map[string]any {
	a := map[string]any{
		"store": o.Name, "master": o.Master, "metadata": o.Metadata, "host": o.Host, "protocol": o.Protocol, "devices": o.Devices,
		"segment": o.SegmentBytes, "buffer": o.BufferBytes, "positional": o.Positional, "tenant": o.Tenant,
	}
	if o.Metadata == "" {
		a["metadata"] = "P2PHANDSHAKE"
	}
	if o.Host == "" {
		a["host"] = "127.0.0.1"
	}
	if o.Protocol == "" {
		a["protocol"] = "tcp"
	}
	if o.BufferBytes == 0 {
		a["buffer"] = 64 << 20
	}
	return a
}

// Item names an object and its value: the value is made from size and seed on both sides.
type Item struct {
	Key  Key   `json:"key"`
	Size int64 `json:"size"`
	Seed int64 `json:"seed"`
}

// Key is an object's key: any bytes.
type Key string

// MarshalJSON writes text as a string and other bytes in base 64.
func (k Key) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(k)) {
		return json.Marshal(string(k))
	}
	return json.Marshal(map[string]string{"b64": base64.StdEncoding.EncodeToString([]byte(k))})
}

// Got is what a read brought.
type Got struct {
	Size int64 `json:"size"` // bytes, or the client's error code
	Same bool  `json:"same"` // the bytes are the expected ones
}

// Location is where one copy of an object lies.
type Location struct {
	Endpoint string `json:"endpoint"`
	Address  uint64 `json:"address"`
	Size     int64  `json:"size"`
}

// Config is the part of a client's ReplicateConfig a test wants to set; "soft_pin" is translated for each release.
type Config map[string]any

// Store is one store of a client.
type Store struct {
	Client   *Client
	Hostname string // what the client calls itself, which is also its segment's name
	name     string
}

// Setup makes a store. An unsuccessful setup is reported by the code, not by the error.
func (c *Client) Setup(o StoreOptions) (st *Store, code int, err error) {
	var reply struct {
		RC       int    `json:"rc"`
		Hostname string `json:"hostname"`
	}
	if err := c.Do("setup", o.args(), &reply); err != nil {
		return nil, 0, err
	}
	return &Store{Client: c, Hostname: reply.Hostname, name: o.Name}, reply.RC, nil
}

// SetupAndGet sets up a store and reads one object with nothing in between.
func (c *Client) SetupAndGet(o StoreOptions, i Item) (*Store, Got, error) {
	args := o.args()
	args["key"], args["size"], args["seed"] = i.Key, i.Size, i.Seed
	var got Got
	err := c.Do("timed", args, &got)
	return &Store{Client: c, name: o.Name}, got, err
}

// Do sends a request about this store.
func (s *Store) Do(op string, args map[string]any, out any) error {
	all := map[string]any{"store": s.name}
	maps.Copy(all, args)
	return s.Client.Do(op, all, out)
}

// Call runs a method of the client's store class with plain arguments.
func (s *Store) Call(out any, method string, args ...any) error {
	if args == nil {
		args = []any{}
	}
	return s.Do("call", map[string]any{"method": method, "args": args}, out)
}

// Close closes the store; the client process lives on.
func (s *Store) Close() error { return s.Do("close", nil, nil) }

// Put stores an object and answers with the client's code.
func (s *Store) Put(i Item, c Config) (code int, err error) {
	return s.write("put", i, c)
}

// Upsert stores or replaces an object and answers with the client's code.
func (s *Store) Upsert(i Item) (code int, err error) { return s.write("upsert", i, nil) }

func (s *Store) write(op string, i Item, c Config) (code int, err error) {
	err = s.Do(op, map[string]any{"key": i.Key, "size": i.Size, "seed": i.Seed, "config": c}, &code)
	return code, err
}

// Get reads an object and compares it.
func (s *Store) Get(i Item) (got Got, err error) {
	err = s.Do("get", map[string]any{"key": i.Key, "size": i.Size, "seed": i.Seed}, &got)
	return got, err
}

// Replicas says where the copies of an object lie.
func (s *Store) Replicas(k Key) (at []Location, err error) {
	err = s.Do("replicas", map[string]any{"key": k}, &at)
	return at, err
}

// PutFrom stores objects without a copy in the client, as one batch, and answers with a code for each.
func (s *Store) PutFrom(items []Item, c Config) (codes []int, ms float64, err error) {
	var reply struct {
		RCs []int   `json:"rcs"`
		Ms  float64 `json:"ms"`
	}
	err = s.Do("put_from", map[string]any{"items": items, "config": c}, &reply)
	return reply.RCs, reply.Ms, err
}

// GetInto reads objects without a copy in the client, as one batch.
func (s *Store) GetInto(items []Item) (got []Got, ms float64, err error) {
	var reply struct {
		Items []Got   `json:"items"`
		Ms    float64 `json:"ms"`
	}
	err = s.Do("get_into", map[string]any{"items": items}, &reply)
	return reply.Items, reply.Ms, err
}

// Reads is the outcome of many random reads.
type Reads struct {
	Reads  int      `json:"reads"`
	Failed int      `json:"failed"`
	First  []string `json:"first"`
	P99Ms  float64  `json:"p99_ms"` // of one read
}

// ReadMany reads random ones of the items from several threads and compares each.
func (s *Store) ReadMany(items []Item, reads, threads, dice int) (r Reads, err error) {
	err = s.Do("read_many", map[string]any{"items": items, "reads": reads, "threads": threads, "dice": dice}, &r)
	return r, err
}

// Bundle describes a rollout bundle: its content depends on these numbers alone.
type Bundle struct {
	Rows    int
	Seed    int
	Longest int // of a row's answer, in tokens; zero is 700
	Chunk   int // bytes; zero is the client's default
	Config  Config
	Only    []string // the fields it has; none means all
	Shape   string   // empty, or Yardstick
	Keep    bool     // what transfers bundles is made once for all bundles of a store, and not for each

	PauseAfter int // writes after which a put stands still, if PauseSec is set
	PauseSec   int
}

// Yardstick is the shape of the rollout that yardsticks are about: three ragged fields of 3,386 bytes a sample, five of numbers,
// and two lists that ride in the handle.
const Yardstick = "yardstick"

func (b Bundle) args() map[string]any {
	return map[string]any{
		"rows": b.Rows, "seed": b.Seed, "longest": b.Longest, "chunk": b.Chunk, "config": b.Config, "only": b.Only,
		"shape": b.Shape, "keep": b.Keep, "pause_after": b.PauseAfter, "pause_sec": b.PauseSec,
	}
}

// Handle is what a writer of a bundle hands to its readers.
type Handle json.RawMessage

// MarshalJSON hands the handle on unread.
func (h Handle) MarshalJSON() ([]byte, error) { return h, nil }

// ManifestKey is the key of the bundle's manifest; the bundle's other keys share what comes before "manifest".
func (h Handle) ManifestKey() string {
	var body struct {
		Stages map[string]struct {
			Key string `json:"manifest_key"`
		} `json:"stage_refs"`
	}
	if json.Unmarshal(h, &body) != nil {
		return ""
	}
	return body.Stages["default"].Key
}

// PutBundle writes a bundle; bytes counts its ragged rows.
func (s *Store) PutBundle(b Bundle) (h Handle, bytes int64, ms float64, err error) {
	var reply struct {
		Handle json.RawMessage `json:"handle"`
		Bytes  int64           `json:"bytes"`
		Ms     float64         `json:"ms"`
	}
	err = s.Do("bundle_put", b.args(), &reply)
	return Handle(reply.Handle), reply.Bytes, reply.Ms, err
}

// GetBundle reads a bundle and compares it; diff is empty when all is equal. Fields and rows narrow the read when given.
func (s *Store) GetBundle(h Handle, b Bundle, fields []string, rows []int) (diff string, ms float64, err error) {
	args := b.args()
	args["handle"], args["fields"], args["picked"] = h, fields, rows
	var reply struct {
		Diff string  `json:"diff"`
		Ms   float64 `json:"ms"`
	}
	err = s.Do("bundle_get", args, &reply)
	return reply.Diff, reply.Ms, err
}

// CleanBundle reclaims a bundle.
func (s *Store) CleanBundle(h Handle) error {
	return s.Do("bundle_clean", map[string]any{"handle": h}, nil)
}
