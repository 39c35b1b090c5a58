package loop

import (
	"cmp"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Totals is what all runs have used whose outcome was printed. They outlive a
// scheduler, as the log does. A count that a harness did not give is missing in them.
type Totals struct {
	Since        wire.Time `json:"since"`
	Runs         int64     `json:"runs"`
	Succeeded    int64     `json:"succeeded"`
	InputTokens  int64     `json:"input_tokens"`
	OutputTokens int64     `json:"output_tokens"`
	TotalTokens  int64     `json:"total_tokens"`
	Seconds      float64   `json:"seconds"`
}

// loadTotals goes on with those of the last scheduler. Without its state they begin
// now.
func loadTotals(root state.Root, now time.Time) Totals {
	if s, err := ReadState(root); err == nil && !s.Totals.Since.IsZero() {
		return s.Totals
	}
	return Totals{Since: wire.At(now)}
}

// count adds a run that is over.
func (t *Totals) count(o *wire.Outcome) {
	t.Runs++
	if o.Outcome == wire.Succeeded {
		t.Succeeded++
	}
	t.Seconds += float64(o.DurationMS) / 1000
	t.use(o.Usage)
}

func (t *Totals) use(u *wire.Usage) {
	if u == nil {
		return
	}
	var none int64
	t.InputTokens += *cmp.Or(u.InputTokens, &none)
	t.OutputTokens += *cmp.Or(u.OutputTokens, &none)
	t.TotalTokens += *cmp.Or(u.TotalTokens, &none)
}

// live adds the runs under way to the totals of those that are over.
func (v *View) live(now time.Time) Totals {
	t := v.Totals
	for _, r := range v.Running {
		if r.Ended != "" { // its outcome is not counted yet, but its log tells all of it
			t.use(r.Usage)
			continue
		}
		if !r.StartedAt.IsZero() {
			t.Seconds += max(0, now.Sub(r.StartedAt.Time)).Seconds()
		}
		if r.Usage == nil {
			t.TotalTokens += r.Tokens
		}
		t.use(r.Usage)
	}
	return t
}
