package master

import (
	"mooncake/catalog"
	"mooncake/wire"
)

// Everything that crosses from the wire into the catalog or back is turned here, and nowhere else.

func clientID(u wire.UUID) catalog.UUID { return catalog.UUID{Hi: u.Hi, Lo: u.Lo} }

func wireID(u catalog.UUID) wire.UUID { return wire.UUID{Hi: u.Hi, Lo: u.Lo} }

func segmentIn(s *wire.Segment) catalog.Segment {
	return catalog.Segment{
		ID: clientID(s.ID), Name: s.Name, Base: s.Base, Size: s.Size,
		Endpoint: s.TeEndpoint, Protocol: s.Protocol, HostID: s.HostID, Locality: localityIn(&s.Locality),
	}
}

// replicasOut appends the wire form of an object's replicas to dst. The catalog knows offsets; the address a client dials is
// the segment's base plus that offset.
func (s *Service) replicasOut(key string, dst []wire.ReplicaDescriptor, replicas []catalog.Replica) []wire.ReplicaDescriptor {
	for i := range replicas {
		r := &replicas[i]
		if r.Disk != nil {
			dst = append(dst, s.diskOut(key, r))
			continue
		}
		dst = append(dst, wire.ReplicaDescriptor{
			ID: r.ID,
			DescriptorVariant: wire.ReplicaVariant{
				Index: variantMemory,
				Memory: wire.MemoryDescriptor{BufferDescriptor: wire.BufferDescriptor{
					Size:              r.Size,
					BufferAddress:     r.Segment.Base + r.Offset,
					Protocol:          r.Segment.Protocol,
					TransportEndpoint: r.Segment.Endpoint,
					Locality:          localityOut(r.Segment.Locality),
				}},
			},
			Status: wire.ReplicaStatus(r.Status),
		})
	}
	return dst
}

// variantMemory is the alternative of a replica descriptor that names bytes in a segment.
const variantMemory = 0

// codeOf turns what the catalog says into the number a client sees.
func codeOf(err error) wire.ErrorCode {
	if err == nil {
		return 0
	}
	e, ok := err.(catalog.Error)
	if !ok {
		return wire.ErrInternalError
	}
	if c, ok := wireCodes[e]; ok {
		return c
	}
	return wire.ErrInternalError
}

var wireCodes = map[catalog.Error]wire.ErrorCode{
	catalog.ErrInvalidParams:     wire.ErrInvalidParams,
	catalog.ErrObjectNotFound:    wire.ErrObjectNotFound,
	catalog.ErrObjectExists:      wire.ErrObjectAlreadyExists,
	catalog.ErrNoSpace:           wire.ErrNoAvailableHandle,
	catalog.ErrNotReady:          wire.ErrReplicaIsNotReady,
	catalog.ErrHasLease:          wire.ErrObjectHasLease,
	catalog.ErrIllegalClient:     wire.ErrIllegalClient,
	catalog.ErrInvalidWrite:      wire.ErrInvalidWrite,
	catalog.ErrReplicationTask:   wire.ErrObjectHasReplicationTask,
	catalog.ErrReplicaBusy:       wire.ErrObjectReplicaBusy,
	catalog.ErrSegmentNotFound:   wire.ErrSegmentNotFound,
	catalog.ErrUnavailableStatus: wire.ErrUnavailableInCurrentStatus,

	catalog.ErrNoReplicationTask: wire.ErrObjectNoReplicationTask,
	catalog.ErrReplicaNotFound:   wire.ErrReplicaNotFound,
	catalog.ErrReplicaGone:       wire.ErrReplicaIsGone,

	catalog.ErrTenantNotRegistered: wire.ErrTenantNotRegistered,
	catalog.ErrTenantQuota:         wire.ErrTenantQuotaExceeded,
	catalog.ErrTenantNotEmpty:      wire.ErrTenantNotEmpty,
	catalog.ErrUnableOffload:       wire.ErrUnableOffload,
}

// putOptions reads the replicate config of a put, and gives the key under which the catalog keeps the object. The checks are
// those that need no look at the catalog, in the order of the original; group is the object's own entry of the request's
// group list.
func (s *Service) putOptions(key string, size uint64, tenant string, c *wire.ReplicateConfig, group string) (string, catalog.PutOptions, wire.ErrorCode) {
	key, group, code := s.putKeys(key, size, tenant, c, group)
	if code != 0 {
		return "", catalog.PutOptions{}, code
	}
	o := s.optionsOf(tenant, c)
	o.Group = group
	return key, o, 0
}

// putKeys is the part of putOptions that differs between the items of a batch: the key and the group as the catalog has them.
func (s *Service) putKeys(key string, size uint64, tenant string, c *wire.ReplicateConfig, group string) (keptKey, keptGroup string, code wire.ErrorCode) {
	if keptKey, code = s.keyOf(tenant, key); code == 0 {
		code = checkPut(key, size, c)
	}
	if code == 0 {
		keptGroup, code = s.keyOf(tenant, group)
	}
	return keptKey, keptGroup, code
}

// optionsOf is the other part.
func (s *Service) optionsOf(tenant string, c *wire.ReplicateConfig) catalog.PutOptions {
	o := catalog.PutOptions{
		Replicas:      c.ReplicaNum,
		SoftPin:       uint8(c.SoftPinAction),
		SoftPinTTLMs:  int64(min(c.SoftPinTTLMs.Value, 1<<62)),
		SoftPinTTLSet: c.SoftPinTTLMs.Set,
		HardPin:       c.WithHardPin,
		Preferred:     c.PreferredSegments,
		SameHost:      c.PreferAllocInSameNode,
		HostID:        c.HostID,
		Tenant:        s.tenantOf(tenant),
		File:          s.cfg.RootFSDir != "",
		DataType:      uint8(c.DataType),
	}
	if c.PreferredSegment != "" {
		o.Preferred = []string{c.PreferredSegment}
	}
	return o
}

func checkPut(key string, size uint64, c *wire.ReplicateConfig) wire.ErrorCode {
	switch {
	case c.ReplicaNum == 0 && c.NofReplicaNum == 0 && c.DfsReplicaNum == 0, key == "", size == 0:
		return wire.ErrInvalidParams
	case c.DfsReplicaNum > 1:
		return wire.ErrInvalidParams
	case c.DfsReplicaNum == 1:
		return wire.ErrDfsServiceUnavailable
	case c.NofReplicaNum > 0:
		return wire.ErrInvalidParams
	}
	return 0
}

// groupOf picks item i of a request's group list; ok is false when the list does not have one entry per key.
func groupOf(c *wire.ReplicateConfig, i, keys int) (group string, ok bool) {
	if !c.GroupIDs.Set {
		return "", true
	}
	if len(c.GroupIDs.Value) != keys {
		return "", false
	}
	return c.GroupIDs.Value[i], true
}
