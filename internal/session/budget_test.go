package session

import (
	"math"
	"testing"

	"ostoolkit/internal/wire"
)

func TestBudget(t *testing.T) {
	const over = -1 // the run is at its end
	tests := []struct {
		name   string
		tokens int64
		used   []int64
		warned []int64 // the readings that bring a warning, or end the run
	}{
		{"no limit", 0, []int64{10, math.MaxInt64}, []int64{0, 0}},
		{"far from it", 100, []int64{1, 79}, []int64{0, 0}},
		{"warned once", 100, []int64{80, 81, 99}, []int64{1, 0, 0}},
		{"at the limit", 100, []int64{85, 100}, []int64{1, over}},
		{"past it at once", 100, []int64{400}, []int64{over}},
		{"as good as no limit", math.MaxInt64, []int64{1 << 60}, []int64{0}},
	}
	for _, tt := range tests {
		b := Budget{Tokens: tt.tokens}
		for i, used := range tt.used {
			warning, end := b.Spend(&wire.Usage{TotalTokens: wire.Count(used)})
			if (warning != "") != (tt.warned[i] == 1) || (end != nil) != (tt.warned[i] == over) {
				t.Errorf("%s: at %d: warning %q, ending %v", tt.name, used, warning, end)
			}
			if end != nil && end.Outcome != wire.BudgetExceeded {
				t.Errorf("%s: outcome %q", tt.name, end.Outcome)
			}
		}
	}
}

// What is not known is no 0, and no reason to end a run.
func TestBudgetOfUnknownUsage(t *testing.T) {
	b := Budget{Tokens: 1}
	for _, own := range []*wire.Usage{nil, {}, {InputTokens: wire.Count(9)}} {
		if warning, end := b.Spend(own); warning != "" || end != nil {
			t.Errorf("%+v: %q, %v", own, warning, end)
		}
	}
}

// A run on an old session has its whole budget, whatever the session has used.
func TestBudgetCountsTheRunsOwnShare(t *testing.T) {
	total := func(n int64) *wire.Usage { return &wire.Usage{TotalTokens: wire.Count(n)} }
	m, b := &Meter{}, &Budget{Tokens: 100}
	m.Resumed(total(1000))
	m.Update(total(1070), nil)
	if warning, end := b.Spend(m.Own()); warning != "" || end != nil {
		t.Errorf("at 70: %q, %v", warning, end)
	}
	m.Update(total(1100), nil)
	if _, end := b.Spend(m.Own()); end == nil {
		t.Error("not ended at 100")
	}
}
