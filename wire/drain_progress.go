package wire

// DrainProgress is the message, as JSON, of the task that tells a daemon how far its leaving is: the master answers
// QueryTask with it when asked for the id of a segment that GracefulUnmountSegment named. Published masters know no such task.
type DrainProgress struct {
	// Left counts the copies that are still on the segment, Active those of them that are being moved, Blocked those that
	// cannot be moved at the moment.
	Left    uint64 `json:"left"`
	Active  uint64 `json:"active"`
	Blocked uint64 `json:"blocked"`
	// Moved counts the copies that were moved, MovedBytes their bytes.
	Moved      uint64 `json:"moved"`
	MovedBytes uint64 `json:"moved_bytes"`
}
