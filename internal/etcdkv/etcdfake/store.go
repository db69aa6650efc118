package etcdfake

import (
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// store has the keys as they are, and the changes since the last compaction.
type store struct {
	keys      map[string]*mvccpb.KeyValue
	old       map[string]*mvccpb.KeyValue // as they were when compacted
	leases    map[int64]map[string]bool
	revision  int64
	compacted int64
	changes   []*mvccpb.Event
	changed   int // events of the change under way
	lastLease int64
}

func newStore() store {
	return store{keys: map[string]*mvccpb.KeyValue{}, old: map[string]*mvccpb.KeyValue{}, leases: map[int64]map[string]bool{}, revision: 1}
}

func (t *store) begin() { t.revision, t.changed = t.revision+1, 0 }

// end tells whether anything was changed.
func (t *store) end() bool {
	if t.changed == 0 {
		t.revision--
	}
	return t.changed > 0
}

func (t *store) put(key string, value []byte, lease int64) {
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: t.revision, ModRevision: t.revision, Version: 1, Lease: lease}
	if old := t.keys[key]; old != nil {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		delete(t.leases[old.Lease], key)
	}
	t.keys[key] = kv
	if held := t.leases[lease]; held != nil {
		held[key] = true
	}
	t.note(&mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv})
}

func (t *store) drop(key string) bool {
	old := t.keys[key]
	if old == nil {
		return false
	}
	delete(t.keys, key)
	delete(t.leases[old.Lease], key)
	t.note(&mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: t.revision}})
	return true
}

func (t *store) note(e *mvccpb.Event) {
	t.changes = append(t.changes, e)
	t.changed++
}

func (t *store) compact(revision int64) {
	t.old = t.at(revision)
	t.compacted = max(t.compacted, revision)
	t.changes = slices.DeleteFunc(t.changes, func(e *mvccpb.Event) bool { return e.Kv.ModRevision <= revision })
}

// at gives the keys as they were.
func (t *store) at(revision int64) map[string]*mvccpb.KeyValue {
	keys := maps.Clone(t.old)
	for _, e := range t.changes {
		switch {
		case e.Kv.ModRevision > revision:
		case e.Type == mvccpb.Event_PUT:
			keys[string(e.Kv.Key)] = e.Kv
		default:
			delete(keys, string(e.Kv.Key))
		}
	}
	return keys
}

// between lists the keys of a range in order; an empty end means the one key.
func (t *store) between(from, end string) []string { return between(t.keys, from, end) }

func between(keys map[string]*mvccpb.KeyValue, from, end string) []string {
	var out []string
	for key := range keys {
		if within(key, from, end) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func within(key, from, end string) bool {
	return key == from || end != "" && key >= from && (key < end || end == "\x00")
}

func (s *Server) ranged(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	all := s.store.keys
	if r.Revision > 0 {
		if r.Revision < s.store.compacted {
			return nil, status.Error(codes.OutOfRange, "etcdserver: mvcc: required revision has been compacted")
		}
		all = s.store.at(r.Revision)
	}
	keys := between(all, string(r.Key), string(r.RangeEnd))
	if r.SortOrder == pb.RangeRequest_DESCEND {
		slices.Reverse(keys)
	}
	answer := &pb.RangeResponse{Header: s.header(), Count: int64(len(keys))}
	if r.Limit > 0 && int64(len(keys)) > r.Limit {
		keys, answer.More = keys[:r.Limit], true
	}
	for _, key := range keys {
		kv := all[key]
		if r.KeysOnly {
			kv = &mvccpb.KeyValue{Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version, Lease: kv.Lease}
		}
		answer.Kvs = append(answer.Kvs, kv)
	}
	return answer, nil
}

func (s *Server) putOne(r *pb.PutRequest) {
	if r.Lease != 0 {
		s.leases++
	}
	s.store.put(string(r.Key), r.Value, r.Lease)
}

func (s *Server) deleted(r *pb.DeleteRangeRequest) (n int64) {
	for _, key := range s.store.between(string(r.Key), string(r.RangeEnd)) {
		if s.store.drop(key) {
			n++
		}
	}
	return n
}
