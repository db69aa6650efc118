// Package conffile reads a configuration file in JSON or YAML as a list of keys with plain values.
//
// It owns the two formats as the published master reads them: the end of the name decides which it is; JSON may have //
// and /* */ comments and no trailing comma; maps inside maps become keys with dots; a list anywhere is an error. Apply sets
// flags from it, where the command line has not. It refuses to know what a key means: the flag of its name says what values it
// has.
//
// Invariants: the keys come in the order of the file, a repeated one is an error; a null is left out; nothing is read beyond
// limits.ConfigFileBytes.
//
//	without, err := conffile.Apply(flags, "master.yaml", conffile.Keys{})
package conffile
