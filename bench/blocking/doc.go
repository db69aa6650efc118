// Package blocking has connections whose reads and writes wait inside the kernel, as those of programs without a runtime of
// their own do. With them a load shows what its server costs, and a bare transfer what the machine can do: waking a goroutine
// takes longer than some answers.
//
// It refuses to know what is sent. Whoever waits holds a thread.
//
// Invariants: the end of the context ends every wait. A Conn belongs to one goroutine, but for its end.
//
//	conn, err := blocking.New(ctx, tcp)
//	defer conn.Close()
package blocking
