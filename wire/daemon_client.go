package wire

import (
	"crypto/rand"
	"encoding/binary"
)

// daemonMark is the upper half of the first number of a client id that one of our own segment daemons chose. A daemon
// understands every layout, so it must prove nothing about the wheels that share its address. A wheel draws its ids at
// random: one in four billion carries the mark by chance, and then only loses its vote.
const daemonMark = 0x6d67_7365

// NewDaemonClientID draws the client id of a segment daemon.
func NewDaemonClientID() (UUID, error) {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return UUID{}, err
	}
	return UUID{
		Hi: daemonMark<<32 | uint64(binary.LittleEndian.Uint32(b[:])),
		Lo: binary.LittleEndian.Uint64(b[4:]),
	}, nil
}

// IsDaemonClient reports whether the id was drawn by NewDaemonClientID.
func IsDaemonClient(id UUID) bool { return id.Hi>>32 == daemonMark }
