// Package session is what all harnesses share: where a session works (Place), its
// events and outcome on stdout and in the log (Emitter), how it ends (Ending), its
// clocks (Clocks), its token counts (Meter), the turns it makes (Plan), the mailbox
// through which it is steered (Inbox) and the file that lets a later run go on with it
// (Conversation).
//
// It does not know any agent's protocol, starts no agent and keeps no run.json:
// internal/codex and its siblings speak to the peers, internal/run owns runs.
//
// An Emitter may be used from several goroutines. Everything else belongs to the
// one goroutine that runs the session.
package session

import (
	"errors"
	"fmt"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Place is where one session works. Log is nil where stdout is the log already.
type Place struct {
	Workspace *wire.Workspace
	RunID     string
	Run       state.RunDir
	State     state.Dir
	Log       *state.Log
}

// Ref returns the outcome's word on where the run worked.
func (p Place) Ref() *wire.WorkspaceRef {
	return &wire.WorkspaceRef{
		Key:      wire.Text(p.Workspace.Key),
		Path:     wire.Text(p.Workspace.Path),
		StateDir: wire.Text(p.State),
	}
}

// Ending is how a session ends: one of the outcomes of the closed list and its
// cause. It travels as an error so that whatever is under way is given up.
type Ending struct {
	Outcome    string // wire.Succeeded, …
	Category   string // wire.Cause…; empty for a success
	Message    string
	Detail     string
	RetryAt    time.Time // of a rate limit
	FinishedBy string    // agent, max_turns, tracker, …
}

func (e *Ending) Error() string {
	if e.Message == "" {
		return e.Outcome
	}
	return e.Message
}

// Failf returns the ending of a failed session. Its category is one of wire.Cause….
func Failf(category, format string, args ...any) *Ending {
	return &Ending{Outcome: wire.Failed, Category: category, Message: fmt.Sprintf(format, args...)}
}

// Cancelled returns the ending of a session that was stopped from outside.
func Cancelled(category, message string) *Ending {
	return &Ending{Outcome: wire.Cancelled, Category: category, Message: message, FinishedBy: category}
}

// EndingOf returns err as an Ending: an error that is none is an internal failure,
// nil is nil.
func EndingOf(err error) *Ending {
	if err == nil {
		return nil
	}
	var end *Ending
	if errors.As(err, &end) {
		return end
	}
	return Failf(wire.CauseInternal, "%v", err)
}

// Silent reports whether no outcome line may be printed for this ending: the run
// belongs to somebody else.
func (e *Ending) Silent() bool {
	return e.Outcome == wire.Failed && (e.Category == wire.CauseBusy || e.Category == wire.CauseSuperseded)
}
