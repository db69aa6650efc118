package limits

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
