package limits

// What masters that share a log in etcd need besides.

// EtcdTryMs bounds a call at one member of a cluster before the next is tried: a frozen member must not hold up a log by
// more. A transaction takes a few milliseconds.
const EtcdTryMs = 1000

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
	// transaction takes longer without carrying more per second.
	LogBatchBytes   = 64 << 10
	LogBatchChanges = 1000
	// LogBatchSplitBytes is the size at which such a record ends even amid a decision. With the longest key after it the
	// record stays below the 1.5 MiB that etcd takes.
	LogBatchSplitBytes = 384 << 10
	// LogChangeBytes is more than a change takes at rest, besides its texts, and more than one of its replicas does.
	LogChangeBytes = 128
	// LogLingerUs is how long a record for etcd waits for as many decisions as the one before had.
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
	// than LogLagRecords behind, does not call itself ready: that many are applied in less than a tenth of a second.
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
