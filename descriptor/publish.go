package descriptor

import (
	"context"
	"errors"
	"fmt"
)

// Location says where a published process listens for handshakes. In tcp it is also the host to dial for data when the
// descriptor has no tcp_data_host.
type Location struct {
	// Host is an address or a name.
	Host string `json:"ip_or_host_name"`
	// MetadataVersion is microseconds since 1970 in locations that release 14 publishes; 0 is "none".
	MetadataVersion uint64 `json:"metadata_version,omitzero"`
	// RPCPort is the handshake port.
	RPCPort uint16 `json:"rpc_port"`
}

// Encode writes the location as real processes do.
func (l Location) Encode() []byte { return encodeJSON(l) }

// ParseLocation reads a location and refuses one that cannot be dialled.
func ParseLocation(text []byte) (Location, error) {
	r := fieldReader{path: "location"}
	o := r.object(text, "")
	l := Location{
		Host:            o.str("ip_or_host_name"),
		MetadataVersion: o.number("metadata_version", 0, 1<<64-1),
		RPCPort:         uint16(o.number("rpc_port", 0, 1<<16-1)),
	}
	if r.err == nil && l.Host == "" {
		r.fail("", "ip_or_host_name", errors.New("empty"))
	}
	return l, r.err
}

// Publish tells the metadata server where the segment is: first the location, then the descriptor, so that whoever finds
// the second can use it. It may be repeated, and must be after the server lost or dropped the keys. ErrNameTaken means
// that another process holds the name.
func Publish(ctx context.Context, store Store, segment *Segment, location Location) error {
	if err := store.Put(ctx, RPCMetaKey(segment.Name), location.Encode()); err != nil {
		return fmt.Errorf("publish %q: %w", segment.Name, err)
	}
	if err := store.Put(ctx, RAMKey(segment.Name), segment.Encode()); err != nil {
		return fmt.Errorf("publish %q: %w", segment.Name, err)
	}
	return nil
}

// Withdraw removes both keys of a segment. It tries both whatever happens to the first, and keys that are not there are
// as good as removed.
func Withdraw(ctx context.Context, store Store, name string) error {
	var failed error
	for _, key := range []string{RPCMetaKey(name), RAMKey(name)} {
		if err := store.Delete(ctx, key); err != nil && !errors.Is(err, ErrNotFound) && failed == nil {
			failed = fmt.Errorf("withdraw %q: %w", name, err)
		}
	}
	return failed
}
