package main

import "strings"

// argumentNames names the arguments of every call, by position; the JSON has only their types.
var argumentNames = map[string][]string{
	"ExistKey":                    words("key tenant_id"),
	"BatchExistKey":               words("keys tenant_id"),
	"BatchQueryIp":                words("client_ids"),
	"PutStart":                    words("client_id key size config tenant_id"),
	"PutEnd":                      words("client_id object replica_type tenant_id"),
	"PutRevoke":                   words("client_id key replica_type tenant_id"),
	"BatchPutStart":               words("client_id keys sizes config tenant_id"),
	"BatchPutEnd":                 words("client_id objects replica_type tenant_id"),
	"BatchPutRevoke":              words("client_id keys replica_type tenant_id"),
	"UpsertStart":                 words("client_id key size config tenant_id"),
	"UpsertEnd":                   words("client_id object replica_type tenant_id"),
	"UpsertRevoke":                words("client_id key replica_type tenant_id"),
	"BatchUpsertStart":            words("client_id keys sizes config tenant_id"),
	"BatchUpsertEnd":              words("client_id objects tenant_id"),
	"BatchUpsertRevoke":           words("client_id keys tenant_id"),
	"Remove":                      words("key force tenant_id"),
	"RemoveByRegex":               words("regex force tenant_id"),
	"RemoveAll":                   words("force tenant_id"),
	"BatchRemove":                 words("keys force tenant_id"),
	"BatchReplicaClear":           words("keys client_id segment_name tenant_id"),
	"GetReplicaListByRegex":       words("regex tenant_id"),
	"GetReplicaList":              words("key tenant_id"),
	"BatchGetReplicaList":         words("keys tenant_id"),
	"GetReplicaListForAdmin":      words("key tenant_id"),
	"BatchGetReplicaListForAdmin": words("keys tenant_id"),
	"ProbeKey":                    words("key tenant_id"),
	"BatchProbeKey":               words("policy keys tenant_id"),

	"MountSegment":            words("segment client_id"),
	"MountNoFSegment":         words("segment client_id"),
	"ReMountSegment":          words("segments client_id"),
	"ReMountNoFSegment":       words("segments client_id"),
	"UnmountSegment":          words("segment_id client_id"),
	"UnmountNoFSegment":       words("segment_id client_id"),
	"GracefulUnmountSegment":  words("segment_id client_id grace_period_ms"),
	"GetAllNoFSegments":       nil,
	"GetNoFSegmentsByName":    words("segment_name"),
	"QuerySegmentStatus":      words("segment_name"),
	"QuerySegmentStatusById":  words("segment_id"),
	"MountLocalDiskSegment":   words("client_id enable_offloading"),
	"UnmountLocalDiskSegment": words("client_id"),

	"Ping":             words("client_id"),
	"ServiceReady":     nil,
	"GetFsdir":         nil,
	"GetStorageConfig": nil,

	"OffloadObjectHeartbeat":    words("client_id enable_offloading"),
	"ReportSsdCapacity":         words("client_id capacity_bytes"),
	"NotifyOffloadSuccess":      words("client_id tasks metadatas"),
	"PromotionObjectHeartbeat":  words("client_id"),
	"PromotionAllocStart":       words("client_id key tenant_id size preferred_segments"),
	"NotifyPromotionSuccess":    words("client_id key tenant_id"),
	"NotifyPromotionFailure":    words("client_id key tenant_id"),
	"RegisterPrefetchTask":      words("client_id key tenant_id"),
	"EvictDiskReplica":          words("client_id key tenant_id replica_type"),
	"EvictDiskReplicaIfCurrent": words("client_id key tenant_id replica_type expected"),
	"BatchEvictDiskReplica":     words("client_id keys tenant_id replica_type"),
	"PollRemoveAll":             words("client_id"),

	"CopyStart":                words("client_id key tenant_id source targets"),
	"CopyEnd":                  words("client_id key tenant_id"),
	"CopyRevoke":               words("client_id key tenant_id"),
	"MoveStart":                words("client_id key tenant_id source target"),
	"MoveEnd":                  words("client_id key tenant_id"),
	"MoveRevoke":               words("client_id key tenant_id"),
	"DynamicReplicaCopyStart":  words("client_id key tenant_id source targets lease_id version_epoch"),
	"DynamicReplicaCopyEnd":    words("client_id key tenant_id lease_id version_epoch"),
	"DynamicReplicaCopyRevoke": words("client_id key tenant_id lease_id version_epoch"),
	"CreateCopyTask":           words("key tenant_id targets"),
	"CreateMoveTask":           words("key tenant_id source target"),
	"QueryTask":                words("task_id"),
	"FetchTasks":               words("client_id batch_size"),
	"MarkTaskToComplete":       words("client_id task"),

	"BeginWeightImport":             words("request tenant_id"),
	"CommitWeightImport":            words("request tenant_id"),
	"AbortWeightImport":             words("request tenant_id"),
	"GetWeightRevision":             words("request tenant_id"),
	"ListWeightRevisions":           words("request tenant_id"),
	"AcquireWeightRevisionLease":    words("request tenant_id"),
	"RenewWeightRevisionLease":      words("request tenant_id"),
	"ReleaseWeightRevisionLease":    words("request tenant_id"),
	"StartWeightResidencyOperation": words("request tenant_id"),
	"QueryWeightOperation":          words("request tenant_id"),
	"DeleteWeightRevision":          words("request tenant_id"),
}

