package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/bundle"
	"mooncake/internal/limits"
)

// MilesPrefix is the prefix under which Miles keeps its rollouts.
const MilesPrefix = "miles-object-store"

// BundleOptions say how a bundle is written.
type BundleOptions struct {
	// Prefix begins the keys; empty is MilesPrefix. It may have slashes inside.
	Prefix string
	// ChunkBytes is the most that one object holds; 0 is 64 MiB.
	ChunkBytes int
	// Put says how the objects are kept. Without a group they get one of their own; upserts there are none.
	Put PutOptions
}

func (o *BundleOptions) settle() error {
	o.Prefix = strings.Trim(cmp.Or(o.Prefix, MilesPrefix), "/")
	o.ChunkBytes = cmp.Or(o.ChunkBytes, limits.BundleChunkBytes)
	switch {
	case o.ChunkBytes < limits.BundleChunkMin:
		return fmt.Errorf("ChunkBytes=%d is below %d", o.ChunkBytes, limits.BundleChunkMin)
	case o.Prefix == "":
		return errors.New("the prefix is empty")
	case o.Put.Upsert:
		return errors.New("a bundle is never written over: Upsert is set")
	}
	if o.Put.Group == "" {
		id, err := hex32()
		if err != nil {
			return err
		}
		o.Put.Group = "structured-" + id
	}
	return nil
}

// hex32 draws a number of 128 bits.
func hex32() (string, error) {
	var b [16]byte
	_, err := rand.Read(b[:])
	return hex.EncodeToString(b[:]), err
}

// PutRollout writes a rollout as the published clients do, with two calls to the master, and gives the handle by which they,
// and GetRollout, find it.
func (c *Client) PutRollout(ctx context.Context, r *bundle.Rollout, o BundleOptions) (*bundle.Handle, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if err := o.settle(); err != nil {
		return nil, err
	}
	meta, err := r.Meta()
	if err != nil {
		return nil, err
	}
	var members []bundle.Payload
	data := map[string][]byte{}
	for i := range r.Fields {
		for _, m := range r.Fields[i].Members {
			name := bundle.MemberName(r.Fields[i].Name, m.Part)
			members = append(members, bundle.Payload{Name: name, Bytes: uint64(len(m.Data))})
			data[name] = m.Data
		}
	}
	key, err := c.putBundle(ctx, cmp.Or(r.Partition, "default"), meta, members, data, &o)
	if err != nil {
		need := uint64(len(meta))
		for i := range members {
			need += members[i].Bytes
		}
		return nil, c.room(ctx, err, need)
	}
	return r.HandleFor(key, o.Put.Group)
}

// object is a key of a bundle with its bytes.
type object struct {
	name string // behind the id
	data []byte
}

// layOut cuts a payload into objects and notes their keys.
func layOut(p *bundle.Payload, id, name string, data []byte, chunk int) (list []object) {
	p.Key, p.Chunks = id+"/"+name, []bundle.Chunk{}
	many := len(data) > chunk
	for n := 0; len(data) > 0; n++ {
		piece := data[:min(len(data), chunk)]
		data = data[len(piece):]
		part := name
		if many {
			part = fmt.Sprintf("%s/chunk/%d", name, n)
		}
		p.Chunks = append(p.Chunks, bundle.Chunk{Key: id + "/" + part, Bytes: uint64(len(piece))})
		list = append(list, object{part, piece})
	}
	return list
}

