package limits

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
