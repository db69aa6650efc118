package bundle

import "strings"

// Part says which piece of a bundle a key names.
type Part uint8

// The parts of a bundle. NoPart means that the key is an ordinary object.
const (
	NoPart Part = iota
	Meta
	Buffer
	Manifest
)

// idDigits is the length of the bundle's unique id: a UUID in hex without dashes.
const idDigits = 32

// String names the part.
func (p Part) String() string {
	switch p {
	case Meta:
		return "meta"
	case Buffer:
		return "buffer"
	case Manifest:
		return "manifest"
	}
	return "none"
}

// Parse splits a key of a bundle into the bundle's prefix, which ends with the slash after its id, and the part that
// the key names. A key outside the grammar gives "" and NoPart. The manifest is looked for at the end; meta and buffer
// at their first fitting place, since a member's name may itself contain slashes.
func Parse(key string) (prefix string, part Part) {
	const manifest = "/manifest"
	if strings.HasSuffix(key, manifest) && hasID(key, len(key)-len(manifest)) {
		return key[:len(key)-len("manifest")], Manifest
	}
	// The id cannot start before one byte of prefix and a slash.
	for at := idDigits; at < len(key); at++ {
		slash := strings.IndexByte(key[at:], '/')
		if slash < 0 {
			break
		}
		at += slash
		if !hasID(key, at) {
			continue
		}
		rest := key[at+1:]
		if strings.HasPrefix(rest, "buffer/") && len(rest) > len("buffer/") {
			return key[:at+1], Buffer
		}
		if rest == "meta" || isMetaChunk(rest) {
			return key[:at+1], Meta
		}
	}
	return "", NoPart
}

// Prefix is Parse for callers that only group keys.
func Prefix(key string) string {
	prefix, _ := Parse(key)
	return prefix
}

// hasID tells whether key[:end] closes with a slash and 32 lower-case hex digits, with something before them.
func hasID(key string, end int) bool {
	start := end - idDigits
	if start < 2 || key[start-1] != '/' {
		return false
	}
	for i := start; i < end; i++ {
		if c := key[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// isMetaChunk tells whether rest is meta/chunk/ and a decimal number.
func isMetaChunk(rest string) bool {
	number, ok := strings.CutPrefix(rest, "meta/chunk/")
	if !ok || number == "" {
		return false
	}
	for i := 0; i < len(number); i++ {
		if number[i] < '0' || number[i] > '9' {
			return false
		}
	}
	return true
}
