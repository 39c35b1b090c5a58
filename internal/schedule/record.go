package schedule

import "ostoolkit/internal/wire"

// Record is schedule.json: what must be known of an issue after a restart. A run
// under way is not in it, since its lock tells of it.
type Record struct {
	// Attempt is what the run under way or the next one carries; nil for the first.
	Attempt *int64    `json:"attempt"`
	Streak  int       `json:"streak"` // ends in a row that called for a back-off
	DueAt   wire.Time `json:"due_at"` // when it may run again; null if it does not wait
	Reason  wire.Text `json:"reason"` // why it waits: continuation, an outcome or a category
	// RunID is the last run whose end was counted, so that none is counted twice.
	RunID wire.Text `json:"run_id"`
	// Stopping is why the run under way was told to stop; null if it was not. Its end
	// must mean the same after a restart.
	Stopping     wire.Text `json:"stopping"`
	Lifetime     Lifetime  `json:"lifetime"`
	Forgiven     Lifetime  `json:"forgiven"`     // what no budget counts any more
	Fingerprints []string  `json:"fingerprints"` // of the last runs, the newest last
	Parked       *Parked   `json:"parked"`
}

// Lifetime is what an issue has used in all its runs.
type Lifetime struct {
	Runs    int64 `json:"runs"` // counted before they start
	Tokens  int64 `json:"tokens"`
	Seconds int64 `json:"seconds"`
}

// Parked says why an issue is left alone until it changes.
type Parked struct {
	Reason string    `json:"reason"`
	At     wire.Time `json:"at"`
	// Mark is the look at the first reading after it was parked; "" until
	// then. A change that the run itself made must not count.
	Mark wire.Text `json:"mark"`
}

// copy returns a Record that shares nothing with r.
func (r Record) copy() Record {
	if r.Attempt != nil {
		r.Attempt = wire.Count(*r.Attempt)
	}
	if r.Parked != nil {
		p := *r.Parked
		r.Parked = &p
	}
	r.Fingerprints = append([]string{}, r.Fingerprints...) // a list in JSON, never null
	return r
}

// blank reports whether there is nothing worth a file.
func (r Record) blank() bool {
	return r.Attempt == nil && r.Lifetime == Lifetime{} && r.RunID == "" && r.DueAt.IsZero() && r.Parked == nil
}
