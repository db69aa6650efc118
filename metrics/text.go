package metrics

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// writeText renders families as version 0.0.4 of the text format. The library's own encoder would print 67108864 as
// 6.7108864e+07; scripts that read the published masters' metrics expect whole numbers, and bounds with six decimals.
func writeText(w io.Writer, families []*dto.MetricFamily) error {
	b := bufio.NewWriter(w)
	for _, f := range families {
		t := typeText(f.GetType())
		b.WriteString("# HELP " + f.GetName() + " " + escapeHelp.Replace(f.GetHelp()) + "\n")
		b.WriteString("# TYPE " + f.GetName() + " " + t + "\n")
		for _, m := range f.GetMetric() {
			writeMetric(b, f.GetName(), f.GetType(), m)
		}
	}
	return b.Flush() // which keeps the first error of all writes before it
}

func typeText(t dto.MetricType) string { return strings.ToLower(t.String()) }

func writeMetric(b *bufio.Writer, name string, t dto.MetricType, m *dto.Metric) {
	labels := labelsText(m.GetLabel())
	switch t {
	case dto.MetricType_COUNTER:
		writeSample(b, name, labels, m.GetCounter().GetValue())
	case dto.MetricType_HISTOGRAM:
		h := m.GetHistogram()
		for _, bucket := range h.GetBucket() {
			bound := strconv.FormatFloat(bucket.GetUpperBound(), 'f', 6, 64)
			writeSample(b, name+"_bucket", labels+",le=\""+bound+"\"", float64(bucket.GetCumulativeCount()))
		}
		writeSample(b, name+"_bucket", labels+",le=\"+Inf\"", float64(h.GetSampleCount()))
		writeSample(b, name+"_sum", labels, h.GetSampleSum())
		writeSample(b, name+"_count", labels, float64(h.GetSampleCount()))
	case dto.MetricType_SUMMARY:
		for _, q := range m.GetSummary().GetQuantile() {
			writeSample(b, name, labels+",quantile=\""+strconv.FormatFloat(q.GetQuantile(), 'g', -1, 64)+"\"", q.GetValue())
		}
		writeSample(b, name+"_sum", labels, m.GetSummary().GetSampleSum())
		writeSample(b, name+"_count", labels, float64(m.GetSummary().GetSampleCount()))
	default:
		writeSample(b, name, labels, m.GetGauge().GetValue())
	}
}

// writeSample takes labels as a list with a comma before each.
func writeSample(b *bufio.Writer, name, labels string, value float64) {
	b.WriteString(name)
	if labels != "" {
		b.WriteByte('{')
		b.WriteString(labels[1:])
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.WriteString(valueText(value))
	b.WriteByte('\n')
}

func valueText(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<63 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func labelsText(pairs []*dto.LabelPair) string {
	var b strings.Builder
	for _, p := range pairs {
		b.WriteString("," + p.GetName() + "=\"" + escapeLabel.Replace(p.GetValue()) + "\"")
	}
	return b.String()
}

var (
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// labelText makes a label value of bytes that a client chose: the format wants UTF-8, and a lone byte that is none
// would spoil the whole scrape.
func labelText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
