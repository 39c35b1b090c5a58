package session

import (
	"io"
	"time"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// Values of Config.Resume besides a session's id.
const (
	ResumeAuto  = "auto"  // the recorded session, if it fits
	ResumeNever = "never" // a fresh one
)

// Values of Conversation.ReusePolicy.
const (
	ReusePerIssue = "per_issue"
	ReuseNever    = "fresh_each_run"
)

// Config is what every session is given, whatever its harness.
type Config struct {
	Place   Place
	Emitter *Emitter
	Plan    Plan
	Limits  Limits
	Budget  Budget
	Route   *wire.Route
	Resume  string

	Approvals    approval.Policy
	ApprovalWait time.Duration // for an answer through the mailbox; 0: no limit
	Watch        watch.Options // of the mailbox; Warn is not used
	Deltas       bool
	Grace        time.Duration // for a polite stop

	Now   func() time.Time
	Slept func() time.Duration // see Suspension; nil: a suspend is not told
	Hurry <-chan struct{}      // closed: stop now
	Trace io.Writer            // nil: no trace of what passes between us and the peer
	Warn  func(format string, args ...any)
}
