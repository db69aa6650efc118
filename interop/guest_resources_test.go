//go:build rdmavm

package interop

import (
	"encoding/json"
	"fmt"
	"testing"
)

// resources is what the kernel counts on one device, whoever holds it.
type resources struct {
	PD int `json:"pd"`
	CQ int `json:"cq"`
	QP int `json:"qp"`
	MR int `json:"mr"`
}

func resourcesOf(t *testing.T, device string) resources {
	t.Helper()
	var all []struct {
		Name string `json:"ifname"`
		resources
	}
	if err := json.Unmarshal([]byte(tool(t, "rdma -j resource show")), &all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if one.Name == device {
			return one.resources
		}
	}
	t.Fatalf("no device %s", device)
	return resources{}
}

// backTo waits until a device holds what it held before.
func backTo(t *testing.T, device string, want resources) {
	t.Helper()
	var got resources
	defer func() {
		if t.Failed() {
			t.Logf("%s holds %+v, it held %+v:\n%s", device, got, want, tool(t, "rdma resource show qp"))
		}
	}()
	eventually(t, faultLimit, device+" holds what it held", func() bool {
		got = resourcesOf(t, device)
		return got == want
	})
}

// TestGuestClientKilled kills a client in the middle of its work: what the daemon held for it is given back, others go on.
func TestGuestClientKilled(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	daemon := rdmaSegment(t, r, m, 1, SegmentOptions{})
	before := resourcesOf(t, "rxe0")
	doomed := guests.client(t, patient, R12)
	s := setup(t, doomed, StoreOptions{Name: t.Name(), Master: m.addressFor(doomed.Release), Protocol: "rdma", Devices: "rxe1", BufferBytes: smallBuffer})
	items := rdmaItems("doomed/", 1, 81921, 1<<20)
	putAll(t, s, items)
	if now := resourcesOf(t, "rxe0"); now.QP <= before.QP {
		t.Fatalf("%+v with a client, %+v without", now, before)
	}
	doomed.Kill()
	backTo(t, "rxe0", before)
	unharmed(t, daemon)
	getAll(t, rdmaStore(t, guests.client(t, patient, R13), StoreOptions{Master: m.RPC}), items)
}

// TestGuestRounds lets clients come and go; in the end the daemon holds nothing of them. Two hundred rounds with a peer of
// less weight are a test of package rdma.
func TestGuestRounds(t *testing.T) {
	r := newRig(t)
	m := guestMaster(t, r, MasterOptions{V12Port: true})
	daemon := rdmaSegment(t, r, m, 1, SegmentOptions{})
	before := resourcesOf(t, "rxe0")
	coming := []Release{R13}
	if *soak {
		coming = Releases
	}
	for _, release := range coming {
		args := StoreOptions{Master: m.addressFor(release), Protocol: "rdma", Devices: "rxe1", BufferBytes: 1 * mib}.args()
		args["prefix"], args["rounds"] = fmt.Sprintf("round %v/", release), repeat(4, 70)
		args["size"], args["seed"] = 100_000, 1
		var bad []string
		c := guests.client(t, plain, release)
		if err := c.Do("rounds", args, &bad); err != nil || len(bad) > 0 {
			t.Fatalf("%q, %v", bad, err)
		}
	}
	backTo(t, "rxe0", before)
	unharmed(t, daemon)
}
