// Package limits holds every bound of the project in one place: frames, keys, queues, connections and loops.
// A constant lives here, with the reason for its value, so that an operator or a maintainer can see at a glance what
// the daemons refuse and why. It imports nothing and everything may import it.
package limits

// catalog/alloc

// AllocLargeBytes is the size from which a range is taken from the high end of a segment instead of the low end. Two
// orders of magnitude separate the small objects of a training step (up to some 100 kB) from the large ones (10 MiB and
// more); keeping them at opposite ends stops the small ones from crumbling the holes that the large ones need.
const AllocLargeBytes = 1 << 20

// AllocBlockExtents is how many free extents one block of the index holds before it is split: 256 extents of 16 bytes are
// one 4 KiB size class of Go's heap, short enough to shift in well under a microsecond.
const AllocBlockExtents = 256

// internal/hostport

// AddressTextBytesMax is the longest address text that is looked at: a DNS name ends at 253 characters, an IPv6 address
// with zone and brackets well before, and a port adds six.
const AddressTextBytesMax = 320

// internal/rawconn

// RawCallBytes is how much one raw system call reads or writes. The garbage collector cannot stop the world while one
// runs: copying 256 KiB takes some 60 µs, which it hardly notices, while 1 MiB would take up to 300 µs. Smaller pieces cost
// more calls: 64 KiB a tenth of the processor time of a large body.
const RawCallBytes = 256 << 10

// RawPieces is how many buffers one gathered write may have: a header, a scratch part and two pieces of body are all that
// any of our protocols puts into one packet.
const RawPieces = 4

// internal/acceptloop

// AcceptPauseMinMs and AcceptPauseMaxMs bound the pause after a failed accept. The first is short enough not to be
// noticed after a single reset; the second keeps a daemon without descriptors from spinning, yet back within a second.
const (
	AcceptPauseMinMs = 5
	AcceptPauseMaxMs = 1000
)

// descriptor

// HandshakeFrameBytes is the largest handshake frame by default, and HandshakeFrameBytesMax the most that
// MC_HANDSHAKE_MAX_LENGTH may ask for: both are the bounds of the original, so that both sides refuse the same frames.
const (
	HandshakeFrameBytes    = 1 << 20
	HandshakeFrameBytesMax = 128 << 20
)

// HandshakeReceiveMs is how long a handshake connection may take to send its one request and to take its answer. The
// original waits as long, but lets everybody else wait with it.
const HandshakeReceiveMs = 5000

// HandshakeLingerMs is how long the server waits for the asker to close after the answer. Closing first would leave the
// TIME_WAIT state on the server's side; waiting for ever would keep dead peers.
const HandshakeLingerMs = 5000

// HandshakeConns is how many handshakes are served at once. Each lasts a few milliseconds; more than this at once means
// that peers are stuck, and further ones wait in the kernel's queue.
const HandshakeConns = 1024

// HandshakeConnectMs is how long an asker waits for the connection, as the original does (MC_HANDSHAKE_CONNECT_TIMEOUT).
const HandshakeConnectMs = 5000

// HandshakeReplyMs is how long an asker waits for the answer once connected: the original's server works on one
// connection at a time and lets each hold it for 5 s, so one stuck peer in front of us must fit in.
const HandshakeReplyMs = 12000

// HandshakePortDefault is the port of an endpoint that names none.
const HandshakePortDefault = 12001

// HandshakeQPs bounds the queue pairs that one handshake connects. Published clients list 2 (MC_NUM_QP_PER_EP).
const HandshakeQPs = 256

// HandshakeNICPathBytes bounds a nic path: a server's name (SegmentNameBytes, or a host name of 253 and a port) and a
// device's name, which the kernel bounds to 63.
const HandshakeNICPathBytes = 512

// internal/etcdkv

// EtcdCallMs bounds one get, put or delete: the original's metadata clients give up after three seconds as well.
const EtcdCallMs = 3000

// EtcdDialMs bounds one connection attempt; two must fit into a call, so that a second endpoint gets its turn.
const EtcdDialMs = 1500

// EtcdKeepaliveMs is the pause after which an idle connection is probed. etcd itself refuses probes more often than
// every five seconds.
const EtcdKeepaliveMs = 10000

// EtcdEndpoints is how many endpoints a list may name: clusters have three to seven members.
const EtcdEndpoints = 32

// EtcdPasswordBytes bounds a password that is read from a file: a longer text is another file.
const EtcdPasswordBytes = 1024

// EtcdPortDefault is etcd's own client port.
const EtcdPortDefault = 2379

// catalog

// CatalogShardBits gives 1,024 parts of the index: at ten million keys one part has 16,384 slots, which double in a tenth
// of a millisecond.
const CatalogShardBits = 10

// CatalogUnitShardBits gives the index of groups 64 parts; a group has dozens of members, so there are fewer of them.
const CatalogUnitShardBits = 6

// CatalogSpareSpans is how many empty spans of records are kept back, so that a store which is filled and emptied in
// rounds does not ask the system for memory in each.
const CatalogSpareSpans = 16

// KeyBytesMax is the longest key and the longest group name: a record has to fit into one span of 1 MiB. The longest key
// seen from a published client has 70,000 bytes.
const KeyBytesMax = 1<<20 - 512

// ReplicasPerObjectMax bounds the copies of one object; a request for more gets as many as there are segments, up to it.
const ReplicasPerObjectMax = 128

// CatalogSegmentsMax bounds the segments mounted at once: a cluster has hundreds of nodes with a few segments each.
const CatalogSegmentsMax = 1 << 16

// CatalogSegmentBytesMax bounds one segment: the user half of a 47-bit address space, which no process exceeds. So many
// segments as CatalogSegmentsMax allows add up to 2^63; without a bound two clients could make the sum of all sizes wrap,
// and a pool that looks small is emptied by the eviction.
const CatalogSegmentBytesMax = 1 << 47

// PreferredSegmentsMax is how many of the preferred segments that a put names are looked at, with everybody else waiting.
// They are a wish, so that a longer list is no mistake; a cluster has hundreds of segments.
const PreferredSegmentsMax = 1024

// CatalogSliceItems is how many records a sweep, a listing or an eviction treats before it lets others take the lock:
// some 0.1 ms.
const CatalogSliceItems = 256

// CatalogChangesKept is how many changes the catalog keeps memory for between two decisions, some megabytes: a group of a hundred
// thousand members goes in one decision, which takes ten times as much.
const CatalogChangesKept = 8192

// CatalogTextKept is the same for the bytes of their keys: 8,192 keys of 128 bytes. Keys may be long.
const CatalogTextKept = 1 << 20

// CatalogEndsSlice is the same for ends of quarantines, of which most are only glanced at.
const CatalogEndsSlice = 8192

// EvictTries is how many of the oldest objects a put in need takes away on trial, oldest first, before it looks at the
// whole of a segment for the best place: some 10 ms.
const EvictTries = 2048

// EvictRaces is how often a put looks for room again because one of its victims was read in the meantime. Each round
// needs a reader that hits a window of microseconds.
const EvictRaces = 8

// AgeBucketMs is the step in which the eviction distinguishes ages. Finer steps would cost lists, coarser ones order.
const AgeBucketMs = 128

// AgeEpochMs is the time, in milliseconds since 1970, from which the steps of later times are counted: 32 bits of them last
// for 17 years, from April 2022 to 2039.
const AgeEpochMs = 3 * AgeBucketMs << 32

// SweepGapMs is the longest pause between two sweeps that is taken as ordinary. A longer one means that the master itself
// stood still and heard no ping, so every client is given that time back.
const SweepGapMs = 2000

// CatalogLostObjectsMax bounds the copies kept of lost clients, in case they return: some 700 MB of records. Beyond it the
// client lost longest ago is forgotten. CatalogLostSegmentsMax does the same for their segments.
const (
	CatalogLostObjectsMax  = 4 << 20
	CatalogLostSegmentsMax = 4096
)

// AsideMs is for how long the background eviction passes by an object of which no copy is in sight, so that hundreds of
// thousands of them are not looked at in every round.
const AsideMs = 2000

// RefusalSample is how many replicas are looked at to tell why a put found no room.
const RefusalSample = 1024

// wire/rpc

const (
	// RPCFrameBytes is the largest request, body and attachment together. The largest real ones are batches: a put of
	// 100,000 keys of 100 bytes with its configuration is some 15 MB. The protocol itself would allow 4 GiB, and a real
	// master waits for them.
	RPCFrameBytes = 64 << 20
	// RPCLargeBytes is what all connections of one port together may hold of large frames that are not complete yet.
	// Sixteen of the largest at once; a peer that would need more is disconnected and may come again. Without it ten
	// thousand peers with half a frame each would take the machine's memory.
	RPCLargeBytes = 1 << 30
	// RPCReplyFrameBytes is the largest reply our client takes: a list of ten million keys of 100 bytes.
	RPCReplyFrameBytes = 1 << 30
	// RPCConns is how many connections a master serves at once. A wheel's pool has up to 100 per process; an idle
	// connection costs some 20 KiB and one descriptor.
	RPCConns = 32768
	// RPCBufferBytes is the read buffer of a connection at rest: 16 calls in flight of 200 bytes fit twice.
	RPCBufferBytes = 8 << 10
	// RPCKeepBytes is the largest buffer a connection keeps between requests, and how far an announced length is
	// believed before its bytes arrive. Thousands of connections may be idle at this size.
	RPCKeepBytes = 64 << 10
	// RPCFlushBytes of replies are written although more requests of the same wake wait: a wake of tiny requests with
	// large replies must not gather them all in memory.
	RPCFlushBytes = 1 << 20
	// RPCWriteBytes is how much of a reply has to be taken within one stall timeout.
	RPCWriteBytes = 1 << 20
	// RPCPendingBytes may wait for a peer that is slow to read its parked replies. A parked reply to a batch of 3,000
	// keys is about 1 MB, and few are parked on one connection.
	RPCPendingBytes = 16 << 20
	// RPCHalfFrameMs is how long the rest of a frame may take. Wheels send a frame in one go and give a call up
	// after 30 s.
	RPCHalfFrameMs = 30_000
	// RPCStallMs is how long a peer may take nothing of a reply before its connection is given up: twice the time
	// after which a wheel has given up the call itself.
	RPCStallMs = 60_000
	// RPCShutdownMs is how long a stopping server lets requests in progress finish. Handlers take microseconds, long
	// scans a second.
	RPCShutdownMs = 2_000
	// RPCAcceptPauseMinMs and RPCAcceptPauseMaxMs bound the pause after an accept that failed for lack of descriptors.
	RPCAcceptPauseMinMs = 5
	RPCAcceptPauseMaxMs = 1_000
	// RPCClientCalls is how many calls of one client may be unanswered; a further one waits. A wheel allows 160 per
	// connection.
	RPCClientCalls = 1024
	// RPCClientRestMs is after which time without a call a client begins to read, so that it lets go of a connection whose other end has
	// left. Before the next call the client in Go looks anyway, on Linux.
	RPCClientRestMs = 1000
	// RPCDialMs is how long a client tries to connect, as a wheel does.
	RPCDialMs = 30_000
)

