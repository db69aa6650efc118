//go:build rdmavm

package rdma

import (
	"encoding/binary"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVMClass looks at the packets with which a device answers a read: they carry the traffic class that was asked for.
func TestVMClass(t *testing.T) {
	const class = 104 // a class without the two bits for congestion
	f := openVM(t, Config{TrafficClass: class, ServiceLevel: 3})
	region, err := f.Register(t.Context(), mapped(t, 1<<20), base, nil)
	must(t, err)
	w := newWheel(t, verbsOf(t), "rxe1", "192.168.99.2:15001")
	defer w.vanish()
	w.connect(f, self, "rxe0", 1)
	sniffer := listenOn(t, "node0")
	must(t, w.do(0, opRead, 0, 100, base, region.Describe()[0].RKey[0]))
	frame := make([]byte, 1<<16)
	for {
		n, err := unix.Read(sniffer, frame)
		if err != nil {
			t.Fatalf("no packet of RDMA left node0: %v", err)
		}
		if tos, ours := rocePacket(frame[:n], "192.168.99.1"); ours {
			if tos != class {
				t.Errorf("traffic class %d, want %d", tos, class)
			}
			return
		}
	}
}

// listenOn opens a socket that gets every frame of a link, for a minute.
func listenOn(t *testing.T, link string) int {
	t.Helper()
	i, err := net.InterfaceByName(link)
	must(t, err)
	const all = 0x0300 // ETH_P_ALL in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	must(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: i.Index}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 60}))
	return fd
}

// rocePacket reads the type of service of a RoCE v2 packet from an IPv4 address.
func rocePacket(frame []byte, from string) (tos byte, ours bool) {
	const ethernet, ip, udp, rocePort = 14, 20, 8, 4791
	if len(frame) < ethernet+ip+udp || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
		return 0, false
	}
	packet := frame[ethernet:]
	if packet[9] != unix.IPPROTO_UDP || net.IP(packet[12:16]).String() != from || binary.BigEndian.Uint16(packet[ip+2:]) != rocePort {
		return 0, false
	}
	return packet[1], true
}