// putBundle writes a bundle and returns the key of its manifest.
func (c *Client) putBundle(ctx context.Context, partition string, meta []byte, members []bundle.Payload, data map[string][]byte, o *BundleOptions) (key string, err error) {
	err = c.try(ctx, func(ctx context.Context, _ int) error {
		uuid, err := hex32()
		if err != nil {
			return err
		}
		listing := bundle.Listing{ObjectID: partition + "/" + uuid, Members: members}
		id := o.Prefix + "/" + listing.ObjectID
		listing.Meta.Bytes = uint64(len(meta))
		objects := layOut(&listing.Meta, id, "meta", meta, o.ChunkBytes)
		for i := range listing.Members {
			m := &listing.Members[i]
			objects = append(objects, layOut(m, id, "buffer/"+m.Name, data[m.Name], o.ChunkBytes)...)
		}
		text, err := listing.Encode()
		if err != nil {
			return err
		}
		objects = append(objects, object{"manifest", text})
		key = id + "/manifest"
		if err = c.writeBundle(ctx, id, objects, o); err != nil {
			c.abort(ctx, id)
		}
		return err
	})
	return key, err
}

// writeBundle reserves, writes and publishes.
func (c *Client) writeBundle(ctx context.Context, id string, objects []object, o *BundleOptions) error {
	q := &mooncakev1.BeginRequest{Client: c.id, Tenant: c.cfg.Tenant, Id: id, Policy: o.Put.policy()}
	for _, x := range objects {
		q.Members = append(q.Members, &mooncakev1.NewMember{Name: x.name, Size: uint64(len(x.data))})
	}
	var begun *mooncakev1.BeginReply
	err := c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		begun, err = mooncakev1.NewBundlesClient(conn).Begin(ctx, q)
		return err
	})
	if err != nil {
		return err
	}
	group, moving := transfers(ctx)
	for i, m := range begun.GetMembers() {
		c.writeAll(group, moving, m.GetPlacements(), cut(0, objects[i].data))
	}
	if err := group.Wait(); err != nil {
		if errors.Is(err, ErrNoCopy) {
			return err
		}
		return again{err}
	}
	return c.try(ctx, func(ctx context.Context, _ int) error {
		return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := mooncakev1.NewBundlesClient(conn).Commit(ctx, &mooncakev1.CommitRequest{Client: c.id, Tenant: c.cfg.Tenant, Id: id})
			return err
		})
	})
}

// abort gives up a bundle that may have been begun. What it cannot do the master's rules will.
func (c *Client) abort(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limits.ClientPauseMaxMs*time.Millisecond)
	defer cancel()
	_ = c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		_, err := mooncakev1.NewBundlesClient(conn).Abort(ctx, &mooncakev1.AbortRequest{Tenant: c.cfg.Tenant, Id: id})
		return err
	})
}

// A Bundle is an open bundle: its manifest is read, and where its objects lie is known.
type Bundle struct {
	*bundle.Listing
	c      *Client
	key    string // of the manifest
	places map[string]*mooncakev1.PlacementsResult
	asked  time.Time
	lease  uint64
}

// OpenBundle opens the bundle whose manifest has a key, with one call to the master, or two when an append made it.
func (c *Client) OpenBundle(ctx context.Context, manifestKey string) (*Bundle, error) {
	b := &Bundle{c: c, key: manifestKey}
	if _, part := bundle.Parse(manifestKey); part != bundle.Manifest {
		return nil, fmt.Errorf("%q is no key of a manifest", manifestKey)
	}
	return b, c.try(ctx, func(ctx context.Context, _ int) error { return b.open(ctx) })
}

// open finds out where everything is, and leases it.
func (b *Bundle) open(ctx context.Context) error {
	c, id := b.c, strings.TrimSuffix(b.key, "/manifest")
	asked := time.Now()
	var reply *mooncakev1.OpenReply
	err := c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) (err error) {
		reply, err = mooncakev1.NewBundlesClient(conn).Open(ctx, &mooncakev1.OpenRequest{Tenant: c.cfg.Tenant, Id: id})
		return err
	})
	if err != nil {
		return err
	}
	places := map[string]*mooncakev1.PlacementsResult{}
	for _, m := range reply.GetMembers() {
		places[id+"/"+m.GetName()] = &mooncakev1.PlacementsResult{Placements: m.GetPlacements(), Size: m.GetSize()}
	}
	b.places, b.asked, b.lease = places, asked, reply.GetLeaseMs()
	if b.Listing == nil {
		at := places[b.key]
		if at == nil || at.GetSize() > limits.ManifestBytes {
			return fmt.Errorf("%s: a manifest of %d bytes", b.key, at.GetSize())
		}
		text := newMemory(at.GetSize())
		if err := c.readAny(ctx, at.GetPlacements(), piece{0, text}); err != nil {
			return again{fmt.Errorf("%s: %w", b.key, err)}
		}
		if over(asked, b.lease) {
			return again{fmt.Errorf("%s: %w", b.key, ErrLeaseOver)}
		}
		if b.Listing, err = bundle.ParseManifest(b.key, text); err != nil {
			return fmt.Errorf("%s: %w", b.key, err)
		}
	}
	return b.findOthers(ctx)
}

