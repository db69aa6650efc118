package master

import "strings"

// The published servers do not decode queries the way forms are: '+' is a plus, and a broken escape stands for itself.

// queryValue finds the first parameter of a name in a raw query and returns its value as it stands there.
func queryValue(rawQuery, name string) (value string, ok bool) {
	for part := range strings.SplitSeq(rawQuery, "&") {
		if k, v, _ := strings.Cut(part, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// percentDecoded replaces %XX by the byte it names and leaves everything else, broken escapes included.
func percentDecoded(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, ok1 := hexDigit(s[i+1])
			lo, ok2 := hexDigit(s[i+2])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func hexDigit(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// percentEncoded writes what percentDecoded reads, and leaves what bundles' ids are usually made of as it is.
func percentEncoded(s string) string {
	const digits = "0123456789ABCDEF"
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~/", c) >= 0:
			out = append(out, c)
		default:
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}
