package main

import (
	"fmt"
	"io"
	"time"
)

// row is one line of the table. A row without a goal has no verdict.
type row struct{ name, measured, reference, ratio, goal, verdict string }

var heading = row{"MEASURE", "MEASURED", "REFERENCE", "RATIO", "GOAL", "VERDICT"}

func printRows(w io.Writer, rows ...row) error {
	for _, r := range rows {
		_, err := fmt.Fprintf(w, "%-38s %12s  %-30s %8s  %-14s %s\n", r.name, r.measured, r.reference, r.ratio, r.goal, r.verdict)
		if err != nil {
			return err
		}
	}
	return nil
}

// within adds a goal and whether it is met.
func (r row) within(goal string, met bool) row {
	r.goal, r.verdict = goal, "over"
	if met {
		r.verdict = "ok"
	}
	return r
}

// skipped is a row of what cannot be measured here, and why.
func skipped(name, why string) row { return row{name: name, reference: why, verdict: "skipped"} }

// compared is a row of two times and their ratio.
func compared(name string, measured, reference time.Duration, of string) row {
	return row{
		name:      name,
		measured:  short(measured),
		reference: short(reference) + " " + of,
		ratio:     fmt.Sprintf("%.2fx", ratio(measured, reference)),
	}
}

// ratio is 0 where there is nothing to compare with.
func ratio[N ~int64](a, b N) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// short writes a time with three digits that count.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d >= time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
}