// findOthers looks for what lies with other bundles.
func (b *Bundle) findOthers(ctx context.Context) error {
	var keys []string
	for _, chunk := range b.Keys() {
		if b.places[chunk.Key] == nil && strings.HasPrefix(chunk.Key, strings.TrimSuffix(b.key, "manifest")) {
			return &CodeError{Key: chunk.Key, Code: codeNotFound, Text: "the manifest names it, and it is gone"}
		}
		if b.places[chunk.Key] == nil {
			keys = append(keys, chunk.Key)
		}
	}
	for len(keys) > 0 {
		batch := keys[:min(len(keys), limits.GRPCBatch)]
		keys = keys[len(batch):]
		list, err := b.c.placements(ctx, batch, false)
		if err != nil {
			return err
		}
		for i, r := range list {
			if err := outcomeError(batch[i], r.GetOutcome()); err != nil {
				return b.c.refusal(err)
			}
			b.places[batch[i]] = r
		}
	}
	return nil
}

// read reads payloads whole.
func (b *Bundle) read(ctx context.Context, payloads []*bundle.Payload) ([][]byte, error) {
	out := make([][]byte, len(payloads))
	err := b.c.try(ctx, func(ctx context.Context, number int) error {
		if number > 0 || over(b.asked, b.lease/2) {
			if err := b.open(ctx); err != nil {
				return err
			}
		}
		group, moving := transfers(ctx)
		for i, p := range payloads {
			if out[i] == nil {
				out[i] = newMemory(p.Bytes)
			}
			at := uint64(0)
			for _, chunk := range p.Chunks {
				place := b.places[chunk.Key]
				if place.GetSize() != chunk.Bytes {
					return fmt.Errorf("%s: %d bytes, the manifest says %d", chunk.Key, place.GetSize(), chunk.Bytes)
				}
				for _, q := range cut(0, out[i][at:at+chunk.Bytes]) {
					group.Go(func() error { return b.c.readAny(moving, place.GetPlacements(), q) })
				}
				at += chunk.Bytes
			}
		}
		if err := group.Wait(); err != nil {
			return again{fmt.Errorf("%s: %w", b.key, err)}
		}
		if over(b.asked, b.lease) {
			return again{fmt.Errorf("%s: %w", b.key, ErrLeaseOver)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Read reads a member.
func (b *Bundle) Read(ctx context.Context, member string) ([]byte, error) {
	p := b.Member(member)
	if p == nil {
		return nil, fmt.Errorf("%s: no member %q", b.key, member)
	}
	out, err := b.read(ctx, []*bundle.Payload{p})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// GetRollout reads the rollout that a handle names, or only some of its fields. For every stage it is one call to the master.
func (c *Client) GetRollout(ctx context.Context, h *bundle.Handle, fields ...string) (*bundle.Rollout, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	if len(fields) == 0 {
		fields = h.FieldNames()
	}
	r := &bundle.Rollout{Namespace: h.Namespace, Partition: h.Partition, Rows: h.BatchSize, MetaInfo: h.MetaInfo, Fields: make([]bundle.Field, len(fields))}
	byStage := map[string][]int{}
	for i, name := range fields {
		at, known := h.Fields[name]
		if !known {
			return nil, fmt.Errorf("the rollout has no field %q", name)
		}
		byStage[at.Stage] = append(byStage[at.Stage], i)
	}
	for stage, which := range byStage {
		b, err := c.OpenBundle(ctx, h.Stages[stage].ManifestKey)
		if err != nil {
			return nil, err
		}
		if err := b.fields(ctx, h, fields, which, r.Fields); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// fields reads fields of one stage.
func (b *Bundle) fields(ctx context.Context, h *bundle.Handle, names []string, which []int, out []bundle.Field) error {
	payloads := []*bundle.Payload{&b.Meta}
	for _, i := range which {
		members, err := h.FieldMembers(names[i])
		if err != nil {
			return err
		}
		for _, m := range members {
			p := b.Member(m)
			if p == nil {
				return fmt.Errorf("%s: field %s: no member %q", b.key, names[i], m)
			}
			payloads = append(payloads, p)
		}
	}
	bytes, err := b.read(ctx, payloads)
	if err != nil {
		return err
	}
	specs, err := bundle.ParseMeta(bytes[0])
	if err != nil {
		return fmt.Errorf("%s: %w", b.key, err)
	}
	data := map[string][]byte{}
	for k, p := range payloads[1:] {
		data[p.Name] = bytes[k+1]
	}
	for _, i := range which {
		if out[i], err = h.Field(names[i], specs, data); err != nil {
			return fmt.Errorf("%s: %w", b.key, err)
		}
	}
	return nil
}

// RemoveRollout reclaims all of a rollout. Repeating it does no harm.
func (c *Client) RemoveRollout(ctx context.Context, h *bundle.Handle) error {
	for _, stage := range h.Stages {
		if err := c.RemoveBundle(ctx, stage.ManifestKey); err != nil {
			return err
		}
	}
	return nil
}

// RemoveBundle reclaims the bundle whose manifest has a key. One that is gone is no error.
func (c *Client) RemoveBundle(ctx context.Context, manifestKey string) error {
	id, ok := strings.CutSuffix(manifestKey, "/manifest")
	if !ok {
		return fmt.Errorf("%q is no key of a manifest", manifestKey)
	}
	err := c.try(ctx, func(ctx context.Context, _ int) error {
		return c.ask(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
			_, err := mooncakev1.NewBundlesClient(conn).Reclaim(ctx, &mooncakev1.ReclaimRequest{Tenant: c.cfg.Tenant, Id: id})
			return err
		})
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// WatchBundles tells of bundles whose ids begin with a prefix: first those that are published already, then those that become
// so or are withdrawn, until told stops it or the context ends. A bundle may be told of twice. When the connection is lost it
// begins anew.
func (c *Client) WatchBundles(ctx context.Context, prefix string, told func(id string, withdrawn bool) (more bool)) error {
	for {
		err := c.watchOnce(ctx, prefix, told)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if code := status.Code(err); code != codes.Unavailable && code != codes.DataLoss {
			return callError(err)
		}
		timer := time.NewTimer(limits.ClientPauseMaxMs * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

func (c *Client) watchOnce(ctx context.Context, prefix string, told func(id string, withdrawn bool) bool) error {
	conn, address, err := c.master()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.calls.Add(1)
	stream, err := mooncakev1.NewBundlesClient(conn).Watch(ctx, &mooncakev1.WatchBundlesRequest{Tenant: c.cfg.Tenant, Prefix: prefix, Existing: true})
	for err == nil {
		var reply *mooncakev1.WatchBundlesReply
		if reply, err = stream.Recv(); err != nil {
			break
		}
		for _, e := range reply.GetEvents() {
			if !told(e.GetId(), e.GetWithdrawn()) {
				return nil
			}
		}
	}
	if status.Code(err) == codes.Unavailable {
		c.turn(address, leaderIn(err))
	}
	return err
}
