// Package acceptloop turns a listener into handled connections: one goroutine each, a bounded number at a time.
//
// It owns the life of the listener and of the goroutines: Run closes the one and waits for the others. A shortage of
// descriptors is waited out instead of ending the daemon. It refuses to know what a connection is for.
//
// Invariants:
//
//   - Never more than Max handlers at once. With Overflow set a connection beyond that is handed to it on the accepting
//     goroutine (count it, close it); without, it stays in the kernel's queue until a handler ends.
//
//   - Whoever is not admitted is gone before a byte is read, and nobody has more than PeerMax handlers.
//
//   - A handler owns its connection and closes it.
//
//   - Run returns only after the last handler; whoever cancels its context must also wake handlers that wait.
//
//     loop := acceptloop.Loop{Max: 1024, Handle: serveOne}
//     err := loop.Run(ctx, listener)
package acceptloop
