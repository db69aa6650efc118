package segment

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"

	"mooncake/wire"
)

// twoDaemons are a source and a target under one master.
func twoDaemons(t *testing.T, m *fakeMaster) (from, to *running) {
	t.Helper()
	from, to = run(t, daemonConfig(t, m)), run(t, daemonConfig(t, m))
	for range 2 {
		m.wait(t, "ReMountSegment")
	}
	return from, to
}

// replica describes a range of a daemon's segment.
func replica(d *running, offset, size uint64) wire.ReplicaDescriptor {
	var r wire.ReplicaDescriptor
	r.Status = wire.ReplicaStatusComplete
	r.DescriptorVariant.Memory.BufferDescriptor = wire.BufferDescriptor{
		Size: size, BufferAddress: d.state.Base + offset, Protocol: "tcp", TransportEndpoint: d.state.Endpoint,
	}
	return r
}

// order gives a daemon a task.
func (m *fakeMaster) order(d *running, kind wire.TaskType, payload string) {
	m.lock(func() {
		m.waiting[d.clientID] = append(m.waiting[d.clientID], wire.TaskAssignment{ID: wire.UUID{Hi: 7, Lo: 8}, Type: kind, Payload: payload})
	})
}

func TestCopyTaskMovesTheBytes(t *testing.T) {
	const size = 700_000
	for name, c := range map[string]struct {
		dialect        wire.Dialect
		kind           wire.TaskType
		payload        string
		start, endCall string
	}{
		"13 copy": {wire.V13, wire.TaskTypeReplicaCopy, `{"key":"k","tenant_id":"default","source":"a","targets":["b"]}`, "CopyStart", "CopyEnd"},
		"12 copy": {wire.V12, wire.TaskTypeReplicaCopy, `{"key":"k","tenant_id":"default","source":"a","targets":["b"]}`, "CopyStart", "CopyEnd"},
		"13 move": {wire.V13, wire.TaskTypeReplicaMove, `{"key":"k","tenant_id":"default","source":"a","target":"b"}`, "MoveStart", "MoveEnd"},
		"12 move": {wire.V12, wire.TaskTypeReplicaMove, `{"key":"k","tenant_id":"default","source":"a","target":"b"}`, "MoveStart", "MoveEnd"},
		"dynamic": {
			wire.V13, wire.TaskTypeReplicaCopy,
			`{"key":"k","source":"a","targets":["b"],"dynamic_replication_lease_id_high":1,"dynamic_replication_lease_id_low":2,"dynamic_replication_version_epoch":3}`,
			"DynamicReplicaCopyStart", "DynamicReplicaCopyEnd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t)
			from, to := twoDaemons(t, m)
			want := make([]byte, size)
			rand.Read(want)
			copy(from.arena.Bytes()[100:], want)
			m.lock(func() {
				m.dialect = c.dialect
				m.copies["k"] = copyPlan{replica(from, 100, size), []wire.ReplicaDescriptor{replica(to, 5000, size)}}
			})
			m.order(from, c.kind, c.payload)
			m.wait(t, c.start)
			m.wait(t, c.endCall)
			m.wait(t, "task SUCCESS")
			to.end(t, ErrStay) // only the file is looked at: no memory is shared with the goroutine that wrote
			file, err := os.ReadFile(to.arena.Path())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(file[5000:5000+size], want) {
				t.Error("the copy differs")
			}
			if n := from.count.taskBytes.Load(); n != size {
				t.Errorf("%d bytes counted", n)
			}
		})
	}
}

func TestTaskThatFailsIsTakenBackAndTold(t *testing.T) {
	const copyText = `{"key":"k","source":"a","targets":["b"]}`
	for name, c := range map[string]struct {
		payload string
		plan    func(from, to *running) copyPlan
		calls   []string // in this order
		message string
	}{
		"the master only asks": {probeText, nil, []string{"DynamicReplicaCopyStart", "task FAILED"}, "OBJECT_NOT_FOUND"},
		"no such object":       {copyText, nil, []string{"CopyStart", "task FAILED"}, "OBJECT_NOT_FOUND"},
		"unreadable":           {`{"key":`, nil, []string{"task FAILED"}, "cannot be read"},
		"nothing to do": {copyText, func(from, _ *running) copyPlan {
			return copyPlan{source: replica(from, 0, 10)}
		}, []string{"CopyStart", "CopyEnd", "task SUCCESS"}, ""},
		"source elsewhere": {copyText, func(from, to *running) copyPlan {
			return copyPlan{replica(to, 0, 10), []wire.ReplicaDescriptor{replica(to, 50, 10)}}
		}, []string{"CopyStart", "CopyRevoke", "task FAILED"}, "not in this segment"},
		"source outside": {copyText, func(from, to *running) copyPlan {
			return copyPlan{replica(from, 1<<30, 10), []wire.ReplicaDescriptor{replica(to, 50, 10)}}
		}, []string{"CopyStart", "CopyRevoke", "task FAILED"}, "outside the segment"},
		"target of another size": {copyText, func(from, to *running) copyPlan {
			return copyPlan{replica(from, 0, 10), []wire.ReplicaDescriptor{replica(to, 50, 11)}}
		}, []string{"CopyStart", "CopyRevoke", "task FAILED"}, "11 bytes"},
		"target refuses": {copyText, func(from, to *running) copyPlan {
			return copyPlan{replica(from, 0, 10), []wire.ReplicaDescriptor{replica(to, 1<<30, 10)}}
		}, []string{"CopyStart", "CopyRevoke", "task FAILED"}, "cannot write"},
		"target is gone": {copyText, func(from, to *running) copyPlan {
			r := replica(to, 0, 10)
			r.DescriptorVariant.Memory.BufferDescriptor.TransportEndpoint = "127.0.0.1:1"
			return copyPlan{replica(from, 0, 10), []wire.ReplicaDescriptor{r}}
		}, []string{"CopyStart", "CopyRevoke", "task FAILED"}, "127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMaster(t)
			from, to := twoDaemons(t, m)
			if c.plan != nil {
				m.lock(func() { m.copies["k"] = c.plan(from, to) })
			}
			m.order(from, wire.TaskTypeReplicaCopy, c.payload)
			for _, call := range c.calls[:len(c.calls)-1] {
				m.wait(t, call)
			}
			m.waitTask(t, c.calls[len(c.calls)-1], c.message)
		})
	}
}

// waitTask waits for a task's report and looks at its message.
func (m *fakeMaster) waitTask(t *testing.T, want, message string) {
	t.Helper()
	report := ""
	for e := range m.events {
		if strings.HasPrefix(e, "task ") {
			report = e
			break
		}
	}
	if !strings.HasPrefix(report, want) || !strings.Contains(report, message) {
		t.Errorf("report %q, want %q with %q", report, want, message)
	}
}

func TestManyTasksPassThroughAShortQueue(t *testing.T) {
	const n = 300
	m := newFakeMaster(t)
	from, to := twoDaemons(t, m)
	m.lock(func() {
		for i := range n {
			m.copies[fmt.Sprint("k", i)] = copyPlan{replica(from, uint64(i), 1), []wire.ReplicaDescriptor{replica(to, uint64(i), 1)}}
		}
	})
	for i := range n {
		m.order(from, wire.TaskTypeReplicaCopy, fmt.Sprintf(`{"key":"k%d","source":"a","targets":["b"]}`, i))
	}
	for range n {
		m.wait(t, "task SUCCESS")
	}
	if got := from.count.tasksDone.Load(); got < n-uint64(from.cfg.TaskWorkers) {
		t.Errorf("%d tasks counted", got)
	}
}
