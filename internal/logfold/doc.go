// Package logfold keeps a log short: a warning that repeats is written once, and then counted.
//
// It owns the memory of what was written lately. It refuses to know what the lines mean, and touches none below the level of a
// warning.
//
// Invariants:
//
//   - the first of a row of identical lines is written at once;
//   - none is lost: the number of those that were not written stands in the field "repeated" of a later line;
//   - what is remembered is bounded: with too many different lines, further ones are written as they come.
//
// Lines are identical when level, text and all fields that are words are: figures and times do not count.
//
// Lock order: the fold's lock is held while the core below writes.
//
//	fold := logfold.New(core)
//	log := zap.New(fold)
//	stop := fold.Start()
//	defer stop()
package logfold
