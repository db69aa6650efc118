package master

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mooncakev1 "mooncake/api/mooncake/v1"
	"mooncake/internal/limits"
	"mooncake/replication"
)

// saver is a log that can be saved as a whole.
type saver interface {
	Save(ctx context.Context, out io.Writer) (replication.Saved, error)
}

// SaveSnapshot implements the call. What is sent is built from what the log has kept, beside the catalog: no other call waits.
func (a adminServer) SaveSnapshot(_ *mooncakev1.SaveSnapshotRequest, out grpc.ServerStreamingServer[mooncakev1.SaveSnapshotReply]) error {
	s, release, err := a.g.source.hold(out.Context())
	if err != nil {
		return err
	}
	log, ok := s.history.journal.(saver)
	release() // the log can be read for longer than this master leads
	if !ok {
		return status.Error(codes.FailedPrecondition, "this master keeps nothing that could be saved: it has neither --data_dir nor --enable_ha")
	}
	if !a.g.saving.TryLock() {
		return status.Error(codes.ResourceExhausted, "a snapshot is being saved already: one at a time, since it takes the memory of the catalog once more")
	}
	defer a.g.saving.Unlock()
	pieces := &pieceWriter{out: out}
	saved, err := log.Save(out.Context(), pieces)
	if err == nil {
		err = pieces.flush()
	}
	if err != nil {
		if out.Context().Err() != nil {
			return status.FromContextError(out.Context().Err()).Err()
		}
		return status.Errorf(codes.Internal, "no snapshot: %v", err)
	}
	return out.Send(&mooncakev1.SaveSnapshotReply{End: &mooncakev1.SavedSnapshot{
		Last: saved.Last, TimeMs: int64(saved.Time), Objects: saved.Objects, Bytes: uint64(saved.Bytes), Sha256: saved.SHA256,
	}})
}

// pieceWriter sends what is written to it in pieces. A slow reader holds up nothing but the snapshot.
type pieceWriter struct {
	out     grpc.ServerStreamingServer[mooncakev1.SaveSnapshotReply]
	pending []byte
}

// Write implements io.Writer.
func (w *pieceWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), limits.SnapshotPieceBytes-len(w.pending))
		w.pending, p = append(w.pending, p[:k]...), p[k:]
		if len(w.pending) == limits.SnapshotPieceBytes {
			if err := w.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

func (w *pieceWriter) flush() error {
	if len(w.pending) == 0 {
		return nil
	}
	err := w.out.Send(&mooncakev1.SaveSnapshotReply{Data: w.pending})
	w.pending = nil // the message may still be read from it
	return err
}
