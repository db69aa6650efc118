package metrics

import "testing"

// TestPromotions has each count under its name.
func TestPromotions(t *testing.T) {
	src := &fakeSource{stats: Stats{Promoting: 10, Promotions: Promotions{
		Admitted: 1, Completed: 2, CompletedBytes: 3, Failed: 4, Cancelled: 5, Expired: 6,
		RejectedFrequency: 7, RejectedWatermark: 8, RejectedCap: 9,
	}}}
	got := samples(t, render(t, NewRegistry(src, NewCalls(), Build{})))
	for name, want := range map[string]string{
		"admitted_total": "1", "completed_total": "2", "completed_bytes_total": "3", "failed_total": "4", "cancelled_total": "5",
		"expired_total": "6", "rejected_frequency_total": "7", "rejected_watermark_total": "8", "rejected_cap_total": "9", "in_flight": "10",
	} {
		if got["master_promotion_"+name] != want {
			t.Errorf("%s is %q, want %s", name, got["master_promotion_"+name], want)
		}
	}
}