// enumPrefix is what the constants of an enum start with, where that is not the enum's own name.
var enumPrefix = map[string]string{
	"ErrorCode":               "Err",
	"SoftPinAction":           "SoftPin",
	"ObjectDataType":          "DataType",
	"WeightManagementError":   "WeightErr",
	"WeightAvailabilityState": "WeightAvailability",
	"WeightResidencyState":    "WeightResidency",
	"WeightOperationState":    "WeightOperation",
}

// alternatives are the fields of ReplicaVariant, by the type they hold. All but the first are pointers.
var alternatives = map[string]string{
	"MemoryDescriptor":        "Memory",
	"NoFDescriptor":           "NoF",
	"DiskDescriptor":          "Disk",
	"LocalDiskDescriptor":     "LocalDisk",
	"DistributedFSDescriptor": "DFS",
}

func words(s string) []string { return strings.Fields(s) }

// spellings are the words that do not simply start with a capital.
var spellings = map[string]string{"id": "ID", "ids": "IDs", "ttl": "TTL", "ok": "OK"}

// camel turns soft_pin_ttl_ms or OBJECT_NOT_FOUND into a Go name.
func camel(s string) string {
	var b strings.Builder
	for _, w := range strings.Split(strings.ToLower(s), "_") {
		if special, ok := spellings[w]; ok {
			b.WriteString(special)
		} else if w != "" {
			b.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return b.String()
}

// requestType is the Go name of a call's arguments. Some calls of the newest release take a struct of the name that the
// arguments would have.
func (m *model) requestType(c *call) string {
	if _, taken := m.union.nodes[c.name+"Request"]; taken {
		return c.name + "Args"
	}
	return c.name + "Request"
}

// goType is a type in Go.
func goType(n *node) string {
	switch n.kind {
	case kindScalar:
		return scalarOf(n).goType
	case kindString:
		return "string"
	case kindVoid:
		return "Void"
	case kindUUID:
		return "UUID"
	case kindVector:
		return "[]" + goType(n.args[0])
	case kindMap:
		return "[]MapEntry[" + goType(n.args[0]) + ", " + goType(n.args[1]) + "]"
	case kindOptional, kindCompat:
		return "Opt[" + goType(n.args[0]) + "]"
	case kindExpected:
		return "Exp[" + goType(n.args[0]) + ", " + goType(n.args[1]) + "]"
	case kindVariant:
		return "ReplicaVariant"
	}
	return n.name
}