// wire/pack

// WireItems is how many container elements one message may hold. The largest real messages are batches of some 100,000
// keys; an empty string takes one byte on the wire and 16 in memory, so without a bound a frame of 64 MiB could ask for
// 1 GiB.
const WireItems = 4 << 20

// internal/gflag
const (
	// FlagfileDepth bounds flag files that name flag files, so that a circle ends with a line instead of the stack.
	FlagfileDepth = 16
	// FlagfileBytes bounds one flag file; all flags of a daemon with long values are a few kilobytes.
	FlagfileBytes = 1 << 20
)

// descriptor: metadata servers and look-up

// MetadataConnectMs and MetadataCallMs bound the connection to an http metadata server and a whole call, as the
// original's clients do.
const (
	MetadataConnectMs = 1500
	MetadataCallMs    = 3000
)

// MetadataIdleConns and MetadataIdleMs bound the kept connections to an http metadata server: keys are written at start
// and end and seldom between, so one connection for a minute does.
const (
	MetadataIdleConns = 2
	MetadataIdleMs    = 60000
)

// MetadataValueBytes is the largest value taken from a metadata server: the largest descriptor that a handshake could
// carry.
const MetadataValueBytes = HandshakeFrameBytesMax

// MetadataQuoteBytes is how much of a metadata server's complaint an error repeats.
const MetadataQuoteBytes = 120

// DescriptorCacheEntries is how many endpoints a process remembers. A cluster has at most a few thousand segments; an
// entry takes some hundred bytes.
const DescriptorCacheEntries = 4096

// tcp

// DataScratchBytes is how much of a body may arrive together with its request header: the body of a small put then needs
// no read of its own. It is copied once; larger ones are read in place.
const DataScratchBytes = 8 << 10

// DataPieceBytes bounds one read or write of a body, so that progress is seen and a system call ends within a few
// milliseconds.
const DataPieceBytes = 4 << 20

// DataRcvLowatBytes is the default of data_rcvlowat: a 16 MiB body then takes about 25 wake-ups instead of 200, and the
// kernel holds at most about this much for each connection. With 1 MiB four wheels that put 16 MiB took a tenth more
// processor time; with 4 MiB the pieces of the client in Go, which are no larger, were received whole before any of
// it was copied, a tenth slower. DataRcvLowatBytesMax bounds the flag. DataRcvLowatFromBytes is the body size from which
// the mark is used: below, it costs more than it saves.
const (
	DataRcvLowatBytes     = 2 << 20
	DataRcvLowatBytesMax  = 64 << 20
	DataRcvLowatFromBytes = 256 << 10
)

// DataSndbufBytes is the default of data_sndbuf: large reads need fewer wake-ups with it. DataSndbufBytesMax bounds the
// flag; it is kernel memory for each connection whose reader lags.
const (
	DataSndbufBytes    = 4 << 20
	DataSndbufBytesMax = 256 << 20
)

// DataSndbufLocalBytes is the default of data_sndbuf_local. Between processes of one machine nothing is gained by much that
// is under way, and it falls out of the processor's caches: with 128 KiB (of which the kernel makes 256) large reads take
// half the time that they take with 4 MiB. 64 KiB and 256 KiB measured slower.
const DataSndbufLocalBytes = 128 << 10

// DataWholeApart is how many bodies have to be written one after another before one goes into the send buffer whole: with four
// writers, of which now and then one is alone, it took 1.05 times as long.
const DataWholeApart = 32

// DataConns is how many data connections a daemon serves: a few hundred clients with up to 16 lanes each, and storms of
// clients that connect for each request, at 8 KiB of buffer and one descriptor apiece.
const DataConns = 16384

// DataProgressMs is how long a body may stand still before its connection is dropped. Real clients give up after 30 s;
// twice that, nobody can still be waiting.
const DataProgressMs = 60000

// DataGlanceMs is how long a reader looks for bytes below the low-water mark before it calls a peer stuck.
const DataGlanceMs = 50

// DataGraceMs is how long requests in progress may go on when a server ends.
const DataGraceMs = 5000

// DataRefusalLingerMs and DataRefusalDrainBytes bound the look at what a refused peer still sends: closing with unread
// bytes would reset the connection and could take the answer along.
const (
	DataRefusalLingerMs   = 200
	DataRefusalDrainBytes = 64 << 10
)

// metrics

// MetricsOtherCalls bounds the names of calls that are counted without series of their own; the protocol has 81 calls.
const MetricsOtherCalls = 128

// tcp: initiator

// DialerLanes is how many connections an initiator keeps to one holder: four, as the original's clients.
const DialerLanes = 4

// DialerPeers is how many holders an initiator keeps connections to at once.
const DialerPeers = 1024

// DialerConnectMs and DialerProgressMs bound a connection attempt and a request that stands still: the original's values
// for handshakes and for the status of a request.
const (
	DialerConnectMs  = 5000
	DialerProgressMs = 30000
)

// DialerIdleMs is how long an unused connection is kept: longer than the pauses inside a job, shorter than the time
// after which firewalls forget a connection.
const DialerIdleMs = 60000

// DialerLastWordMs is how long an initiator whose sending failed looks for the reason. It has arrived before the failure
// or it will not come.
const DialerLastWordMs = 100

// catalog: workloads.
const (
	// WorkloadTTLMs bounds the life that a rule may give its objects: a hundred years, so that sums of times stay in range.
	WorkloadTTLMs = 100 * 365 * 24 * 3_600_000
	// TenantsMax bounds the names of tenants that objects are remembered under; a number has 16 bits. What is written for
	// one more counts as written for none.
	TenantsMax = 1<<16 - 1
	// TenantPolicies bounds the tenants with a quota: each has series of its own, and all are looked at in every sweep.
	TenantPolicies = 10_000
	// TenantPolicyBytes bounds the document of quotas: some fifty bytes a tenant.
	TenantPolicyBytes = 2 << 20
	// TenantPolicyMs bounds one reading or writing of the quotas in etcd; its own client tries every member within it.
	TenantPolicyMs = 5000
	// DiskReapMs is how often unfinished files and tasks of clients are looked through for those whose time is over.
	DiskReapMs = 1000
	// DiskRoundMs is how often more is handed over to clients' disks while there is no room.
	DiskRoundMs = 1000
	// DiskClients bounds the clients with disks: each has a queue.
	DiskClients = 100_000
	// DiskTaskBytes bounds the keys that one reply hands to a client.
	DiskTaskBytes = 8 << 20
	// DiskQueueMax bounds what an operator may let wait for one client, as in the published masters.
	DiskQueueMax = 100_000_000
	// EventsQueueMax bounds the events that wait to be sent, EventsPerMessage those of one message, as in 0.3.14.
	EventsQueueMax   = 65536
	EventsPerMessage = 64
	// EventsSubscribers bounds the connections for events: indexers and routers, a few of each.
	EventsSubscribers = 256
	// EventsSubscriberQueue and EventsSubscriberBytes bound what waits for one subscriber: the usual high-water mark, and a
	// few seconds of a busy master.
	EventsSubscriberQueue = 10_000
	EventsSubscriberBytes = 64 << 20
	// EventsFrameBytes bounds what a subscriber sends at a time: greetings, and topics of a few bytes.
	EventsFrameBytes = 64 << 10
	// EventsGreetingMs, EventsWriteMs and EventsAcceptPauseMs bound how long a subscriber may take over the greeting and over
	// reading a message, and how long no connection is taken when the system has none left.
	EventsGreetingMs    = 10_000
	EventsWriteMs       = 10_000
	EventsAcceptPauseMs = 100
	// EventsFlushMs is how long an event may wait for others to share its message.
	EventsFlushMs = 10
	// FileNameBytes bounds the part of a shared file's name that shows the key: names have 255 bytes on every file system.
	FileNameBytes = 200
	// PromotionHits bounds the objects on disk of which reads are counted.
	PromotionHits = 1 << 16
	// TenantWalk bounds the objects that one search for victims of a tenant passes by: a few milliseconds.
	TenantWalk = 1 << 16
	// SharesMax bounds the workloads that objects can be accounted to, those of former rules included: a number has 8 bits.
	SharesMax = 255
	// VictimsMax bounds what one put evicts for the limits of its workload: a put of 16 GiB among objects of 16 KiB.
	VictimsMax = 1 << 20
	// DeadlineSpare is how many outdated deadlines of a workload are kept, beside one per object, before they are cleared.
	DeadlineSpare = 1024
)

// catalog: bundles.
const (
	// BundleTombstoneMs is for how long it is remembered what became of a bundle: long enough for somebody who repeats a
	// reclaim or looks after an alarm.
	BundleTombstoneMs = 10 * 60_000
	// BundleTombstones bounds those memories, of some 300 bytes each. A large job reclaims a few hundred bundles a minute.
	BundleTombstones = 16384
	// BundleTextBytes is how much of a bundle's name is told of in news, and the longest under which a bundle is remembered
	// when it is gone: names are a job's prefix and a uuid, but a key may have a megabyte.
	BundleTextBytes = 1024
	// BundleNews is how many bundles of a kind are told of after one sweep, for log lines and histograms: a large job
	// finishes a hundred in a second, and there are ten sweeps in one.
	BundleNews = 1024
	// EvictTied bounds the members looked at of bundles that carry several groups, for one choice of a victim: what is tied
	// to more is not evicted.
	EvictTied = 4096
	// BundleRetireMs is how often the rules of retention look at all bundles; their ages are minutes and more.
	BundleRetireMs = 1000
)

