package session

import (
	"time"
	"unicode/utf8"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Result is all that a harness knows at the end of a session.
type Result struct {
	End       *Ending
	Session   string
	Turns     int64
	FinalText string
	Usage     *wire.Usage
	Model     wire.Model
	Peer      *wire.Peer
	Resumable bool
	// Undelivered are the ids of the requests that nobody has read.
	Undelivered []string
	Started     time.Time
	Ended       time.Time
}

// Outcome makes the outcome record of r and, where the final text is too long for
// it, saves the whole text in the run folder. The record is good even with an
// error, which tells that the text could not be saved.
func (p Place) Outcome(r Result) (*wire.Outcome, error) {
	o := &wire.Outcome{
		Time:       wire.At(r.Ended),
		RunID:      p.RunID,
		IssueID:    issueID(p.Workspace),
		Identifier: identifier(p.Workspace),
		Outcome:    r.End.Outcome,
		Session:    wire.Text(r.Session),
		Turns:      r.Turns,
		FinalText:  wire.Text(head(r.FinalText, wire.MaxFinalText)),
		FinishedBy: wire.Text(r.End.FinishedBy),
		Usage:      r.Usage,
		Model:      r.Model,
		DurationMS: r.Ended.Sub(r.Started).Milliseconds(),
		Resumable:  r.Resumable,
		RetryAt:    wire.At(r.End.RetryAt),
		Peer:       r.Peer,

		Undelivered: r.Undelivered,
		Workspace:   p.Ref(),
	}
	if r.End.Category != "" {
		o.Error = &wire.OutcomeError{Category: r.End.Category, Message: r.End.Message, Detail: wire.Text(r.End.Detail)}
	}
	if len(r.FinalText) <= wire.MaxFinalText {
		return o, nil
	}
	return o, state.WriteFile(p.Run.FinalText(), []byte(r.FinalText))
}

// head returns at most n bytes of text, cut between two runes.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// DryRun prints what a session would do, and the outcome of one that did nothing.
func DryRun(place Place, em *Emitter, planned *wire.Session, now time.Time) (*wire.Outcome, error) {
	em.Emit(wire.EventSessionPlanned, planned, nil)
	out, err := place.Outcome(Result{
		End:     &Ending{Outcome: wire.Succeeded, FinishedBy: "dry_run"},
		Model:   wire.Model{Requested: planned.Model},
		Started: now,
		Ended:   now,
	})
	if err != nil {
		return nil, err
	}
	return out, em.Outcome(out)
}
