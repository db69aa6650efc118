// Package bundle knows what a rollout bundle of the published clients is: the grammar of its keys, its manifest and meta, the
// handle by which it is passed on, and the bytes of its fields.
//
// A bundle is a set of objects whose keys share a prefix that ends in 32 lower-case hex digits:
//
//	<prefix>/<partition>/<32 hex>/meta                     one object, or
//	<prefix>/<partition>/<32 hex>/meta/chunk/<n>           several
//	<prefix>/<partition>/<32 hex>/buffer/<member>          a payload of one chunk, or
//	<prefix>/<partition>/<32 hex>/buffer/<member>/chunk/<n>
//	<prefix>/<partition>/<32 hex>/manifest                 written last: the bundle is published
//
// The package owns that grammar and those texts (Listing, Rollout, Handle, Field). It refuses to know where objects are stored,
// how they travel and who asks. Parse takes no memory: its answer is a piece of the key that was asked about. What was read
// from a text has been checked: a Listing names only keys of its own bundles, and a Field's rows lie inside its bytes, or
// reading them fails.
//
// Example:
//
//	prefix, part := bundle.Parse("miles/default/0123456789abcdef0123456789abcdef/manifest")
//	// prefix == "miles/default/0123456789abcdef0123456789abcdef/", part == bundle.Manifest
package bundle
