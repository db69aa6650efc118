// Package access decides who may connect and who may ask for what.
//
// It owns networks (which addresses may connect to a port), tokens with their levels, the certificate of an HTTP port, and the
// counts of what one peer holds. It refuses to know what is behind a port: a request is judged by its method and path alone.
//
// Invariants:
//
//   - Without networks everybody may connect, without tokens everything may be asked for: that is how the published programs
//     are, and a file that is empty or cannot be read is an error instead.
//   - Tokens are kept and compared as digests, in the same time whatever they are; none is ever written anywhere.
//   - A reload takes effect whole or not at all.
//
// Lock order: every lock here is a leaf.
//
//	tokens, err := access.OpenTokens("tokens")
//	srv := http.Server{Handler: tokens.Guard(pages)}
package access
