// Package rawconn reads and writes TCP connections with as little work of the Go scheduler as possible.
//
// A goroutine still waits in Go's own network poller, so deadlines, Close and blocking behave as with net.Conn. Only the
// non-blocking read or write itself is done by a raw system call inside a SyscallConn callback: the ordinary path leaves
// through the scheduler's system-call exit, which wakes the runtime's monitor thread whenever the process was idle. For a
// peer that pauses between requests this costs about two more context switches and twice the processor time per request.
//
// It owns: the size of a system call (limits.RawCallBytes at most, because a raw call holds up the garbage collector while
// it copies), the callbacks (made once per connection, so that no call allocates) and the receive low-water mark. It refuses
// to know what the bytes mean.
//
// Invariants:
//   - At most one goroutine reads and at most one writes at a time; a reader and a writer may run together. Close and the
//     deadlines may be called from anywhere, at any time.
//   - The buffers of a call are referenced only until it returns.
//   - A raw call is made on a non-blocking socket only, so it never waits.
//   - Both modes move the same bytes and fail with the same kinds of error: io.EOF, net.ErrClosed,
//     os.ErrDeadlineExceeded or an error that wraps a syscall.Errno.
//
// Standard mode ("std") is plain net.Conn. It serves systems without the raw path, the hunt for bugs, and every build with
// the race detector, which cannot see memory that raw calls write.
//
//	c, err := rawconn.New(tcpConn, false)
//	n, err := c.Read(buf)         // waits for at least one byte
//	n, err = c.Fill(body, 1<<20)  // waits for all of it, woken once a MiB
//	_, err = c.Writev(head, body) // returns when all of it is with the kernel
package rawconn
