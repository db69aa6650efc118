package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"mooncake/interop/vm"
)

// kernelSettings let nodes of one machine speak to each other as if they were several: packets may come from our own
// addresses, and every link answers for its own address only. Bursts of large messages need the long backlog.
var kernelSettings = map[string]string{
	"net/ipv4/conf/all/accept_local":     "1",
	"net/ipv4/conf/default/accept_local": "1",
	"net/ipv4/conf/all/rp_filter":        "0",
	"net/ipv4/conf/default/rp_filter":    "0",
	"net/ipv4/conf/all/arp_ignore":       "1",
	"net/ipv4/conf/default/arp_ignore":   "1",
	"net/ipv4/conf/all/arp_announce":     "2",
	"net/ipv4/conf/default/arp_announce": "2",
	"net/ipv6/conf/default/accept_dad":   "0",
	"net/ipv4/ip_local_port_range":       "32768 60999",
	"net/core/netdev_max_backlog":        "100000",
}

// Numbers in the table of routing rules. The local table, at 0 by default, has to come after the rules between nodes:
// otherwise packets to a local address stay on the loopback link, where rxe does not look.
const (
	rulesBetweenNodes = 50
	ruleLocal         = 150
	firstTable        = 100
)

func setUpNetwork(job vm.Job) error {
	for name, value := range kernelSettings {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			return err
		}
	}
	if err := ip(nil, links(job)); err != nil {
		return err
	}
	for i := range job.Nodes {
		device, link := fmt.Sprintf("rxe%d", i), fmt.Sprintf("node%d", i)
		if err := tool(nil, "rdma", "link", "add", device, "type", "rxe", "netdev", link); err != nil {
			return err
		}
	}
	if err := ip(nil, routes(job)); err != nil {
		return err
	}
	return namespaces(job)
}

// links are the nodes' own ones, each a pair whose other end hangs on the bridge.
func links(job vm.Job) []string {
	out := []string{
		"link set dev lo up",
		fmt.Sprintf("link add name fabric mtu %d type bridge", job.LinkMTU), "link set dev fabric up",
		"link add name lan type bridge", "link set dev lan up",
		fmt.Sprintf("address add %s.%d/24 dev lan", vm.HostNet, vm.LanGateway),
	}
	for i := range job.Nodes {
		out = append(out,
			fmt.Sprintf("link add name node%d mtu %d type veth peer name port%d mtu %d", i, job.LinkMTU, i, job.LinkMTU),
			fmt.Sprintf("link set dev port%d master fabric up", i),
			fmt.Sprintf("link set dev node%d up", i),
			fmt.Sprintf("address add %s/24 dev node%d", vm.NodeAddr(i), i))
	}
	return out
}

// routes send what one node says to another out by the link of the first.
func routes(job vm.Job) []string {
	out := []string{fmt.Sprintf("rule add pref %d lookup local", ruleLocal), "rule del pref 0"}
	for from := range job.Nodes {
		out = append(out, fmt.Sprintf("route add %s.0/24 dev node%d src %s table %d", vm.NodeNet, from, vm.NodeAddr(from), firstTable+from))
		for to := range job.Nodes {
			if from != to {
				out = append(out, fmt.Sprintf("rule add pref %d iif lo from %s to %s lookup %d",
					rulesBetweenNodes, vm.NodeAddr(from), vm.NodeAddr(to), firstTable+from))
			}
		}
	}
	return out
}

// namespaces are the hosts: a TCP/IP stack each.
func namespaces(job vm.Job) error {
	names, err := os.OpenFile("/etc/hosts", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer names.Close()
	for i := range job.Nodes {
		host := fmt.Sprintf("host%d", i)
		err := ip(nil, []string{
			"netns add " + host,
			fmt.Sprintf("link add name lan%d type veth peer name eth0 netns %s", i, host),
			fmt.Sprintf("link set dev lan%d master lan up", i),
		})
		if err != nil {
			return err
		}
		err = ip([]string{"-netns", host}, []string{
			"link set dev lo up", "link set dev eth0 up", "address add " + vm.HostAddr(i) + "/24 dev eth0",
			fmt.Sprintf("route add default via %s.%d", vm.HostNet, vm.LanGateway),
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(names, "%s node%d\n%s %s\n", vm.NodeAddr(i), i, vm.HostAddr(i), host); err != nil {
			return err
		}
	}
	return nil
}

// ip runs commands of iproute2 in one process.
func ip(options, lines []string) error {
	return tool(lines, "ip", append(options, "-batch", "-")...)
}

func tool(input []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(strings.Join(input, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
