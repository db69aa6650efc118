package master

import (
	"strings"
	"testing"

	"mooncake/wire"
)

// TestWithoutNoF asks a master without NVMe over fabrics about it.
func TestWithoutNoF(t *testing.T) {
	inEachRelease(t, func(t *testing.T, _ *bed, p *peer) {
		no := wire.ErrUnavailableInCurrentMode
		expect(t, "mount", invoke(p, &wire.MountNoFSegment, &wire.MountNoFSegmentRequest{}).Err, no)
		expect(t, "remount", invoke(p, &wire.ReMountNoFSegment, &wire.ReMountNoFSegmentRequest{}).Err, no)
		expect(t, "unmount", invoke(p, &wire.UnmountNoFSegment, &wire.UnmountNoFSegmentRequest{}).Err, no)
		all := invoke(p, &wire.GetAllNoFSegments, &wire.GetAllNoFSegmentsRequest{})
		if all.Err != 0 || len(all.Value) != 0 {
			t.Errorf("all: %+v", all)
		}
		expect(t, "by name", invoke(p, &wire.GetNoFSegmentsByName, &wire.GetNoFSegmentsByNameRequest{}).Err, wire.ErrSegmentNotFound)
	})
}

// TestWithoutWeights asks about weights that nobody imported: the answers are those of a published master.
func TestWithoutWeights(t *testing.T) {
	p := newBed(t).client(wire.V14)
	id := wire.WeightRevisionIdentity{TenantID: "default", NameSpace: "n", ResourceID: "r", Revision: "1", WeightGeneration: 1}
	noTenant, noName, noResource, noRevision, noGeneration := id, id, id, id, id
	noTenant.TenantID, noName.NameSpace, noResource.ResourceID, noRevision.Revision, noGeneration.WeightGeneration = "", "", "", "", 0
	get := func(id wire.WeightRevisionIdentity) wire.WeightManagementError {
		return invoke(p, &wire.GetWeightRevision, &wire.GetWeightRevisionArgs{Request: wire.GetWeightRevisionRequest{Identity: id}}).Err
	}
	expect(t, "get", get(id), wire.WeightErrNotFound)
	expect(t, "get without tenant", get(noTenant), wire.WeightErrNotFound)
	for _, bad := range []wire.WeightRevisionIdentity{noName, noResource, noRevision, noGeneration} {
		expect(t, "get of no revision", get(bad), wire.WeightErrInvalidArgument)
	}
	list := invoke(p, &wire.ListWeightRevisions, &wire.ListWeightRevisionsArgs{Request: wire.ListWeightRevisionsRequest{NameSpace: "n", ResourceID: "r", Limit: 10}})
	if list.Err != 0 || len(list.Value.Revisions) != 0 || list.Value.NextPageToken != "" {
		t.Errorf("list: %+v", list)
	}
	expect(t, "list of nothing", invoke(p, &wire.ListWeightRevisions, &wire.ListWeightRevisionsArgs{}).Err, wire.WeightErrInvalidArgument)
	digest := strings.Repeat("0a", 32)
	for _, step := range []struct {
		name      string
		got, want wire.WeightManagementError
	}{
		{"begin", invoke(p, &wire.BeginWeightImport, &wire.BeginWeightImportArgs{Request: wire.BeginWeightImportRequest{Identity: id, ExpectedPayloadCount: 1, ExpectedLogicalBytes: 5}}).Err, wire.WeightErrNotReady},
		{"begin of nothing", invoke(p, &wire.BeginWeightImport, &wire.BeginWeightImportArgs{}).Err, wire.WeightErrInvalidArgument},
		{"commit", invoke(p, &wire.CommitWeightImport, &wire.CommitWeightImportArgs{Request: wire.CommitWeightImportRequest{
			Identity: id, ExpectedMetadataGeneration: 1, Manifest: wire.WeightManifestReference{ManifestKey: "m", ManifestSha256: digest, PayloadGroupID: "g", PayloadKeysSha256: digest, PayloadCount: 1, LogicalBytes: 5},
		}}).Err, wire.WeightErrNotFound},
		{"commit without digest", invoke(p, &wire.CommitWeightImport, &wire.CommitWeightImportArgs{Request: wire.CommitWeightImportRequest{
			Identity: id, ExpectedMetadataGeneration: 1, Manifest: wire.WeightManifestReference{ManifestKey: "m", ManifestSha256: "x", PayloadGroupID: "g", PayloadKeysSha256: digest, PayloadCount: 1, LogicalBytes: 5},
		}}).Err, wire.WeightErrInvalidArgument},
		{"abort", invoke(p, &wire.AbortWeightImport, &wire.AbortWeightImportArgs{Request: wire.AbortWeightImportRequest{Identity: id, ExpectedMetadataGeneration: 1}}).Err, wire.WeightErrNotFound},
		{"abort without generation", invoke(p, &wire.AbortWeightImport, &wire.AbortWeightImportArgs{Request: wire.AbortWeightImportRequest{Identity: id}}).Err, wire.WeightErrInvalidArgument},
		{"lease", invoke(p, &wire.AcquireWeightRevisionLease, &wire.AcquireWeightRevisionLeaseArgs{Request: wire.AcquireWeightRevisionLeaseRequest{
			Identity: id, ExpectedMetadataGeneration: 1, Holder: "h", TTLMs: 1,
		}}).Err, wire.WeightErrNotFound},
		{"lease without holder", invoke(p, &wire.AcquireWeightRevisionLease, &wire.AcquireWeightRevisionLeaseArgs{Request: wire.AcquireWeightRevisionLeaseRequest{
			Identity: id, ExpectedMetadataGeneration: 1, TTLMs: 1,
		}}).Err, wire.WeightErrInvalidArgument},
		{"renew", invoke(p, &wire.RenewWeightRevisionLease, &wire.RenewWeightRevisionLeaseArgs{Request: wire.RenewWeightRevisionLeaseRequest{LeaseID: 1, TTLMs: 1}}).Err, wire.WeightErrNotFound},
		{"renew for no time", invoke(p, &wire.RenewWeightRevisionLease, &wire.RenewWeightRevisionLeaseArgs{Request: wire.RenewWeightRevisionLeaseRequest{LeaseID: 1}}).Err, wire.WeightErrInvalidArgument},
		{"release", invoke(p, &wire.ReleaseWeightRevisionLease, &wire.ReleaseWeightRevisionLeaseArgs{Request: wire.ReleaseWeightRevisionLeaseRequest{LeaseID: 1}}).Err, 0},
		{"release of nothing", invoke(p, &wire.ReleaseWeightRevisionLease, &wire.ReleaseWeightRevisionLeaseArgs{}).Err, wire.WeightErrInvalidArgument},
		{"move", invoke(p, &wire.StartWeightResidencyOperation, &wire.StartWeightResidencyOperationArgs{Request: wire.StartWeightResidencyOperationRequest{
			Identity: id, ExpectedMetadataGeneration: 1, TargetResidency: 1,
		}}).Err, wire.WeightErrNotFound},
		{"move to nowhere", invoke(p, &wire.StartWeightResidencyOperation, &wire.StartWeightResidencyOperationArgs{Request: wire.StartWeightResidencyOperationRequest{
			Identity: id, ExpectedMetadataGeneration: 1,
		}}).Err, wire.WeightErrInvalidArgument},
		{"query", invoke(p, &wire.QueryWeightOperation, &wire.QueryWeightOperationArgs{Request: wire.QueryWeightOperationRequest{OperationID: 1}}).Err, wire.WeightErrNotFound},
		{"query of nothing", invoke(p, &wire.QueryWeightOperation, &wire.QueryWeightOperationArgs{}).Err, wire.WeightErrInvalidArgument},
		{"delete", invoke(p, &wire.DeleteWeightRevision, &wire.DeleteWeightRevisionArgs{Request: wire.DeleteWeightRevisionRequest{Identity: id, ExpectedMetadataGeneration: 1}}).Err, wire.WeightErrNotFound},
		{"delete of nothing", invoke(p, &wire.DeleteWeightRevision, &wire.DeleteWeightRevisionArgs{}).Err, wire.WeightErrInvalidArgument},
	} {
		expect(t, step.name, step.got, step.want)
	}
}
