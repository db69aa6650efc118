package calls

import (
	"time"

	"mooncake/wire"
)

// step is one operation of a kind; nil for one that does not exist.
func (w *worker) step(k Kind) func() error {
	switch k {
	case Nothing:
		return w.nothing
	case Exist:
		return w.exist
	case Get:
		return w.get
	case Put:
		return w.put
	case Mixed:
		return w.mixed
	case BatchExist:
		return w.batchExist
	case BatchGet:
		return w.batchGet
	case BatchPut:
		return w.batchPut
	}
	return nil
}

// tenant is what a published client names when nobody has told it another.
const tenant = "default"

// checked makes one call; of the first answer of its kind it makes sure that it can be decoded.
func checked[Req, Rep any](w *worker, call *wire.Call[Req, Rep], req *Req) ([]byte, error) {
	body, err := exchange(w.c, call, req)
	if err == nil && !w.seen[call.ID] {
		w.seen[call.ID] = true
		var rep Rep
		err = call.DecodeReply(body, dialect, &rep)
	}
	return body, err
}

// any is the name of an object that is there.
func (w *worker) any() string { return w.s.key(w.dice.Int64N(max(1, w.s.readable.Load()))) }

// pick chooses the objects of a batch. The names are valid until the next batch.
func (w *worker) pick() []string {
	return w.list(func(int) int64 { return w.dice.Int64N(max(1, w.s.readable.Load())) })
}

// list makes the names of a batch, all in one piece of memory: what a generator uses for itself the master under it lacks.
func (w *worker) list(number func(i int) int64) []string {
	w.text, w.ends = w.text[:0], w.ends[:0]
	for i := range w.s.cfg.Batch {
		w.text = w.s.appendKey(w.text, number(i))
		w.ends = append(w.ends, len(w.text))
	}
	all, from := string(w.text), 0
	w.names = w.names[:0]
	for _, end := range w.ends {
		w.names = append(w.names, all[from:end])
		from = end
	}
	return w.names
}

func (w *worker) nothing() error {
	began := time.Now()
	_, err := checked(w, &wire.ServiceReady, &wire.ServiceReadyRequest{})
	w.times.Add(time.Since(began))
	return err
}

func (w *worker) exist() error {
	req := wire.ExistKeyRequest{Key: w.any(), TenantID: tenant}
	began := time.Now()
	body, err := checked(w, &wire.ExistKey, &req)
	w.times.Add(time.Since(began))
	if err != nil {
		return err
	}
	code, err := one(body, found)
	w.refuse(code)
	return err
}

func (w *worker) get() error {
	req := wire.GetReplicaListRequest{Key: w.any(), TenantID: tenant}
	began := time.Now()
	body, err := checked(w, &wire.GetReplicaList, &req)
	w.times.Add(time.Since(began))
	if err != nil {
		return err
	}
	code, err := one(body, located)
	w.refuse(code)
	return err
}

func (w *worker) mixed() error {
	if w.dice.IntN(10) == 0 {
		return w.put()
	}
	return w.get()
}

// put writes an object; one for which there is no room counts as refused, once.
func (w *worker) put() error {
	s := w.s
	key := s.key(s.next.Add(1) - 1)
	start := wire.PutStartRequest{ClientID: s.owner(0), Key: key, Size: s.cfg.ValueBytes, Config: once, TenantID: tenant}
	began := time.Now()
	defer func() { w.times.Add(time.Since(began)) }()
	body, err := checked(w, &wire.PutStart, &start)
	if err != nil {
		return err
	}
	code, err := one(body, placed)
	w.refuse(code)
	if code != 0 || err != nil {
		return err
	}
	end := wire.PutEndRequest{ClientID: s.owner(0), Object: wire.ObjectMeta{Key: key}, ReplicaType: wire.ReplicaTypeAll, TenantID: tenant}
	if body, err = checked(w, &wire.PutEnd, &end); err != nil {
		return err
	}
	code, err = one(body, done)
	w.refuse(code)
	return err
}

// once is how a client puts that was told nothing: one copy.
var once = wire.ReplicateConfig{ReplicaNum: 1}

func (w *worker) batchExist() error {
	req := wire.BatchExistKeyRequest{Keys: w.pick(), TenantID: tenant}
	began := time.Now()
	body, err := checked(w, &wire.BatchExistKey, &req)
	w.times.Add(time.Since(began))
	if err != nil {
		return err
	}
	return each(body, len(req.Keys), found, w.refuse)
}

func (w *worker) batchGet() error {
	req := wire.BatchGetReplicaListRequest{Keys: w.pick(), TenantID: tenant}
	began := time.Now()
	body, err := checked(w, &wire.BatchGetReplicaList, &req)
	w.times.Add(time.Since(began))
	if err != nil {
		return err
	}
	return each(body, len(req.Keys), located, w.refuse)
}

func (w *worker) batchPut() error {
	s := w.s
	first := s.next.Add(int64(s.cfg.Batch)) - int64(s.cfg.Batch)
	w.items = w.items[:0]
	for _, name := range w.list(func(i int) int64 { return first + int64(i) }) {
		w.items = append(w.items, item{name, s.cfg.ValueBytes})
	}
	began := time.Now()
	refused, err := w.putBatch(w.items, once)
	w.times.Add(time.Since(began))
	for _, code := range refused {
		w.refuse(code)
	}
	return err
}

// item is one object of a batch.
type item struct {
	key   string
	bytes uint64
}

// putBatch starts and ends a batch of puts. What was refused is told by number; if anything was, only the rest is ended.
func (w *worker) putBatch(items []item, how wire.ReplicateConfig) (refused map[int]wire.ErrorCode, err error) {
	start, end := &w.start, &w.end
	start.ClientID, start.Config, start.TenantID = w.s.owner(0), how, tenant
	start.Keys, start.Sizes = start.Keys[:0], start.Sizes[:0]
	for _, i := range items {
		start.Keys, start.Sizes = append(start.Keys, i.key), append(start.Sizes, i.bytes)
	}
	body, err := checked(w, &wire.BatchPutStart, start)
	if err != nil {
		return nil, err
	}
	if refused, err = codes(body, len(items), placed); err != nil {
		return nil, err
	}
	end.ClientID, end.ReplicaType, end.TenantID = w.s.owner(0), wire.ReplicaTypeAll, tenant
	end.Objects = end.Objects[:0]
	for n, i := range items {
		if len(refused) == 0 || refused[n] == 0 {
			end.Objects = append(end.Objects, wire.ObjectMeta{Key: i.key})
		}
	}
	if len(end.Objects) == 0 {
		return refused, nil
	}
	if body, err = checked(w, &wire.BatchPutEnd, end); err != nil {
		return nil, err
	}
	late, err := codes(body, len(end.Objects), done)
	for _, code := range late {
		w.refuse(code)
	}
	return refused, err
}

// codes are the refusals in an answer by the number of the item; nil when there are none.
func codes(body []byte, n int, value func(*answer) wire.ErrorCode) (refused map[int]wire.ErrorCode, err error) {
	number := 0
	err = each(body, n, func(a *answer) wire.ErrorCode {
		code := value(a)
		if code != 0 {
			if refused == nil {
				refused = map[int]wire.ErrorCode{}
			}
			refused[number] = code
		}
		number++
		return code
	}, func(wire.ErrorCode) {})
	return refused, err
}