// rdma: what is read of the host before anything is published.
const (
	// RDMASysfsFileBytes is the largest file of sysfs that is read: the kernel gives an attribute one page. Longer content
	// is no attribute and makes what it describes unusable.
	RDMASysfsFileBytes = 4096
	// RDMAProcFileBytes is the largest file of procfs and cgroupfs that is read. The longest are the cgroups of a process,
	// a dozen lines, and meminfo with 60.
	RDMAProcFileBytes = 64 << 10
	// RDMADevices bounds the devices of a host: eight adapters with all their 127 virtual functions.
	RDMADevices = 1024
	// RDMAPorts bounds the ports of a device. Adapters have one or two; only switches have more.
	RDMAPorts = 64
	// RDMAGIDs bounds the GID table of a port: soft RoCE has 1,024 entries, hardware some 256.
	RDMAGIDs = 4096
	// RDMAGIDIndexMax is the last place of a GID table that a queue pair can be given: verbs carry the index in a byte.
	RDMAGIDIndexMax = 255
	// RDMATrafficClassMax is the largest traffic class, a byte of the IP header.
	RDMATrafficClassMax = 255
	// RDMAServiceLevelMax is the largest service level, four bits of InfiniBand's header.
	RDMAServiceLevelMax = 15
	// RDMAGIDGap is how many empty entries end the search for filled ones. The kernel fills the first free entry, so more
	// than these in front of a filled one means that as many addresses came and went; reading soft RoCE's whole table of
	// one page per entry takes seconds on an emulated machine.
	RDMAGIDGap = 128
	// RDMAPKeys bounds the partition table of a port: 128 entries are common.
	RDMAPKeys = 1024
	// RDMANodes bounds the NUMA nodes; it is the kernel's own bound.
	RDMANodes = 1024
	// RDMANamesPinned bounds the devices that can be named: each costs a registration of the whole segment and 1,000
	// bytes of descriptor, and hosts with more than 32 rails do not exist.
	RDMANamesPinned = 32
	// RDMAReasonsNamed is how many refused ports an error names; the table has them all.
	RDMAReasonsNamed = 8
	// RDMAPagesAsked is how many pages of a segment are asked for their NUMA node and for being there: an even sample that
	// is off by some 3 % at most, in well under a millisecond, whatever the size.
	RDMAPagesAsked = 1024
	// RDMACgroupLevels bounds the cgroups above a process that are asked for their limit.
	RDMACgroupLevels = 64
)

// rdma
const (
	// RDMAMTUBytes is the largest path MTU that exists. Both ends of a connection take it, or what their port has.
	RDMAMTUBytes = 4096
	// RDMARails bounds the devices of one process: the largest hosts have ten.
	RDMARails = 16
	// RDMAQPsPerPeer bounds the queue pairs of one peer process. It opens two (MC_NUM_QP_PER_EP) for each of its devices
	// towards each of ours: 8 * 8 * 2 on the largest hosts, and twice that for those who raised it.
	RDMAQPsPerPeer = 256
	// RDMAQPs bounds the queue pairs of all peers: a thousand processes with eight each, and well below what devices have.
	RDMAQPs = 16384
	// RDMAGIDSearch is how many places of a port's GID table are searched for an address that has moved. The kernel takes the
	// first free one.
	RDMAGIDSearch = 256
	// RDMARetries is how often a packet is sent again; software RoCE takes the next number, 7, to mean for ever.
	RDMARetries = 6
	// RDMATimeout waits 4.096 us * 2^17 = 0.5 s for an answer before a packet is sent again. Work of ours is probes and
	// copies in the background: better to be late by some seconds than to take a stalled host for a dead one.
	RDMATimeout = 17
	// RDMATimeoutMax is the largest exponent; it is a field of five bits.
	RDMATimeoutMax = 31
	// RDMAReadsAtOnce is how many READs a queue pair has under way; published clients ask for as many.
	RDMAReadsAtOnce = 16
	// RDMACompletions is the length of a device's completion queue. Requests that may be posted at once stay below it:
	// RDMAProbesAtOnce and RDMACopiesPerDevice, and there is room for those of queue pairs that were destroyed.
	RDMACompletions = 4096
	// RDMAProbeMs is how often a peer is asked whether it is there: a vanished one holds its queue pairs that much longer.
	RDMAProbeMs = 5_000
	// RDMAProbesAtOnce bounds the probes under way on all devices.
	RDMAProbesAtOnce = 1024
	// RDMAPartBytes is how much memory is registered at a time: little enough for progress to be seen and for several to
	// be pinned at once, and few enough parts for a descriptor.
	RDMAPartBytes = 16 << 30
	// RDMAPartBytesMin is the smallest part, and what parts are multiples of: a huge page.
	RDMAPartBytesMin = 2 << 20
	// RDMAPartOverlapBytes is how far a part reaches into the next. Peers look for one part that holds a whole request of
	// theirs, 64 KiB unless MC_SLICE_SIZE says more; with the overlap there is one wherever it begins.
	RDMAPartOverlapBytes = 2 << 20
	// RDMARoutes bounds the connections that copies hold open. A copy goes from one process to one other; the master has few
	// under way at a time.
	RDMARoutes = 1024
	// RDMARouteIdleMs is how long a connection that no copy uses stays open: a peer holds queue pairs for it.
	RDMARouteIdleMs = 60_000
	// RDMARoutePauseMs is how long a path that failed is not tried again; published clients wait as long.
	RDMARoutePauseMs = 30_000
	// RDMALanes is the queue pairs of a connection that we open: the default of published clients (MC_NUM_QP_PER_EP), who
	// refuse any other number than their own.
	RDMALanes = 2
	// RDMAWorkPerLane is the length of a queue pair's send queue.
	RDMAWorkPerLane = 64
	// RDMACopiesAtOnce bounds the requests of one copy that are under way: 32 of 64 KiB already fill a 100 Gb/s link over a
	// round trip of 0.1 ms.
	RDMACopiesAtOnce = 32
	// RDMACopiesPerDevice bounds the requests that all copies have under way on one device.
	RDMACopiesPerDevice = 2048
	// RDMASliceBytesMin and RDMASliceBytesMax bound one request of a copy: below, the overhead shows; above, a repetition
	// costs too much, and a bounce buffer too.
	RDMASliceBytesMin = 64 << 10
	RDMASliceBytesMax = 1 << 20
	// RDMABounceSlots is how many requests may be under way, in all copies, whose memory is not registered.
	RDMABounceSlots = 32
	// RDMACopyTries is how many paths may fail one copy before another transport is better.
	RDMACopyTries = 4
	// RDMARegisterWorkers is how many parts are pinned at once. Pinning is work of the kernel on one core each.
	RDMARegisterWorkers = 8
)

// The log of a master's decisions.
const (
	// LogRecentIDs is how many ids of clients and segments a record refers to by one byte. One comparison each while a
	// Change is encoded; few writers are at work within one record.
	LogRecentIDs = 16
	// LogRecordBytes is the longest payload that is read back: far above what waits at most (LogPendingBytes), and a
	// bound for what a damaged length can ask for.
	LogRecordBytes = 256 << 20
	// LogPendingBytes is how much may wait to be written before writers have to wait: seconds of a slow disk.
	LogPendingBytes = 16 << 20
	// LogRoomMs is how long a call waits for that room before its connection is closed.
	LogRoomMs = 10_000
	// LogKeepBytes is the largest buffer that is kept for the next record.
	LogKeepBytes = 4 << 20
	// LogFileBytes is the size of a journal file. It is reserved as a whole, so that a write changes no length.
	LogFileBytes = 64 << 20
	// LogSnapshotBytes is how much is written between two snapshots at least: about 600,000 puts, read back in a second.
	LogSnapshotBytes = 64 << 20
	// LogSnapshotBufferBytes is the size of the writes of a snapshot.
	LogSnapshotBufferBytes = 1 << 20
	// LogEchoBytes is how far back a record repeats the ranges that were given to writers: the block in which disks and
	// file systems lose data. What a block held can then be missing without doubt about the bytes of others.
	LogEchoBytes = 4096
	// LogEchoRecords bounds the records among them: the smallest take 64 bytes.
	LogEchoRecords = LogEchoBytes / 64
)

// What masters that share a log in etcd need besides.

// EtcdTryMs bounds a call at one member of a cluster before the next is tried: a frozen member must not hold up a log by
// more. A transaction takes a few milliseconds.
const EtcdTryMs = 1000

// EtcdHedgeMs is how long a call waits for one member before another is asked beside it. Where etcd has no leader, or one
// that is stopped, a member keeps a call for seconds that the next would answer; and a call that was made twice does no harm.
const EtcdHedgeMs = 300

// EtcdAsideMs is how long a member that did not answer is asked only when no other is left.
const EtcdAsideMs = 5000

// A watch asks its member for a sign of life every EtcdWatchProbeMs, waiting EtcdWatchAskMs to get the question out, and
// leaves a member that is silent for EtcdWatchSilentMs: two questions unanswered. Where there is no other member it tries
// again after EtcdWatchPauseMs.
const (
	EtcdWatchProbeMs  = 500
	EtcdWatchAskMs    = 20
	EtcdWatchSilentMs = 1500
	EtcdWatchPauseMs  = 100
)

