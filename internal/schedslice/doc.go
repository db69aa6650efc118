// Package schedslice asks the kernel's scheduler for short turns.
//
// Linux gives a thread a slice of some milliseconds. A thread that asks for a shorter one gets no more of a processor, but it may
// interrupt a thread with a longer one as soon as it has something to do. That is what a server wants that shares its
// machine with busy processes: its requests take microseconds, and those who wait for the answers spin. Since Linux 6.12 any
// process may ask (sched_setattr(2), sched_runtime of the ordinary policies).
//
// It owns: which threads are asked for (all of the process; later ones inherit it) and what counts as an answer. It refuses to
// know who asks. Priorities are not touched.
//
//	took, err := schedslice.Ask(100 * time.Microsecond)
package schedslice
