package wire

import "testing"

func TestNames(t *testing.T) {
	tests := []struct{ got, want string }{
		{ErrOK.String(), "OK"},
		{ErrObjectNotFound.String(), "OBJECT_NOT_FOUND"},
		{ErrorCode(-704).String(), "OBJECT_NOT_FOUND"},
		{ErrUnavailableInCurrentMode.String(), "UNAVAILABLE_IN_CURRENT_MODE"},
		{ErrorCode(5).String(), "ErrorCode(5)"},
		{ReplicaTypeAll.String(), "ALL"},
		{ReplicaTypeDfs.String(), "DFS"},
		{ReplicaStatusComplete.String(), "COMPLETE"},
		{ClientStatusNeedRemount.String(), "NEED_REMOUNT"},
		{SegmentStatusOK.String(), "OK"},
		{DataTypeOptimizerState.String(), "OPTIMIZER_STATE"},
		{ObjectDataType(99).String(), "ObjectDataType(99)"},
		{TaskTypeReplicaMove.String(), "REPLICA_MOVE"},
		{TaskStatusFailed.String(), "FAILED"},
		{SoftPinEnable.String(), "ENABLE"},
		{ProbeLeaseModeNone.String(), "None"},
		{WeightErrNotReady.String(), "NOT_READY"},
		{V12.String(), "12"},
		{V13.String(), "13"},
		{V14.String(), "14"},
		{Dialect(9).String(), "unknown"},
		{AllDialects.String(), "12 13 14"},
		{SetOf(V12, V14).String(), "12 14"},
		{SetOf(V12).Newest().String(), "12"},
		{SetOf(V12, V13).Newest().String(), "13"},
		{DialectSet(0).Newest().String(), "14"},
		{CallPutStart.String(), "PutStart"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestUUIDText(t *testing.T) {
	for _, u := range []UUID{{}, {1, 2}, {1<<64 - 1, 1<<64 - 1}} {
		got, err := ParseUUID(u.String())
		if err != nil || got != u || got.IsZero() != (u == UUID{}) {
			t.Errorf("%v read back as %v, %v", u, got, err)
		}
	}
	for _, s := range []string{"", "1", "-", "1-", "-2", "1-2-3", "a-1", "1-18446744073709551616", "0x1-2"} {
		if u, err := ParseUUID(s); err == nil {
			t.Errorf("%q is read as %v", s, u)
		}
	}
}