// The log in etcd, and who leads.
const (
	// LogBatchBytes and LogBatchChanges are the size at which a record for etcd takes no further decision: beyond it a
	// transaction takes longer without carrying more per second. What a transaction costs the members of etcd is for the most
	// part the same whatever it carries.
	LogBatchBytes   = 256 << 10
	LogBatchChanges = 4000
	// LogBatchSplitBytes is the size at which such a record ends even amid a decision. With the longest key after it the
	// record stays below the 1.5 MiB that etcd takes.
	LogBatchSplitBytes = 512 << 10
	// LogChangeBytes is more than a change takes at rest, besides its texts, and more than one of its replicas does.
	LogChangeBytes = 128
	// LogZipBytes is the size from which values in etcd are compressed: below it the gain is less than the work. LogValueBytes
	// bounds what one becomes when it is read: more than the largest that is written. LogZipRatio bounds the same for a
	// snapshot, as a multiple of its packed size: names and checksums do not shrink that much.
	LogZipBytes   = 1 << 10
	LogValueBytes = 4 << 20
	LogZipRatio   = 256
	// LogSizeMs is how often etcd is asked how full it is. EtcdQuotaBytes is its own default, for one that does not say. From
	// half of the quota on a snapshot is made after LogTrimBytes, so that the log can be deleted.
	LogSizeMs      = 5000
	EtcdQuotaBytes = 2 << 30
	LogTrimBytes   = 1 << 20
	// LogLazyMs is how long a decision that nobody waits for may lie before it is written: the start of a put travels with
	// its end then, which saves a record of two.
	LogLazyMs = 5
	// LogLingerUs is how long a record for etcd waits for a decision more, as long as there are fewer than may come.
	LogLingerUs = 1000
	// LogRetryMs is the pause before something that etcd refused is tried again.
	LogRetryMs = 100
	// LogComplainMs is the shortest time between two lines about the same failure of what is tried again.
	LogComplainMs = 10_000
	// LogFlushMs is how long the last records of a leader who leaves may take.
	LogFlushMs = 3000
	// LogLoadTries bounds how often a log that moves while it is read is read anew.
	LogLoadTries = 8
	// LogPageKeys is how many keys are read from etcd at once: 32 MiB of the largest that are usual.
	LogPageKeys = 64
	// LogTidyRecords is after how many records the log is tidied up, LogTidyMs after what time at the latest.
	LogTidyRecords = 64
	LogTidyMs      = 5000
	// LogRollAbove is how many records may lie in keys of their own before the oldest LogRollKeys are joined: etcd takes
	// 128 steps in a transaction. LogRollsAbove does the same for joined ones. LogRollBytes is the largest value made.
	LogRollAbove  = 192
	LogRollKeys   = 100
	LogRollsAbove = 32
	LogRollBytes  = 512 << 10
	// LogEtcdSnapshotBytes is how much is written to etcd between two snapshots at least: the database keeps that much
	// several times, and is to stay below 64 MiB.
	LogEtcdSnapshotBytes = 8 << 20
	// LogPartBytes and LogParts bound a snapshot in etcd. Larger values hold up the records beside them.
	LogPartBytes = 256 << 10
	LogParts     = 128
	// LogCompactMs is the shortest time between two compactions. Readers of the log have as long to read on.
	LogCompactMs = 1000
	// LogReloadMs is the pause before a log that could not be read is read anew.
	LogReloadMs = 1000
	// LogCheckMs is how often a standby asks etcd for the newest record. One that got no answer for LogFreshMs, or is more
	// than LogLagRecords behind, does not call itself ready: that many are applied in a tenth of a second if they are small, and in two
	// if they are as large as records get.
	LogCheckMs    = 1000
	LogFreshMs    = 2500
	LogLagRecords = 1000
	// A standby takes the leader's process for gone when its connection breaks and VigilRefusals of at most VigilTries
	// connections, VigilPauseMs apart, are refused one after another. VigilDialMs bounds each; where there is no connection
	// the next is tried after VigilRetryMs.
	VigilRefusals = 2
	VigilTries    = 10
	VigilPauseMs  = 10
	VigilDialMs   = 1000
	VigilRetryMs  = 250
	// LeaderRenewals is how often the lease is renewed in its time, and LeaderMarginMs how long before its end the last
	// answer is given: more than clocks differ in rate in that time.
	LeaderRenewals = 3
	LeaderMarginMs = 500
)

// Masters that share a log.
const (
	// MemberTTLMs is how long a master counts as alive after it was heard last; MemberTellMs how often it says how far it
	// is, if that changed, and MemberRenewEvery after how many of these its lease is renewed. MemberBytes bounds what it says.
	MemberTTLMs      = 10_000
	MemberTellMs     = 1_000
	MemberRenewEvery = 3
	MemberBytes      = 4096
	// MemberLagMs is how long records are kept for a master that is behind: a reload costs it less.
	MemberLagMs = 60_000
	// SnapshotLookMs is how often a master with a directory for snapshots looks whether it has the one that counts.
	SnapshotLookMs = 5_000
	// SnapshotBytesMax bounds a snapshot that another master sends: some 10^8 objects, which no master has room for.
	SnapshotBytesMax = 8 << 30
	// PeerMessageBytes bounds a message between masters, PeerStreams the calls of one connection, PeerFetches the snapshots
	// that are sent at once. PeerDialMs bounds the making of a connection, PeerIdleMs the silence of one in use, and
	// PeerSnapshotMs the making or sending of a snapshot: a minute for 10^7 objects, and room.
	PeerMessageBytes = 512 << 10
	PeerStreams      = 16
	PeerFetches      = 2
	PeerDialMs       = 5_000
	PeerIdleMs       = 10_000
	PeerSnapshotMs   = 600_000
	// GateConns is how many connections wait for a leader, or are passed on to him, at once: as many as a master serves.
	GateConns = RPCConns
	// GateHoldMs is how long a connection waits for a leader before it is closed: longer than a failover takes.
	GateHoldMs = 6_000
	// GateDialMs is how long the leader may take to accept, and GateRetryMs the pause before he is tried again.
	GateDialMs  = 1_000
	GateRetryMs = 50
	// GateGraceMs is how long connections that are passed on to a former leader stay open: he may answer what he had begun.
	GateGraceMs = 2_000
	// HandOverMs is how long a master that leaves passes connections on: until every client has seen the new leader's key.
	HandOverMs = 2_000
	// SuccessorMs is how long a master that leaves waits for another to lead.
	SuccessorMs = 3_000
	// ResumeGraceMs is the least time that owners of segments have after another master took over: published clients are
	// silent for up to 7.3 s then, because they try the former leader's address first.
	ResumeGraceMs = 8_000
	// LeaderTTLMinSec and LeaderTTLMaxSec bound the time of the leader's lease: etcd grants no less than 1.5 times its
	// election timeout, and nobody wants to wait longer.
	LeaderTTLMinSec = 2
	LeaderTTLMaxSec = 60
)

// master: which layout a client reads.
const (
	// FamilyHoldMs is how long an ambiguous reply waits for the proof of its reader's release. The probe is answered
	// 1.5 s after the mount at the latest in all that was measured; a client gives a call up after 30 s.
	FamilyHoldMs = 5000
	// FamilyHangUpMs is how soon after a reply a hang-up counts as "could not read it": a client that cannot decode
	// closes at once, an orderly close takes a call more.
	FamilyHangUpMs = 200
	// FamilyAddresses bounds the addresses whose last proved family is remembered; beyond it any one is forgotten and
	// the configured default holds for it.
	FamilyAddresses = 65536
	// ParkedReplies bounds the replies that wait for a proof, over all connections. The wheels have one call a
	// connection in flight, so this is a thousand connections of clients that mounted in the last seconds.
	ParkedReplies = 1024
	// ClientsPerConnection bounds the client ids remembered of one connection: a 0.3.14 process shares connections
	// among all its stores, of which a handful is usual. The oldest is forgotten.
	ClientsPerConnection = 256
	// PatternBytes bounds a key pattern; patterns are typed by people or built from one key.
	PatternBytes = 64 << 10
	// PatternMatchMs bounds the time one key may take against a pattern that backtracks without end, PatternSearchMs that
	// of all keys together: a client gives a call up after 30 s.
	PatternMatchMs  = 1000
	PatternSearchMs = 20_000
	// ListenResolveMs bounds the look-up of the host to listen on: a launcher waits for the line that says what is wrong.
	ListenResolveMs = 1500
	// LogTextBytes is how much of a text of a client's choice a log line repeats.
	LogTextBytes = 200
	// MountTextBytes bounds name, endpoint, protocol and host of a segment that is mounted: host names with a port, which
	// every replica descriptor repeats.
	MountTextBytes = 4096
)

// master: its HTTP ports and its tick.
const (
	// HTTPHeaderMs and HTTPIdleMs end HTTP connections that send no whole header, or nothing more.
	HTTPHeaderMs = 10_000
	HTTPIdleMs   = 120_000
	// HTTPReadMs is how long a whole request may take, its body too: one that is announced and never sent would hold its
	// connection for ever, and HTTPConnections of them the port. The largest value takes a second on a slow line.
	HTTPReadMs = 30_000
	// HTTPHeaderBytes holds the longest key that is asked for in a query, percent-encoded.
	HTTPHeaderBytes = 1 << 20
	// HTTPShutdownMs is how long requests under way may take when the daemon stops.
	HTTPShutdownMs = 1000
	// HTTPConnections bounds the connections of one HTTP port: scrapers, probes and the metadata traffic of clients,
	// which keep one connection a thread.
	HTTPConnections = 4096
	// SweepMs is the tick on which silence is noticed and held replies end: far below the shortest time an operator
	// can set (1 s), far above what wakes an idle machine.
	SweepMs = 100
)

// master: the metadata server and the admin pages.
const (
	// HTTPWriteMs is how long a reader of an answer may take between two pieces of it.
	HTTPWriteMs = 30_000
	// MetadataServerEntries bounds the metadata entries: two per segment, so 50,000 segments.
	MetadataServerEntries = 100_000
	// MetadataServerKeyBytes bounds one key; keys are a prefix and a host name with port.
	MetadataServerKeyBytes = 4096
	// MetadataServerValueBytes bounds one value. A descriptor takes 70 bytes per registered buffer and some 1,000 per
	// device, so this is a client with over ten thousand buffers.
	MetadataServerValueBytes = 1 << 20
	// MetadataServerBytes bounds all keys and values together, so that no client can fill the master's memory.
	MetadataServerBytes = 256 << 20
	// AdminKeysBuffer is how many bytes of a key listing are gathered before they are sent.
	AdminKeysBuffer = 64 << 10
	// AdminBodyBytes bounds the body of a request with a few fields.
	AdminBodyBytes = 64 << 10
	// AdminBatchKeys bounds the keys of one batch look-up by HTTP.
	AdminBatchKeys = 10_000
	// SummaryWindowMs is the least time over which the rates of the summary are taken.
	SummaryWindowMs = 10_000
)

