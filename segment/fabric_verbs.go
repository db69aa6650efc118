package segment

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"mooncake/descriptor"
	"mooncake/rdma"
)

// builtFabric opens real devices; it is nil in a build without RDMA.
func builtFabric() fabricOpener {
	if !rdma.Available() {
		return nil
	}
	return func(cfg rdma.Config) (fabric, error) {
		f, err := rdma.OpenFabric(cfg)
		if err != nil {
			return nil, err
		}
		return &verbsFabric{f}, nil
	}
}

// verbsFabric is a fabric over real devices.
type verbsFabric struct{ f *rdma.Fabric }

func (v *verbsFabric) register(ctx context.Context, mem []byte, base uint64, progress func(done, total uint64)) (region, error) {
	r, err := v.f.Register(ctx, mem, base, progress)
	if err != nil {
		return nil, err
	}
	return verbsRegion{r}, nil
}

func (v *verbsFabric) accept(self string, q *descriptor.Connection) descriptor.Connection {
	return v.f.Accept(self, q)
}
func (v *verbsFabric) run(ctx context.Context) error { return v.f.Run(ctx) }
func (v *verbsFabric) changed() <-chan struct{}      { return v.f.Changed() }
func (v *verbsFabric) close() error                  { return v.f.Close() }

func (v *verbsFabric) write(ctx context.Context, peer rdma.Target, addr uint64, data []byte) error {
	return v.f.Write(ctx, peer, addr, data)
}

type verbsRegion struct{ r *rdma.Region }

func (r verbsRegion) publish() ([]descriptor.Device, []descriptor.Buffer) { return r.r.Publish() }
func (r verbsRegion) close() error                                        { return r.r.Close() }

// stats names the figures of package rdma as series.
func (v *verbsFabric) stats() fabricStats {
	s := v.f.Stats()
	var out fabricStats
	for i := range s.Devices {
		out.rails = append(out.rails, deviceSeries(&s.Devices[i]))
	}
	for i := range s.Peers {
		p := &s.Peers[i]
		out.peers = append(out.peers, fabricPeerStats{device: p.Device, path: p.Path, counts: []namedCount{
			{"rdma_peer_qps", "gauge", "Queue pairs of a connected peer", uint64(p.QPs)},
			{"rdma_peer_probes_total", "counter", "Probes whether the peer is still there", p.Probes},
		}})
	}
	for i := range s.Paths {
		p := &s.Paths[i]
		labels := labelText("device", p.Device) + "," + labelText("peer", p.Path)
		out.add(labels, "rdma_copy_outstanding", "gauge", "Requests of our own copies under way, by target", uint64(p.Outstanding))
		out.add(labels, "rdma_copy_bytes_total", "counter", "Bytes that our own copies moved, by target", p.Bytes)
		out.add(labels, "rdma_copy_errors_total", "counter", "Requests of our own copies that failed, by target", p.Errors)
	}
	out.add("", "rdma_qps", "gauge", "Queue pairs of all peers", uint64(s.QPs))
	out.add("", "rdma_qps_max", "gauge", "Queue pairs allowed to all peers", uint64(s.QPsMax))
	const handshakes, handshakesHelp = "rdma_handshakes_total", "Answered requests to connect queue pairs"
	out.add(labelText("kind", "new"), handshakes, "counter", handshakesHelp, s.Accepted)
	out.add(labelText("kind", "repeated"), handshakes, "counter", handshakesHelp, s.Repeated)
	out.add(labelText("kind", "restarted"), handshakes, "counter", handshakesHelp, s.Restarted)
	out.add(labelText("kind", "ready"), handshakes, "counter", handshakesHelp, s.Readied)
	out.addAll("reason", s.Refused, "rdma_handshakes_refused_total", "Refused requests to connect queue pairs")
	out.addAll("reason", s.Disconnected, "rdma_peers_disconnected_total", "Peers whose queue pairs were destroyed")
	out.add("", "rdma_probes_answered_total", "counter", "Probes that peers answered", s.ProbesAnswered)
	out.add("", "rdma_probes_failed_total", "counter", "Probes that found a peer gone", s.ProbesFailed)
	out.add("", "rdma_copy_retries_total", "counter", "Pieces of our own copies that were tried again over another path", s.CopyRetries)
	out.add("", "rdma_copy_failures_total", "counter", "Copies of our own that failed over RDMA", s.CopyFailures)
	return out
}

func (s *fabricStats) add(labels, name, kind, help string, value uint64) {
	s.counts = append(s.counts, labelledCount{namedCount{name, kind, help, value}, labels})
}

// addAll adds a counter for each value of a label.
func (s *fabricStats) addAll(label string, values map[string]uint64, name, help string) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s.add(labelText(label, key), name, "counter", help, values[key])
	}
}

func deviceSeries(d *rdma.DeviceStats) railStats {
	r := railStats{device: d.Name, port: d.Port, up: d.Usable, state: d.State, counts: []namedCount{
		{"rdma_device_qps", "gauge", "Queue pairs on the device", uint64(d.QPs)},
		{"rdma_memory_regions", "gauge", "Memory regions registered with the device", uint64(d.Regions)},
		{"rdma_registered_bytes", "gauge", "Bytes registered with the device", uint64(d.RegisteredBytes)},
		{"rdma_mtu_bytes", "gauge", "MTU of the port", uint64(d.MTUBytes)},
		{"rdma_port_downs_total", "counter", "Times the port stopped to carry traffic", d.PortDowns},
		{"rdma_read_bytes_total", "counter", "Bytes that our own copies read", d.ReadBytes},
		{"rdma_write_bytes_total", "counter", "Bytes that our own copies wrote", d.WriteBytes},
		{"rdma_errors_total", "counter", "Requests of our own that failed", d.Errors},
	}}
	for _, kind := range slices.Sorted(maps.Keys(d.Events)) {
		r.counts = append(r.counts, namedCount{fmt.Sprintf("rdma_%s_events_total", kind), "counter", "Reports of the device of this kind", d.Events[kind]})
	}
	return r
}
