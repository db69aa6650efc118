// Package vm runs a command in a small emulated machine that has RDMA devices.
//
// A machine without RDMA hardware can still speak real verbs: Debian's generic kernel carries rdma_rxe, which does RoCE v2 in
// software over any network link. The package downloads that kernel, unpacks it into the cache without installing it, and
// boots it under QEMU. The guest sees the file system of the host read-only with a throw-away layer on top, so wheels, test
// binaries and tools are simply there; what the command writes is gone afterwards. Output and exit status come back, and
// nothing of the host is touched: no module is loaded, no link made, no namespace entered there.
//
// It owns: the cached kernel, the first process of the guest (guest/), its network and devices, the time limit, the clock
// check. It refuses to know what is run inside.
//
// In the guest node I has the link nodeI, the address NodeAddr(I) and the device rxeI; the links hang on the bridge "fabric"
// through their peers portI, and table 100+I of the routes holds what node I sends to other nodes. For programs that want a
// TCP/IP stack of their own there are namespaces host0, host1, … with the address HostAddr(I) on the bridge "lan"; from there
// the devices are seen as well, and their RDMA traffic still takes the links of the first namespace, since rxe of this
// kernel works in no other.
//
//	ip link set portI down                   the device's port goes down
//	ip link set portI nomaster               what node I sends and gets by RDMA vanishes silently
//	ip link set lanI nomaster                host I is cut off from TCP/IP
//	rdma link delete rxeI                    the device vanishes
//	rdma link add rxeI type rxe netdev nodeI and is back
//
// Rules. Emulation is slow and stalls when the host is busy: limits inside are ten times what hardware needs, and nothing may
// assert a speed or a count of resends. The clock of the guest is compared with the host's throughout; when their rates
// differ the run ends with ErrClock, and whoever called boots again. KVM is used only where a guest really comes up with it.
//
//	m := vm.Machine{Cache: cache, Module: root, Log: os.Stderr}
//	status, err := m.Run(ctx, vm.Job{Command: []string{"rdma", "link"}}, vm.Output{Out: os.Stdout, Err: os.Stderr})
package vm
