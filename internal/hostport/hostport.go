package hostport

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"mooncake/internal/limits"
)

// Parse splits an address into host and port. A text without a port gets defaultPort. The host comes back without
// brackets. Port 0 is accepted: it means "any" to those who listen and is for the caller to refuse elsewhere.
func Parse(text string, defaultPort int) (host string, port int, err error) {
	host, portText, err := split(text)
	if err != nil {
		return "", 0, err
	}
	if err := checkHost(text, host); err != nil {
		return "", 0, err
	}
	if portText == "" {
		return host, defaultPort, nil
	}
	port, err = parsePort(text, portText[1:])
	if err != nil {
		return "", 0, err
	}
	return host, port, nil
}

// HasPort reports whether the text names a port itself. A malformed text has none.
func HasPort(text string) bool {
	_, portText, err := split(text)
	return err == nil && portText != ""
}

// Join writes host and port as one address, with brackets around an IPv6 host.
func Join(host string, port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// split cuts the text; portText is empty or begins with the colon, so that "host:" and "host" can be told apart.
func split(text string) (host, portText string, err error) {
	if text == "" {
		return "", "", fmt.Errorf("address is empty, want host:port")
	}
	if len(text) > limits.AddressTextBytesMax {
		return "", "", fmt.Errorf("address of %d characters is longer than %d", len(text), limits.AddressTextBytesMax)
	}
	if text[0] == '[' {
		return splitBracketed(text)
	}
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, "", nil
	}
	if strings.IndexByte(text, ':') == at {
		return text[:at], text[at:], nil
	}
	if _, err := netip.ParseAddr(text); err != nil {
		return "", "", fmt.Errorf("address %q is neither host:port nor an IPv6 address (write [v6]:port)", text)
	}
	return text, "", nil
}

func splitBracketed(text string) (host, portText string, err error) {
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return "", "", fmt.Errorf("address %q has no closing bracket", text)
	}
	host, rest := text[1:end], text[end+1:]
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is6() {
		return "", "", fmt.Errorf("address %q: %q in brackets is not an IPv6 address", text, host)
	}
	if rest != "" && rest[0] != ':' {
		return "", "", fmt.Errorf("address %q: %q after the bracket is not :port", text, rest)
	}
	return host, rest, nil
}

// checkHost refuses what neither a name nor an address can contain; slashes catch URLs given where an address belongs.
func checkHost(text, host string) error {
	if host == "" {
		return fmt.Errorf("address %q has no host", text)
	}
	for _, r := range host {
		if r <= ' ' || r == 0x7f || strings.ContainsRune("/\\@?#[]\"'<>,;", r) {
			return fmt.Errorf("address %q: host contains %q", text, r)
		}
	}
	return nil
}

func parsePort(text, digits string) (int, error) {
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", text, digits)
	}
	return int(port), nil
}