// master: who is gone, and who does not answer.
const (
	// WriterHangUpMs is how soon after a client's last call the end of its last connection means that its process ended:
	// the pool of a published client drops idle connections by itself, after about a minute.
	WriterHangUpMs = 20_000
	// WriterReturnMs is how long such a client may take to come back on another connection.
	WriterReturnMs = 5_000
	// WritersWaiting bounds the clients in that wait; of one more nothing is known. A cluster has fewer clients.
	WritersWaiting = 1 << 16
	// SuspectMissedPingsMs is the silence after which a client is suspect early: three of the pings that published clients
	// send every second. WriterQuarantineMs is how long the bytes of a writer that is known to be gone are left alone: what
	// it had on the wire has arrived or broken off by then.
	SuspectMissedPingsMs = 3_000
	WriterQuarantineMs   = 5_000
	// ProbeMs bounds the question whether a segment's process is there, from the sign that made it necessary.
	ProbeMs = 1_000
	// ProbeGreetMs bounds the first question, at a mount: a client may be busy with its start.
	ProbeGreetMs = 5_000
	// ProbeStalls is how often a question is put again because this process itself stood still over it.
	ProbeStalls = 2
	// ProbesAtOnce bounds the questions under way: a rack that lost its power answers none of them for ProbeMs.
	ProbesAtOnce = 32
	// ProbesWaiting bounds the questions to be asked. A sign beyond it is dropped; missed pings tell the same 2 s later.
	ProbesWaiting = 4096
	// ProbeAgainMs is the shortest time between two questions after the same client: whatever others report of it, its
	// handshake port hears of it once a second.
	ProbeAgainMs = 1_000
	// RevokeBurst is how many writes to one client's segments must be given up within RevokeWindowMs to be a sign.
	RevokeBurst = 3
	// RefusalLogMs is the shortest time between two lines about refused puts.
	RefusalLogMs = 10_000
	// RevokesLookedAt is how many writes given up in one batch are looked at: what failed together lies on the same segments.
	RevokesLookedAt = 32
	// RevokeWindowMs is the time in which a burst must happen: a write to a host that is gone fails after about a second.
	RevokeWindowMs = 5_000
)

// master: rules of workloads.
const (
	// Workloads bounds the rules: every put is matched against all of their prefixes, and each has series of its own.
	Workloads = 64
	// WorkloadNames bounds the prefixes of one rule, and its tenants.
	WorkloadNames = 64
	// WorkloadTextBytes bounds one prefix or tenant: more than half of the longest key is no prefix of many.
	WorkloadTextBytes = 512
	// WorkloadNameBytes bounds the name of a rule, which is a label of its series.
	WorkloadNameBytes = 64
	// WorkloadPriority bounds priorities, either way: any order of all rules can be written with room between them.
	WorkloadPriority = 1000
	// WorkloadRulesBytes bounds a document of rules: a few hundred bytes a rule are usual. Taken apart, a hostile one needs
	// about a hundred times its length.
	WorkloadRulesBytes = 1 << 20
)

// master: bundles.
const (
	// AdminBundles is how many bundles a page lists when the query does not say, AdminBundlesMax the most it may ask for: a
	// page of them takes some 6 MB.
	AdminBundles    = 1_000
	AdminBundlesMax = 10_000
	// ReadingsPerConnection is how many bundles are remembered to have been read over a connection: a trainer reads one
	// after another, a data loader perhaps two at a time.
	ReadingsPerConnection = 4
	// BundleLogLines is how many lines about single bundles are written within BundleLogMs; a full pool that nobody reads
	// loses thousands.
	BundleLogLines = 20
	BundleLogMs    = 10_000
	// RetentionRules bounds the rules of retention, which are looked at for every prefix.
	RetentionRules = 64
)

// segment

// SegmentPortLow and SegmentPortHigh bound the ports a daemon chooses from: above the wheels' own ports (up to 17000),
// below Linux's usual range for outgoing connections (from 32768).
const (
	SegmentPortLow  = 17001
	SegmentPortHigh = 32767
)

// SegmentPortTries bounds the search for a free port; with a thousand daemons on a host the chance that so many random
// picks are all taken is nil.
const SegmentPortTries = 256

// SegmentPortsFree is how many of the candidates the kernel's own range must leave, else that range is no rule but only
// a warning: some images set it to 1024-65535.
const SegmentPortsFree = 1000

// SegmentsPerHost bounds the numbers tried for daemons without a name or port of their own.
const SegmentsPerHost = 1024

// SegmentLockTries bounds the race between a starting and a leaving daemon of one arena: each try is lost to another
// daemon that removed its file in just that moment.
const SegmentLockTries = 64

// SegmentFileNameBytes leaves room in a file name (255 bytes) for prefix, number and suffix.
const SegmentFileNameBytes = 180

// SegmentNameBytes bounds a segment's name: it is part of keys and of every replica descriptor.
const SegmentNameBytes = 255

// SegmentPoolBytes bounds the name of the masters that a segment belongs to: the addresses of etcd and the cluster's name,
// which must fit into the state file with everything else.
const SegmentPoolBytes = 2048

// SegmentStateBytes is the largest state file: what fits the seal page behind the arena, head excluded.
const SegmentStateBytes = 4096 - 16

// SegmentDefaultBytes is offered when no size is given: Miles' own default.
const SegmentDefaultBytes = 8 << 30

// SegmentBytesMax is the largest segment: masters of all releases refuse more than 1 TiB.
const SegmentBytesMax = 1 << 40

// SegmentBaseLow and SegmentBaseHigh bound the announced base: far above any small number that could be a mistake, and
// inside the 47 bits of user addresses, so that an rdma region may carry it as its virtual address.
const (
	SegmentBaseLow  = 1 << 44
	SegmentBaseHigh = 1 << 46
)

// SegmentPrefaultWorkers and SegmentPrefaultBytes: a few threads fill the memory bus, and pieces of 64 MiB keep each
// system call under some 50 ms.
const (
	SegmentPrefaultWorkers = 4
	SegmentPrefaultBytes   = 64 << 20
	// SegmentPopulateNice is the rank of the thread that finds memory in the background: the last.
	SegmentPopulateNice = 19
)

// SegmentResolveMs bounds the look-up of the own name at start.
const SegmentResolveMs = 5000

// SegmentDialMs and SegmentCallMs bound one attempt to reach the master and one call: a ping that takes longer than
// this is lost anyway, and three of them fit into the ten seconds after which a master gives a client up.
const (
	SegmentDialMs = 3000
	SegmentCallMs = 3000
)

// SegmentBackoffMinMs and SegmentBackoffMaxMs bound the pause between attempts to reach a master that is away: quick
// enough to come back within its patience, slow enough that a thousand daemons do not hinder its start.
const (
	SegmentBackoffMinMs = 100
	SegmentBackoffMaxMs = 2000
)

// SegmentLeaveMs bounds each step of leaving (unmount, metadata keys) when nobody answers.
const SegmentLeaveMs = 2000

// SegmentPublishMs bounds one publication of the metadata keys.
const SegmentPublishMs = 5000

// SegmentFetchBatch is how many tasks are asked for at a time, as the published clients do.
const SegmentFetchBatch = 16

// SegmentTaskWorkers copies run at once: enough to keep a link busy, few enough that they do not crowd out readers.
// SegmentTaskWorkersMax bounds the flag.
const (
	SegmentTaskWorkers    = 4
	SegmentTaskWorkersMax = 64
)

// SegmentTaskQueue is how many fetched tasks wait for a worker; no more are fetched than fit.
const SegmentTaskQueue = 64

// SegmentTaskPayloadBytes and SegmentTaskTargets bound a task's text and its targets: far above what a master sends,
// which lists segment names of one object's replicas.
const (
	SegmentTaskPayloadBytes = 1 << 20
	SegmentTaskTargets      = 1024
)

// SegmentReportTries is how often the end of a task is told when the master does not answer.
const SegmentReportTries = 3

// SegmentTaskMs bounds one task from start to end. A master gives a task up after 300 s.
const SegmentTaskMs = 240_000

// SegmentHTTPConns, SegmentHTTPHeaderBytes and SegmentHTTPMs bound the daemon's HTTP port: probes and scrapers, small
// requests, no bodies.
const (
	SegmentHTTPConns       = 256
	SegmentHTTPHeaderBytes = 16 << 10
	SegmentHTTPMs          = 10_000
)

// SegmentRailsDownMs is how long no RDMA device may carry traffic before pings are withheld: links that renegotiate are
// back within it, and a master that gives silent clients up after 10 s keeps the segment through 15 s of a dead link.
const SegmentRailsDownMs = 5000

// SegmentRegisterLines bounds the lines about one registration that is under way.
const SegmentRegisterLines = 10

// SegmentPeerGIDMs bounds the look-up of a peer that sends no address with its queue pairs; the peer itself waits 12 s.
const SegmentPeerGIDMs = 5000

// SegmentLingerMs is how long a leaving daemon with connected RDMA peers keeps its memory registered after the unmount:
// reads of that moment end within it, unless they are of more than some ten GB.
const SegmentLingerMs = 1000

// SegmentPeerSeries bounds the peers with series of their own in /metrics; a thousand clients on eight devices would be
// a page that nobody scrapes. The counts of the others are added up.
const SegmentPeerSeries = 256

// Package catalog, windows in which ranges are given to writers before the log has them.
const (
	// WindowBytes and WindowShare are the size of a window: the larger of so many bytes and that part of the segment, so
	// that a window lasts for many puts. WindowShareMax bounds it: what is free in the two windows of a segment is closed for
	// a while when the leader changes, and a small pool must not lose much of its room by that.
	WindowBytes    = 64 << 20
	WindowShare    = 64
	WindowShareMax = 16
	// WindowWorth is the part of a window that must be free in one piece somewhere on the segment for a window to be opened:
	// where free space is scattered the next put goes elsewhere anyway.
	WindowWorth = 8
	// CatalogPartings is how many removals that are not durable are told apart; a put looks at all of them. Beyond it every
	// put waits.
	CatalogPartings = 256
)

