package master

import "mooncake/wire"

// What the published masters offer only when they are built with it, or when somebody uses it: the answers here are those of
// a master without NVMe-oF, and of one into which no weights were imported.

// registerWithout binds the answer to a call about something that is not there.
func registerWithout[Req, Rep any](s *Service, call *wire.Call[Req, Rep], fn func(req *Req, rep *Rep)) {
	register(s, call, func(_ *peerConn, q *Req, r *Rep) { fn(q, r) })
}

func (s *Service) registerNoF() {
	registerWithout(s, &wire.MountNoFSegment, func(_ *wire.MountNoFSegmentRequest, r *wire.MountNoFSegmentReply) {
		r.Err = wire.ErrUnavailableInCurrentMode
	})
	registerWithout(s, &wire.ReMountNoFSegment, func(_ *wire.ReMountNoFSegmentRequest, r *wire.ReMountNoFSegmentReply) {
		r.Err = wire.ErrUnavailableInCurrentMode
	})
	registerWithout(s, &wire.UnmountNoFSegment, func(_ *wire.UnmountNoFSegmentRequest, r *wire.UnmountNoFSegmentReply) {
		r.Err = wire.ErrUnavailableInCurrentMode
	})
	registerWithout(s, &wire.GetAllNoFSegments, func(*wire.GetAllNoFSegmentsRequest, *wire.GetAllNoFSegmentsReply) {})
	registerWithout(s, &wire.GetNoFSegmentsByName, func(_ *wire.GetNoFSegmentsByNameRequest, r *wire.GetNoFSegmentsByNameReply) {
		r.Err = wire.ErrSegmentNotFound
	})
}

// Limits of what calls about weights may name, as 0.3.14 has them.
const (
	weightTextBytes  = 4096
	weightListMost   = 1000
	weightLeaseMsMax = 1 << 40 // where exactly is not known; what is longer than decades is refused
)

func (s *Service) registerWeights() {
	registerWithout(s, &wire.BeginWeightImport, func(q *wire.BeginWeightImportArgs, r *wire.BeginWeightImportReply) {
		r.Err = wire.WeightErrNotReady // an import would have to be kept
		if v := &q.Request; !named(&v.Identity) || v.PayloadGroupID != "" || v.ExpectedPayloadCount == 0 || v.ExpectedLogicalBytes == 0 {
			r.Err = wire.WeightErrInvalidArgument
		}
	})
	registerWithout(s, &wire.CommitWeightImport, func(q *wire.CommitWeightImportArgs, r *wire.CommitWeightImportReply) {
		m := &q.Request.Manifest
		r.Err = absent(&q.Request.Identity, q.Request.ExpectedMetadataGeneration > 0 && m.ManifestKey != "" && len(m.ManifestSha256) == 64 &&
			m.PayloadGroupID != "" && len(m.PayloadKeysSha256) == 64 && m.PayloadCount > 0 && m.LogicalBytes > 0)
	})
	registerWithout(s, &wire.AbortWeightImport, func(q *wire.AbortWeightImportArgs, r *wire.AbortWeightImportReply) {
		r.Err = absent(&q.Request.Identity, q.Request.ExpectedMetadataGeneration > 0)
	})
	registerWithout(s, &wire.GetWeightRevision, func(q *wire.GetWeightRevisionArgs, r *wire.GetWeightRevisionReply) {
		r.Err = absent(&q.Request.Identity, true)
	})
	registerWithout(s, &wire.ListWeightRevisions, func(q *wire.ListWeightRevisionsArgs, r *wire.ListWeightRevisionsReply) {
		if v := &q.Request; v.NameSpace == "" || v.ResourceID == "" || v.PageToken != "" || v.Limit == 0 || v.Limit > weightListMost {
			r.Err = wire.WeightErrInvalidArgument
		}
	})
	registerWithout(s, &wire.AcquireWeightRevisionLease, func(q *wire.AcquireWeightRevisionLeaseArgs, r *wire.AcquireWeightRevisionLeaseReply) {
		v := &q.Request
		r.Err = absent(&v.Identity, v.ExpectedMetadataGeneration > 0 && v.Holder != "" && v.TTLMs > 0 && v.TTLMs <= weightLeaseMsMax)
	})
	registerWithout(s, &wire.RenewWeightRevisionLease, func(q *wire.RenewWeightRevisionLeaseArgs, r *wire.RenewWeightRevisionLeaseReply) {
		if r.Err = wire.WeightErrNotFound; q.Request.LeaseID == 0 || q.Request.TTLMs == 0 {
			r.Err = wire.WeightErrInvalidArgument
		}
	})
	registerWithout(s, &wire.ReleaseWeightRevisionLease, func(q *wire.ReleaseWeightRevisionLeaseArgs, r *wire.ReleaseWeightRevisionLeaseReply) {
		if q.Request.LeaseID == 0 { // giving up what nobody holds is fine
			r.Err = wire.WeightErrInvalidArgument
		}
	})
	registerWithout(s, &wire.StartWeightResidencyOperation, func(q *wire.StartWeightResidencyOperationArgs, r *wire.StartWeightResidencyOperationReply) {
		v := &q.Request
		r.Err = absent(&v.Identity, v.ExpectedMetadataGeneration > 0 && (v.TargetResidency == 1 || v.TargetResidency == 2))
	})
	registerWithout(s, &wire.QueryWeightOperation, func(q *wire.QueryWeightOperationArgs, r *wire.QueryWeightOperationReply) {
		if r.Err = wire.WeightErrNotFound; q.Request.OperationID == 0 {
			r.Err = wire.WeightErrInvalidArgument
		}
	})
	registerWithout(s, &wire.DeleteWeightRevision, func(q *wire.DeleteWeightRevisionArgs, r *wire.DeleteWeightRevisionReply) {
		r.Err = absent(&q.Request.Identity, q.Request.ExpectedMetadataGeneration > 0)
	})
}

// absent is the answer about a revision that was never imported; the rest of the request is good or not.
func absent(id *wire.WeightRevisionIdentity, good bool) wire.WeightManagementError {
	if !good || !named(id) {
		return wire.WeightErrInvalidArgument
	}
	return wire.WeightErrNotFound
}

// named tells whether a revision has a possible name.
func named(id *wire.WeightRevisionIdentity) bool {
	for _, text := range []string{id.NameSpace, id.ResourceID, id.Revision} {
		if text == "" || len(text) > weightTextBytes {
			return false
		}
		for i := range len(text) {
			if text[i] < 0x20 || text[i] == 0x7f {
				return false
			}
		}
	}
	return id.WeightGeneration > 0
}
