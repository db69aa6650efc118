package pack

// text is the type of a bare string, the body of every reply whose error code is not 0.
var text = NewType(LiteralString, false)

// AppendText appends a body that is one string: the message of a reply with an error code.
func AppendText(dst []byte, s string) []byte {
	a := NewAppender(dst, text)
	for {
		a.String(s)
		if a.Done() {
			return a.Bytes()
		}
	}
}

// DecodeText reads a body that is one string.
func DecodeText(body []byte) (string, error) {
	d := NewDecoder(body, text)
	s := d.String()
	return s, d.Err()
}
