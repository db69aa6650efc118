// Package interop runs published Mooncake clients, unchanged, against the daemons of this repository.
//
// It owns: the three Python environments (one for each release of the wheel), a driver that speaks JSON lines with a worker
// process inside such an environment, and the starting and stopping of daemons: ours, the wheels' own and Debian's etcd.
// The tests of the package are the proof that the daemons are drop-in replacements; the demo uses the same parts.
//
// It refuses to know how the daemons work inside: everything goes through their command lines, ports and HTTP pages.
//
// Rules. Every process is started by a Rig and stopped by it, by pid; a child dies with its parent. Nothing listens or
// connects outside 127.0.0.1, but in network namespaces of its own. Ports come from Ports, which keeps clear of the kernel's
// ephemeral range and of the ranges the wheels choose from. Setting up an environment is idempotent and safe between processes (file lock).
//
//	rig, err := interop.NewRig(dir)
//	defer rig.Close()
//	master, err := rig.StartMaster(interop.MasterOptions{})
//	segment, err := rig.StartSegment(interop.SegmentOptions{Master: master.RPC, SizeBytes: 256 << 20})
//	client, err := rig.StartClient(interop.R13)
//	store, code, err := client.Setup(interop.StoreOptions{Master: master.RPC})
package interop