// What copies and moves of objects need.

// CatalogTrivialCopies bounds the copies that have nothing to write: each client has a few tasks at a time.
const CatalogTrivialCopies = 10_000

// DrainLooks is how many objects one look for what can be moved off a segment meets: some milliseconds of work.
const DrainLooks = 20_000

// GraceMsMax bounds the grace time of a segment that leaves: a year.
const GraceMsMax = 365 * 24 * 3600 * 1000

// What tasks, copies on demand and drain jobs need.
const (
	// TasksMax bounds the bounds on tasks: each takes some hundred bytes and the names in its payload.
	TasksMax = 1_000_000
	// HeatShards are the parts of the counts of reads: enough that readers on many cores seldom meet.
	HeatShards = 64
	// HeatKeys bounds the keys that are counted in one window, and those of which it is known what was done last.
	HeatKeys = 1 << 20
	// HeatQueue bounds the keys that became hot and were not looked at yet, HeatBatch those looked at in one go.
	HeatQueue = 1024
	HeatBatch = 64
	// HeatLeaseMs is how long a client may take over a copy on demand. HeatPauseMs passes before the next one of a key, and
	// HeatBlockMs after one that did not stay: the pool is too full for it.
	HeatLeaseMs = 30_000
	HeatPauseMs = 30_000
	HeatBlockMs = 60_000
	// HeatKeptMs is how long a lease that is over is remembered, for the client that gives its copy up late.
	HeatKeptMs = 600_000
	// HeatFullShare is the used share of a segment, with the copy, from which on it gets none.
	HeatFullShare = 0.85

	// DrainEveryMs is how often a drain job is looked at.
	DrainEveryMs = 500
	// DrainConcurrency is how many objects a job moves at a time if it does not say, DrainConcurrencyMax bounds what it says.
	DrainConcurrency    = 4
	DrainConcurrencyMax = 1024
	// DrainTries is how often the move of an object is tried.
	DrainTries = 3
	// DrainSegments bounds the segments of a job and its targets, DrainJobs the jobs that are remembered.
	DrainSegments = 4096
	DrainJobs     = 1000
	// DrainBodyBytes bounds the request for a drain job: names of segments.
	DrainBodyBytes = 1 << 20
)

// What a master keeps of the releases of its clients, and how masters pass connections on.
const (
	// LogNotes bounds the notes in a history, one for each address of clients: more hosts than one master serves. With
	// LogNoteBytes, far more than a note about an address has, they stay below 2 MiB in every snapshot.
	LogNotes     = 4096
	LogNoteBytes = 512
	// LogReadBytes is how much of a file of the journal is read at once: it stays in the cache of a core.
	LogReadBytes = 256 << 10
	// FamilyNoteMs is how old a note about an address may become while its clients live, FamilyMemoryMs for how long what was
	// not seen there any more still counts after a start: a host that gets another release is taken for the old one until then.
	FamilyNoteMs   = 3600_000
	FamilyMemoryMs = 24 * 3600_000
	// FamilyLookMs is how often the living are looked through for notes to renew.
	FamilyLookMs = 60_000
)

// What requests in unknown layouts may take.
const (
	// MetricsStrangeArguments bounds the layouts of arguments that are counted one by one: a release that nobody knows yet has
	// a few dozen, and peers must not be able to make series without end.
	MetricsStrangeArguments = 256
	// StrangeArgumentsTold bounds the peers and layouts of which it is remembered that the log has a line of them: some hundred
	// hosts with a few calls each. Beyond it they are only counted.
	StrangeArgumentsTold = 4096
)

// What requests for soft pins may have.
const (
	// AdminPinKeys bounds the keys of one request, as in 0.3.14.
	AdminPinKeys = 4096
	// AdminPinBodyBytes bounds its body: so many keys of 2 KiB.
	AdminPinBodyBytes = 8 << 20
)

// What HTTP pages, logs and metrics need beyond that.
const (
	// MetricsRefusalCodes bounds the codes by which refused calls are counted; the protocol has some sixty.
	MetricsRefusalCodes = 100
	// InspectPage is how many items a list of clients, segments, objects or tasks has when the query does not say,
	// InspectPageMax the most it may ask for: an item takes some hundred bytes, a key up to thousands.
	InspectPage    = 100
	InspectPageMax = 1_000
	// LogFoldMs is how long a warning that repeats is counted before it is written again; LogFoldRows bounds the different
	// warnings that are remembered.
	LogFoldMs   = 10_000
	LogFoldRows = 1_000
	// SummaryLogMs is how often the log has a line about what is stored and what was asked for.
	SummaryLogMs = 60_000
	// RefusalLines is how many refused calls of one kind are told one by one when the kind begins; the rest is counted for
	// RefusalFoldMs, and for twice as long each time that there were more, up to RefusalFoldMaxMs.
	RefusalLines     = 3
	RefusalFoldMs    = 10_000
	RefusalFoldMaxMs = 600_000
	// RefusalKinds bounds the kinds: some eighty calls and some ten codes for each that can happen at all.
	RefusalKinds = 1_000
	// SlowCalls is how many slow calls are remembered.
	SlowCalls = 256
	// PprofMs is how long a profile may take to be sent: the longest that is asked for, and some.
	PprofMs = 300_000
)

// Command lines, access and what one peer may take.
const (
	// ConfigFileBytes and ConfigFileDepth bound a configuration file: all flags with long values are a hundredth of it, and no
	// key of the published masters lies inside a map at all.
	ConfigFileBytes = 1 << 20
	ConfigFileDepth = 16

	// AccessNetworks bounds a list of networks: it is gone through at every connection.
	AccessNetworks = 1024
	// AccessTokensBytes bounds a file of tokens: a thousand of them, each compared at every request.
	AccessTokensBytes = 64 << 10
	// AccessTokenBytesMin is the shortest token: 16 random characters are not guessed over a network.
	AccessTokenBytesMin = 16

	// RPCPeerConns is how many connections one address may have to a master: half of all, so that one host that leaks them
	// leaves room for the others. A host of 16 processes with a pool of 100 each has a tenth of it; a standby passes the
	// connections of many clients on under its own address.
	RPCPeerConns = RPCConns / 2
	// RPCPeerCalls is how many calls of one address may be unanswered: one for each of its connections, and as many parked.
	RPCPeerCalls = 2 * RPCPeerConns
	// RPCPeerLargeBytes is what one address may hold of large frames: four of the largest at once, and the others have three quarters of
	// RPCLargeBytes.
	RPCPeerLargeBytes = RPCLargeBytes / 4
	// DataPeerConns and HandshakePeerConns are the same for the ports of a segment daemon. A peer holds a handshake for
	// milliseconds; one that holds many is stuck, and the others are to get theirs.
	DataPeerConns      = DataConns / 2
	HandshakePeerConns = HandshakeConns / 2
)

// gRPC: the interface of callers that are no published clients.
const (
	// GRPCMessageBytes bounds a message either way: 16,384 objects with keys of some hundred bytes and their placements.
	GRPCMessageBytes = 32 << 20
	// GRPCBatch bounds the objects of one call: beyond, others would wait for it too long.
	GRPCBatch = 16_384
	// GRPCStreams bounds the calls of one connection that are under way.
	GRPCStreams = 1024
	// GRPCConnections bounds the connections: clients share one a process.
	GRPCConnections = 16_384
	// GRPCPingMinMs is how often a client may ask at most whether the connection lives.
	GRPCPingMinMs = 10_000
	// GRPCPage is how many objects a page has if the request does not say, GRPCPageMax what it may say.
	GRPCPage    = 1000
	GRPCPageMax = 10_000
	// GRPCWatchers bounds the streams that are told of objects, GRPCWatchQueue the rounds of events that wait for one reader.
	GRPCWatchers   = 1024
	GRPCWatchQueue = 1024
	// GRPCFailedMembers bounds the members named in the detail of a refusal: its reader sees what is wrong from fewer.
	GRPCFailedMembers = 1000
	// GRPCTasks bounds a list of tasks.
	GRPCTasks = 10_000
)

// Bundles as their bytes say, and the client that writes and reads them.
const (
	// ManifestBytes bounds a manifest or a handle: 280 bytes a member, so some hundred thousand members.
	ManifestBytes = 32 << 20
	// MsgpackDepth bounds how deep values may lie in each other: published clients give up at 512.
	MsgpackDepth = 512
	// BundleChunkBytes is how large a chunk of a member is if nobody says: what published clients take.
	BundleChunkBytes = 64 << 20
	// BundleChunkMin bounds what may be said: below, keys cost more than bytes.
	BundleChunkMin = 1024
	// RaggedDims bounds the dimensions of an array: those of numpy.
	RaggedDims = 64

	// ClientPieceBytes is how much of an object goes over one connection at a time: large enough that a request costs nothing
	// beside it, small enough that several connections share an object.
	ClientPieceBytes = 4 << 20
	// ClientTransfers bounds the pieces that one call has on the way.
	ClientTransfers = 16
	// ClientPauseMinMs and ClientPauseMaxMs bound the pauses between tries; they double and are drawn at random.
	ClientPauseMinMs = 10
	ClientPauseMaxMs = 1000
	// ClientCallMs bounds one call to a master, of which there may be several until the caller's deadline.
	ClientCallMs = 15_000
	// ClientTimeoutMs is the deadline of a caller that sets none.
	ClientTimeoutMs = 60_000
)

// Tests of this module.
const (
	// RepeatedTests bounds how many failed tests of one part of `make test` get a second try: chance hits one test or two, a
	// mistake many.
	RepeatedTests = 3
)

