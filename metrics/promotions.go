package metrics

// Promotions counts objects that clients were asked to bring back from disk into memory, and those they were not.
type Promotions struct {
	Admitted, Completed, CompletedBytes, Failed, Cancelled, Expired uint64
	RejectedFrequency, RejectedWatermark, RejectedCap               uint64
}

var promotionRows = []row{
	{"master_promotion_admitted_total", counter, "Objects that clients were asked to bring back from disk.", func(s *snapshot) uint64 { return s.Promotions.Admitted }},
	{"master_promotion_completed_total", counter, "Objects that clients brought back from disk.", func(s *snapshot) uint64 { return s.Promotions.Completed }},
	{"master_promotion_completed_bytes_total", counter, "Bytes of the objects that clients brought back from disk.", func(s *snapshot) uint64 { return s.Promotions.CompletedBytes }},
	{"master_promotion_failed_total", counter, "Objects that clients could not bring back.", func(s *snapshot) uint64 { return s.Promotions.Failed }},
	{"master_promotion_cancelled_total", counter, "Objects that were removed or written, or whose client went, before they were brought back.", func(s *snapshot) uint64 { return s.Promotions.Cancelled }},
	{"master_promotion_expired_total", counter, "Objects of which clients did not say in time that they brought them back.", func(s *snapshot) uint64 { return s.Promotions.Expired }},
	{"master_promotion_rejected_frequency_total", counter, "Reads from disk that were too few to bring the object back.", func(s *snapshot) uint64 { return s.Promotions.RejectedFrequency }},
	{"master_promotion_rejected_watermark_total", counter, "Objects read often enough that were not brought back because memory would have been above the watermark.", func(s *snapshot) uint64 { return s.Promotions.RejectedWatermark }},
	{"master_promotion_rejected_cap_total", counter, "Objects read often enough that were not brought back because too many were on their way.", func(s *snapshot) uint64 { return s.Promotions.RejectedCap }},
}
