// Package mooncake is the root of the module. It holds no code, only the test of the house rules: which package may import
// which, how long files and functions may be, and what every file owes to its reader.
package mooncake