// Reading the log of masters.
const (
	// LogAhead is how many records are parsed ahead of the one that is applied: enough that neither half waits for the other
	// because one record is longer than the next, few enough that they need no memory to speak of.
	LogAhead = 4
	// LogOwnValues is how many checksums of written values a leader remembers: twice what lies in etcd at most.
	LogOwnValues = 2048
	// LogRollRawBytes bounds what a joined value is unpacked to. An older version unpacks up to LogValueBytes.
	LogRollRawBytes = 2 << 20
	// LogRollAboveLarge takes the place of LogRollAbove while records have LogLargeBytes on average of LogUsualRecords: of
	// such, half a thousand are a snapshot's worth of log.
	LogRollAboveLarge = 448
	LogLargeBytes     = 4 << 10
	LogUsualRecords   = 32
)

// The page for people.
const (
	// PageEveryMs is how often the state is gathered at most, and sent to each reader: people see no more.
	PageEveryMs = 1000
	// PageRest is how many times longer than it took to gather the state nothing is gathered: a twentieth of one core at most,
	// however much there is and however many look.
	PageRest = 20
	// PageStreams bounds the readers: each costs a connection and the bytes of a state a second.
	PageStreams = 32
	// PageQuietMs is after how long without news a reader gets a line, so that a dead one shows.
	PageQuietMs = 15_000
	// PageWriteMs is how long a reader may take over one message. There is no queue: what it misses meanwhile it never sees.
	PageWriteMs = 10_000
	// PageSegments, PageBundles and PageWorkloads bound the rows, as far as anybody reads; how many there are besides is told.
	PageSegments  = 100
	PageBundles   = 50
	PageWorkloads = 50
	// PageEvents is how many events are remembered, each with at most PageEventFields fields of PageTextRunes characters.
	PageEvents      = 60
	PageEventFields = 8
	PageTextRunes   = 160
	// PageFoldMs is how long after one of its kind an event only adds to its count.
	PageFoldMs = 10_000
)

// Copies that are made again.
const (
	// HealLooks is how many objects one look for such with too few copies meets under the lock: a millisecond of work. HealSlices
	// is how often that is done in a row: ten million objects are looked through within half a minute.
	HealLooks  = 4096
	HealSlices = 50
	// HealQueue bounds the objects that are known to have too few copies; what is beyond is found by the next look.
	HealQueue = 100_000
	// HealAgainMs is when those that could not be helped are looked at again if nothing has happened meanwhile.
	HealAgainMs = 30_000
	// HealTasks is how many objects the owner of the copies is asked to copy at a time if nobody says; it fetches tasks once a
	// second. HealTasksMax bounds what may be said.
	HealTasks    = 128
	HealTasksMax = 4096
	// HealBandwidth is how many bytes a second are copied again if nobody says: a tenth of a network of 25 Gbit/s.
	HealBandwidth = 256 << 20
	// HealBandwidthMin and HealBandwidthMax bound what may be said: below, one bundle takes days; above there is no network.
	HealBandwidthMin = 64 << 10
	HealBandwidthMax = 1 << 40
	// HealFullShare is the used share of a segment, with the copy, from which on it gets none: what is full evicts, and would
	// lose other objects for it.
	HealFullShare = 0.88

	// RebalanceStart is how far apart the used shares of two segments are when objects begin to move, RebalanceStop how close
	// they come: below, every put would make some move back and forth.
	RebalanceStart = 0.2
	RebalanceStop  = 0.05
	// RebalanceLooks bounds the objects that are asked for in one go.
	RebalanceLooks = 1024
	// RebalanceShare is the part of a segment that an object moved to it may be at most: a larger one would only turn the two
	// around.
	RebalanceShare = 20
	// RebalancePauseMs passes when nothing could be moved, or a move failed.
	RebalancePauseMs = 30_000
)

// Reports of segments that cannot be reached.
const (
	// ReportEndpoints bounds the segments of one report: a client tells of each when it fails there.
	ReportEndpoints = 64
	// ClientReportMs is how long a client may take over a report, and ClientReportAgainMs how often it tells of one segment: the
	// reader waits for it before it turns to another copy, and the master asks a segment once a second at most.
	ClientReportMs      = 500
	ClientReportAgainMs = 1000
	// ClientReportsKept bounds the segments of which a client remembers that it told.
	ClientReportsKept = 4096
)

// The stream between a master and a daemon that gave a segment, and what is asked for on it.
const (
	// AttachHelloMs is how long a stream may take to say who it is.
	AttachHelloMs = 10_000
	// AttachReads bounds the reads that one daemon is asked for at a time: they are manifests, one a bundle.
	AttachReads = 16
	// AttachReadBytes bounds what is asked for at once: manifests of some four thousand members.
	AttachReadBytes = 1 << 20
	// AttachReadMs is how long a daemon may take over it.
	AttachReadMs = 5000
	// AttachRetryMs is the pause before a daemon attaches again, AttachAbsentMs where the master has no such stream: a published
	// one never will.
	AttachRetryMs  = 1000
	AttachAbsentMs = 60_000
	// AttachPingMs is how often a quiet stream is probed; the master refuses to be asked more often than every GRPCPingMinMs.
	AttachPingMs = 30_000
	// VerifyQueue bounds the published bundles that wait for a look at their manifests; beyond, they are not looked at.
	VerifyQueue = 1024
	// VerifyRemembered is of how many bundles a list tells that their manifest was looked at: many more than a page shows.
	VerifyRemembered = 4096
)

// Saving a snapshot over gRPC, and handing the lead over on request.
const (
	// SnapshotPieceBytes is how much of a saved snapshot one message carries: far below what a message may have, so that a slow
	// reader holds up little.
	SnapshotPieceBytes = 256 << 10
	// TransferMs bounds how long a request to hand over waits until another leads: what a successor is waited for, twice, since
	// calls that are being answered end first.
	TransferMs = 30_000
)

// Daemons that leave, come back and grow.
const (
	// DrainLeavingConcurrency is how many objects are moved at a time off a segment whose daemon leaves: what its queue of
	// tasks holds, so that it never waits for the master.
	DrainLeavingConcurrency = SegmentTaskQueue
	// SegmentDrainPollMs is how often a daemon that leaves asks how far its drain is.
	SegmentDrainPollMs = 100
	// SegmentDrainLogMs is how often it says so in its log.
	SegmentDrainLogMs = 1000
	// SegmentDrainMarginMs is how much longer than the daemon the master keeps a segment that is drained: the daemon decides.
	SegmentDrainMarginMs = 30_000
	// SegmentSockets bounds the sockets that a supervisor passes: a daemon has three.
	SegmentSockets = 3
	// SegmentDrainMaxMs bounds --drain_timeout: a day.
	SegmentDrainMaxMs = 24 * 3600 * 1000
)

// Writing the log of masters.
const (
	// LogLingerMaxUs bounds how long a record for etcd waits for others in all: where transactions are slow, half of one would be
	// longer than anybody waits for company.
	LogLingerMaxUs = 5000
)

// Sums of objects: CRC32C that daemons find and the catalog keeps.
const (
	// SumQueue bounds the keys that were completed and wait to be asked about; beyond, walks through the catalog find them.
	SumQueue = 64 << 10
	// SumLooks is how many records a walk looks at before it lets others take the lock; most of them are another daemon's.
	SumLooks = 4 * CatalogSliceItems
	// SumSlices is how many such looks a walk takes in a row before its daemon is thought of again.
	SumSlices = 64
	// SumRanges and SumPieceBytes bound one request for sums: some milliseconds of a processor.
	SumRanges     = 256
	SumPieceBytes = 16 << 20
	// SumSliceBytes is how much a daemon reads before it looks whether it serves: a tenth of a millisecond.
	SumSliceBytes = 1 << 20
	// SumWaitMs is how long a daemon may take over a request, with much else to do.
	SumWaitMs = 60_000
	// ScrubBandwidth is how many bytes a second of each daemon are looked at if nobody says: a terabyte takes nine hours, and
	// a hundredth of a memory channel.
	ScrubBandwidth = 32 << 20
	// ScrubBandwidthMin and ScrubBandwidthMax bound what may be said: below, a gigabyte takes days; above there is no memory.
	ScrubBandwidthMin = 64 << 10
	ScrubBandwidthMax = 1 << 40
	// ScrubPieceMin is the least that is asked for at a time: below, the asking would be the work.
	ScrubPieceMin = 64 << 10
	// ScrubRestMs is the rest between two walks through everything, so that a small pool is not looked at all the time.
	ScrubRestMs = 10_000
	// ReportWrongCopies bounds the copies of one report.
	ReportWrongCopies = 64
)

// The memory of a segment daemon, and how it grows and shrinks.
const (
	// SegmentExtents bounds the regions of a segment: each is looked at for every request, and growing by half ten times makes
	// a segment fifty times as large.
	SegmentExtents = 16
	// SegmentExtentMinBytes is the smallest region that a segment grows by: less is hardly worth a mount.
	SegmentExtentMinBytes = 1 << 20
	// SegmentMemoryWatchMs is how often the memory of the host is looked at: a few small files.
	SegmentMemoryWatchMs = 2000
	// SegmentMemoryReservePercent of what the host or the cgroup has is left to others when memory is found ahead, and is
	// scarce when less is free.
	SegmentMemoryReservePercent = 5
	// SegmentShrinkMarginMs is how much longer than the daemon the master keeps a region that is emptied: should the daemon
	// give up, it has this long to say so, and a region that the master gives up would go with all that is on it.
	SegmentShrinkMarginMs = 3_600_000
	// SegmentTransferMs is how long transfers under way may take when their region goes.
	SegmentTransferMs = 5000
	// SegmentSocketPathBytes bounds the path of a socket in the file system, which the kernel does.
	SegmentSocketPathBytes = 107
	// SegmentPageBytes bounds what mooncakectl reads of a daemon's answer, which has some 20 lines.
	SegmentPageBytes = 1 << 20
	// SegmentOrderBytes bounds the body of a request on the admin socket.
	SegmentOrderBytes = 4096
)

