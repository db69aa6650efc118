package descriptor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Notification is the JSON text of a FrameNotify exchange. The answer has the message "success"; an empty message in it
// counts as a refusal.
type Notification struct {
	Name      string `json:"name"`
	NotifyMsg string `json:"notify_msg"`
}

// probeAnswer is the JSON text that answers FrameProbe.
type probeAnswer struct {
	Status string `json:"status"`
}

const success = "success"

// The answers that are the same for everybody.
var (
	emptyConnection = (&Connection{}).Encode()
	notifyTaken     = encodeJSON(Notification{NotifyMsg: success})
	probeSuccess    = encodeJSON(probeAnswer{Status: success})
)

// answer decides what one request gets. An error means that the connection is closed without an answer.
func (s *Server) answer(request Frame) (Frame, error) {
	if err := checkObject(request.Text); err != nil {
		return Frame{}, fmt.Errorf("request of type %d: %w", request.Type, err)
	}
	answer := Frame{Type: request.Type, Bare: request.Bare}
	switch request.Type {
	case FrameConnection:
		answer.Text = s.connect(request.Text)
	case FrameMetadata:
		text, err := s.describe(request.Text)
		if err != nil {
			return Frame{}, err
		}
		answer.Text = text
	case FrameNotify:
		answer.Text = notifyTaken
	case FrameProbe:
		answer.Text = probeSuccess
	default:
		return Frame{}, errFrameType
	}
	return answer, nil
}

// describe asks the owner for the descriptor that this asker gets. A descriptor of the asker that cannot be read is as
// good as none: the original ignores it altogether.
func (s *Server) describe(request []byte) ([]byte, error) {
	asker, err := parseLoosely(request)
	if err != nil {
		asker = &Segment{TCPProtoVersion: TCPUnacknowledged}
	}
	own, err := s.cfg.Describe(asker)
	if err != nil {
		return nil, err
	}
	text := own.Encode()
	if len(text)+1 > s.cfg.FrameBytesMax {
		return nil, fmt.Errorf("own descriptor of %d bytes is above the frame limit %d (MC_HANDSHAKE_MAX_LENGTH)",
			len(text), s.cfg.FrameBytesMax)
	}
	return text, nil
}

// checkObject refuses texts that are not one JSON object. Real clients send nothing else.
func checkObject(text []byte) error {
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(text) {
		return errors.New("text is not a JSON object")
	}
	return nil
}
