package main

import (
	"strings"
	"testing"
	"time"
)

// TestBadCommandLines: what cannot be measured is told with its flag and its value.
func TestBadCommandLines(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"-suite calls,nonsense", `-suite=calls,nonsense: there is no "nonsense"`},
		{"-contestants ours,15", `-contestants=ours,15: "15" is neither`},
		{"-contestants 13,13", "13 is there twice"},
		{"-master mine", "-master=mine: want name=command"},
		{"-master mine=daemon", "{rpc}"},
		{"-segment mine", "-segment=mine: want name=command"},
		{"-segment =daemon", "-segment==daemon: want name=command"},
		{"-segment ours=daemon", "ours is there twice"},
		{"-suite calls -segment mine=daemon", "-segment=mine=daemon: only suite data"},
		{"-rounds 0", "-rounds=0 is not from 1 to 101"},
		{"-secs 0", "-secs=0 is not from 0.001 to 60"},
		{"-secs 61", "-secs=61 is not"},
		{"-keys 1", "-keys=1 is not from 100"},
		{"-many 1", "-many=1 is not from 1000"},
		{"-sizes 4kib,900mib", `-sizes=4kib,900mib: "900mib" is no size`},
		{"-sizes 100", `"100" is no size in whole KiB`},
		{"-clients 1,0", `-clients=1,0: "0" is no number from 1`},
		{"-room 1", "-room=1 is no size from"},
		{"-settle 2m", "-settle=2m0s is not from 0 to 1m0s"},
		{"-steps 0", "-steps=0 is not from 1"},
		{"-samples 0", "-samples=0 is not from 1 to 32768"},
		{"-limit 7h", "-limit=7h0m0s is not above 0"},
		{"calls", `"calls" is no flag`},
		{"-unknown", "-unknown"},
	} {
		var s settings
		if err := s.parse(strings.Fields(tc.args)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.args, err, tc.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	var s settings
	err := s.parse([]string{
		"-suite", "calls, data", "-contestants", "13,ours", "-master", "mine=a-master --rpc_port={rpc} --metrics_port={met}", "-secs", "0.5",
		"-segment", "other=a-segment --data_rcvlowat=0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.suites) != 2 || len(s.contestants) != 3 || s.contestants[2].command[0] != "a-master" || s.phase != 500*time.Millisecond {
		t.Errorf("%+v", s)
	}
	if len(s.segments) != 1 || s.segments[0].name != "other" || len(s.segments[0].segment) != 2 {
		t.Errorf("%+v", s.segments)
	}
	if err := new(settings).parse(nil); err != nil {
		t.Error(err)
	}
}
