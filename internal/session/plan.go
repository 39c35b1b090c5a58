package session

import (
	"context"
	"errors"

	"ostoolkit/internal/wire"
)

// The kinds of prompts.
const (
	PromptFull         = "full"
	PromptContinuation = "continuation"
	PromptRehydrate    = "rehydrate" // full, with what is known of a session that was lost
)

// Values of Ending.FinishedBy for a success.
const (
	FinishedByAgent    = "agent"     // the turn completed and nothing calls for another
	FinishedByMaxTurns = "max_turns" // the work may go on in another run
	FinishedByTracker  = "tracker"   // the issue is no longer active
)

// Prompt is the text of one turn.
type Prompt struct {
	Kind string // PromptFull, PromptContinuation, PromptRehydrate
	Text string
	Turn int // from 1
	// Letter is the request that Text came with, nil where it is the plan's own.
	Letter *Letter
}

// Plan says which turns a run makes.
type Plan struct {
	MaxTurns int
	// Full makes the text of the first turn of a session, and of a session that never
	// got it.
	Full string
	// Given says that Full was written for this very run: its first turn gets it even
	// in a session that goes on.
	Given bool
	// Rehydrated is the text of the first turn of a session that stands in for one that
	// was lost; "": it stands in for none.
	Rehydrated string
	// Continue is the text of all other turns.
	Continue string
	// Again asks for MaxTurns turns where there is no Recheck to end them earlier.
	Again bool
	// Recheck reads the issue again between turns; nil and no error mean that it is
	// gone. A nil Recheck is never called. An error keeps the session going.
	Recheck func(context.Context) (*wire.Issue, error)
	// Warn hears of a Recheck that did not work.
	Warn func(err error)
	// Queued returns the next text that somebody has sent to start a turn, or nil. A
	// nil Queued is never called.
	Queued func() *Letter
}

// Run makes turns until one fails, the issue needs no more, or the limit is reached.
// A turn's own result counts before the limit does. Queued texts come before the
// plan's own and do not count towards the limit: each was asked for by somebody who
// watches. A turn that is made again in another session counts once: that is turn's own
// business. seeded says that the session has the full prompt already.
func (p *Plan) Run(ctx context.Context, seeded bool, turn func(Prompt) error) *Ending {
	prompt, own := p.First(seeded), 1
	for n := 2; ; n++ {
		if err := turn(prompt); err != nil {
			return EndingOf(err)
		}
		l := p.queued()
		if l == nil {
			end := p.after(ctx, own)
			if end != nil && end.Outcome != wire.Succeeded {
				return end
			}
			// Reading the issue takes its time, in which a text may have come.
			if l = p.queued(); l == nil && end != nil {
				return end
			}
		}
		if l != nil {
			prompt = Prompt{PromptContinuation, l.Request.Text, n, l}
			continue
		}
		prompt = Prompt{PromptContinuation, p.Continue, n, nil}
		own++
	}
}

func (p *Plan) queued() *Letter {
	if p.Queued == nil {
		return nil
	}
	return p.Queued()
}

// First is the prompt of the first turn.
func (p *Plan) First(seeded bool) Prompt {
	if p.Rehydrated != "" {
		return Prompt{PromptRehydrate, p.Rehydrated, 1, nil}
	}
	if seeded && !p.Given {
		return Prompt{PromptContinuation, p.Continue, 1, nil}
	}
	return Prompt{PromptFull, p.Full, 1, nil}
}

// after decides whether the plan's own turn n was the last one.
func (p *Plan) after(ctx context.Context, n int) *Ending {
	done := func(by string) *Ending { return &Ending{Outcome: wire.Succeeded, FinishedBy: by} }
	switch {
	case p.Recheck == nil && !p.Again:
		return done(FinishedByAgent)
	case n >= p.MaxTurns:
		return done(FinishedByMaxTurns)
	case p.Recheck == nil:
		return nil
	}
	issue, err := p.Recheck(ctx)
	var end *Ending
	if errors.As(err, &end) {
		return end
	}
	switch {
	case err != nil:
		p.Warn(err)
	case issue == nil || issue.Category != wire.CategoryActive:
		return done(FinishedByTracker)
	}
	return nil
}