// Surplus copies, hosts that come and go, and copies on demand that are not needed any more.
const (
	// HealLookMs is how long after the beginning of a look through all objects the next one begins at the earliest: where segments
	// come and go all the time, one look would else never end for the next.
	HealLookMs = 2000
	// HealHoldMs is how long the segments of a host that went once must have been back before they get copies; it doubles with each
	// time they went, up to HealHoldMaxMs: what is copied to them is most likely lost again.
	HealHoldMs    = 5000
	HealHoldMaxMs = 300_000
	// HealForgiveMs is after how long without a departure a host is as good as any. HealHosts bounds the hosts remembered.
	HealForgiveMs = 600_000
	HealHosts     = 65_536
	// HealTrimAfterMs is how long a segment must have been there before a copy on it counts as one to spare, or makes another one
	// that: two times what a daemon takes that goes and comes for an upgrade.
	HealTrimAfterMs = 60_000
	// HealTrimAgainMs is when objects that could not be trimmed are looked at again: longer than most leases.
	HealTrimAgainMs = 10_000
	// HealTrims is how many objects are trimmed in one go: each takes the lock of the catalog, for microseconds.
	HealTrims = 256
	// HeatColdWindows is in how many windows in a row an object must be read less than half of what would bring it a copy before it
	// loses those that it got: one is chance.
	HeatColdWindows = 3
	// HeatGrown bounds the objects with copies on demand: no more are made than can be taken away again.
	HeatGrown = 65_536
)

// The yardsticks of folder bench.
const (
	// BenchAnswerMs is how long a master may take for one answer, or to take a connection: the original removed three million
	// objects in forty seconds.
	BenchAnswerMs = 120_000
	// BenchReadBytes is the buffer that a connection reads through: an answer to a batch of a hundred fits.
	BenchReadBytes = 64 << 10
	// BenchPingMs is how often owners of segments ping, as published clients do.
	BenchPingMs = 1000
	// BenchRounds, BenchPhaseMs and BenchLimitMs bound what may be asked for: more says nothing more.
	BenchRounds  = 101
	BenchPhaseMs = 60_000
	BenchLimitMs = 6 * 3600 * 1000
	// BenchRoomBytesMin and BenchRoomBytesMax bound the memory through which objects are moved, BenchClients who moves them:
	// each is a process of 150 MB.
	BenchRoomBytesMin = 16 << 20
	BenchRoomBytesMax = 64 << 30
	BenchClients      = 16
	// BenchSteps and BenchSamples bound a traced loop and a rollout: the longest runs that were of use.
	BenchSteps   = 100_000
	BenchSamples = 32_768
	// BenchKeys bounds the objects of one master: the original needs a kilobyte for each.
	BenchKeys = 100_000_000
)

// Data from hand to hand.
const (
	// RowSlab is how many items of lists and maps are taken from the memory at once when the values of a column are read: as
	// much as a kept value can keep alive besides itself, 16 KiB.
	RowSlab = 512
	// RowKeys bounds the keys of maps that are remembered while a column is read: more than its rows have in common.
	RowKeys = 256
)

// Many keys in one call.
const (
	// WireSharedItems is from how many elements of a container on the strings of a message are cut from one copy of it: with
	// fewer, keeping one of them would keep much more than itself.
	WireSharedItems = 8
	// CatalogWarmKeys is how many keys are brought near the processor before they are looked up. Each takes four lines of its
	// smallest cache, which has 512 to 768.
	CatalogWarmKeys = 64
	// ReplyKeptItems is up to how many items the memory of a reply is kept for the next one: ten times what a wheel asks for
	// at once, some 200 KB.
	ReplyKeptItems = 1024
	// SegmentDraws is how often a segment is drawn before all are gone through: if a quarter of them can be used, one look in a
	// hundred does.
	SegmentDraws = 16
	// CatalogWarmBytes is how large a catalog is before that is worth it: what is smaller lies in a cache anyway.
	CatalogWarmBytes = 4 << 20
)

// Memory that goes back to the system when objects went.
const (
	// ThriftBytes is how much must have become free: less is not worth a round of the garbage collector.
	ThriftBytes = 16 << 20
	// ThriftShare is the part of the most ever held that must have become free: a store that breathes keeps its memory.
	ThriftShare = 4
	// ThriftRestMs is how long nothing may have been taken or freed before it goes.
	ThriftRestMs = 5000
)

// Large objects where there is much room.
const (
	// RoomyShare is the part of the pool that must be free for large ranges to go round their segments. In the traffic of a
	// training loop this left the fewest puts without a hole up to 80 % in use; beyond 85 % it left more than first fit.
	RoomyShare = 5
	// RoomySegments is how many segments that is judged by: what a pool of more looks like on average, these do too.
	RoomySegments = 8
)

// What stays cheap as a master grows.
const (
	// StaySegments is from how many segments on the smallest objects go in runs onto one: with fewer, those of all fit into the
	// caches of a processor, and they are few enough for every object to count in how even they are filled.
	StaySegments = 64
	// StayPuts and StayBytes bound a run: sixteen puts share what the first one pays, and 64 KiB is what a reader fetches in
	// one go from one segment anyway.
	StayPuts  = 16
	StayBytes = 64 << 10
	// ClearSlice is how many objects a removal of all of them looks at before it lets others take the lock: a span of memory,
	// a tenth of a millisecond.
	ClearSlice = 4096
	// ClearKept bounds what stays when all others go at once, of each sort: some milliseconds in which everything waits. Where
	// more stay, the objects go in slices.
	ClearKept = 8192
	// ClearHeld bounds the ranges that are held back then, for readers or writers: some ten milliseconds in which everything waits.
	ClearHeld = 32_768
	// ClearReads is how many ranges may be held back one by one before a removal of all objects holds back pieces of what goes: each
	// range by itself costs a microsecond, so these take less than a tenth of a second in slices.
	ClearReads = 8192
	// ClearPieceBytes is the size of what is held back then, as long as there are no more than ClearPieces of them: little enough to
	// be one put's when there is no other room, and so few that they are made, and freed, in some milliseconds.
	ClearPieceBytes = 16 << 20
	ClearPieces     = 8192
	// ClearHoles is how many free ranges may lie between them; where there are more, those smaller than a piece are held back as well.
	ClearHoles = 32_768
	// SnapshotWorkUs is how long the making of a snapshot works before it rests for SnapshotRestUs: shorter than the tenth of what a
	// probe may wait, and a rest that the runtime uses to look at its sockets.
	SnapshotWorkUs = 1000
	SnapshotRestUs = 200
	// ClearTold bounds the objects that go at once while somebody is told of each of them.
	ClearTold = 4096
)

// What calls cost.
const (
	// CatalogPairSpans is how many spans of one sort there are before more come in pairs, each of them a huge page: a catalog of many
	// sorts of records and few of each does not take 2 MiB for every sort.
	CatalogPairSpans = 4
)

// Calls of the client in Go in frames.
const (
	// FramedAtOnceBytes is up to which size a request is answered before the next one of its connection is read: what a batch of
	// a thousand keys has. Larger ones would keep others waiting; the client in Go makes such calls by gRPC.
	FramedAtOnceBytes = 64 << 10
	// FramedPendingBytes bounds the answers that wait for a peer that does not read: some dozens for batches of the largest request
	// that goes in a frame.
	FramedPendingBytes = 64 << 20
	// FramedSilenceMs is how long a peer may be silent before it is asked for a sign of life, FramedProbes times, every FramedProbeMs:
	// together well below WriterHangUpMs.
	FramedSilenceMs = 5000
	FramedProbeMs   = 2000
	FramedProbes    = 3
	// ClientFramesAgainMs is how long a client leaves a master alone that did not know frames, or hung up: it may be replaced by one
	// that knows them. ClientFramesSoonMs is the same for one that could not be reached.
	ClientFramesAgainMs = 60_000
	ClientFramesSoonMs  = 1000

	// ClientRcvLowatBytes is how much of a large body the kernel collects before the client in Go is woken: with a MiB, or
	// the default of daemons, an object of a MiB is first collected and then copied. With 256 KiB it is woken twice as often.
	ClientRcvLowatBytes = 512 << 10
	// ClientSndbufWholeBytes is up to which size a body goes into the send buffer whole, if it is the only one: a MiB fits the caches of a
	// core, and of larger objects several parts are under way.
	ClientSndbufWholeBytes = 1 << 20
	// ClientPieceMaxBytes bounds what goes over one connection at a time where an object is divided evenly among them: what is lost
	// with a connection is read or written again.
	ClientPieceMaxBytes = 16 << 20
)

// client: objects of a MiB

// ClientThreadFromBytes is from where on a call that writes one object stays on one thread: of less there is little to copy, and nothing
// was measured below.
const ClientThreadFromBytes = 256 << 10

// SchedSliceMinUs and SchedSliceMaxUs bound --sched_slice_us: the kernel cuts what is beyond without a word.
const (
	SchedSliceMinUs = 100
	SchedSliceMaxUs = 100_000
)

// SchedSlicePasses bounds how often the list of threads is read until none is new: each pass finds those that the pass before was
// made by, and a process that starts has a dozen.
const SchedSlicePasses = 16

// SchedSliceUs is the default of --sched_slice_us: the shortest that there is. A request takes less, and whoever has used it up
// goes on after others like anybody else.
const SchedSliceUs = SchedSliceMinUs

const (
	// SegmentHugeRefusals is after how many refusals in a row nobody asks the kernel for huge pages of an arena any more: one that has
	// none refuses all, one whose memory is in pieces most.
	SegmentHugeRefusals = 8
	// SegmentHugeSlowMs is from when on a huge page counts as a refusal: it was put together from pieces while a put waited. One that
	// lies ready takes a fifth of a millisecond.
	SegmentHugeSlowMs = 50
	// SegmentHugeDearUs is from how much processor time on a huge page is dear: 512 small ones take 0.4 to 2.5 ms. SegmentHugeDear is
	// after how many dear ones in a row puts find small pages; whoever finds memory ahead goes on with huge ones, since nobody waits.
	SegmentHugeDearUs = 3000
	SegmentHugeDear   = 8

	// DataReadyBytes is for how much of a body memory is found before the first byte of it is read. More would keep the sender waiting
	// and take memory that nothing has come for; less costs calls.
	DataReadyBytes = 8 << 20

	// SchedSliceYieldUs is up to which slice whoever was woken by a header gives the processor back for the body. It goes to the end of a
	// line for as long as its slice is: with 500 us puts of four clients took twice as long.
	SchedSliceYieldUs = 200
)
