// Package units reads and writes the sizes and durations of flags, environment variables and summaries.
//
// It owns three grammars that users of the original know and expect: sizes as the Miles guide and the store's own
// tools write them (all multiples of 1024: 2gb, 512MB, 1GiB, 4 GB, 20M, 268435456), durations as the master's lease
// flags take them (a bare number is milliseconds), and sizes as the master's summary line prints them (64.00 MB).
//
// It refuses to guess: a text that does not fit is an error that repeats the text, never zero. (The original counts
// an unreadable size as 0 and then runs without a segment.)
//
//	bytes, err := units.ParseSize("2gb")
package units
