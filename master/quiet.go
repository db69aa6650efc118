package master

import (
	"log"

	"go.uber.org/zap"
)

// quietly is where the HTTP library tells of peers that speak no HTTP, or no TLS: probes do that all day.
func quietly(to *zap.Logger) *log.Logger {
	out, err := zap.NewStdLogAt(to.Named("http"), zap.DebugLevel)
	if err != nil {
		return nil // no such level, which cannot be
	}
	return out
}
