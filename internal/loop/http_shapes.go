package loop

import (
	"encoding/json"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// The shapes of the answers are Symphony's, so that its clients can read them, with
// members of our own beside. Of ours, "blocked" is what is parked; times are as in
// all records, and a number that nobody knows is null.
type stateBody struct {
	GeneratedAt wire.Time `json:"generated_at"`
	Counts      struct {
		Running  int `json:"running"`
		Retrying int `json:"retrying"`
		Blocked  int `json:"blocked"`
		Skipped  int `json:"skipped"`
		Slots    int `json:"slots"`
	} `json:"counts"`
	Running    []runningBody      `json:"running"`
	Retrying   []retryBody        `json:"retrying"`
	Blocked    []blockedBody      `json:"blocked"`
	Skipped    []schedule.Skipped `json:"skipped"`
	Holds      []schedule.Hold    `json:"holds"`
	Totals     totalsBody         `json:"codex_totals"` // of all harnesses
	RateLimits json.RawMessage    `json:"rate_limits"`

	StartedAt wire.Time `json:"started_at"`
	NextPoll  wire.Time `json:"next_poll_at"`
	Paused    bool      `json:"paused"`
	Draining  bool      `json:"draining"`
	Closing   bool      `json:"closing"`
	Config    wire.Text `json:"config_error"`
	Tracker   wire.Text `json:"tracker_error"`
}

type totalsBody struct {
	Input   int64     `json:"input_tokens"`
	Output  int64     `json:"output_tokens"`
	Total   int64     `json:"total_tokens"`
	Seconds float64   `json:"seconds_running"`
	Runs    int64     `json:"runs"`
	Since   wire.Time `json:"since"`
}

type runningBody struct {
	IssueID       string     `json:"issue_id"`
	Identifier    string     `json:"issue_identifier"`
	Title         wire.Text  `json:"title"`
	State         wire.Text  `json:"state"`
	WorkerHost    wire.Text  `json:"worker_host"`
	WorkspacePath wire.Text  `json:"workspace_path"`
	SessionID     wire.Text  `json:"session_id"`
	RunID         wire.Text  `json:"run_id"`
	Harness       wire.Text  `json:"harness"`
	TurnCount     *int64     `json:"turn_count"`
	LastEvent     wire.Text  `json:"last_event"`
	LastMessage   wire.Text  `json:"last_message"`
	StartedAt     wire.Time  `json:"started_at"`
	LastEventAt   wire.Time  `json:"last_event_at"`
	Asking        bool       `json:"asking"`
	Stopping      wire.Text  `json:"stopping"`
	Tokens        tokensBody `json:"tokens"`
}

type tokensBody struct {
	Input  *int64 `json:"input_tokens"`
	Output *int64 `json:"output_tokens"`
	Total  *int64 `json:"total_tokens"`
}

type retryBody struct {
	IssueID       string    `json:"issue_id"`
	Identifier    string    `json:"issue_identifier"`
	Title         wire.Text `json:"title"`
	Attempt       *int64    `json:"attempt"`
	DueAt         wire.Time `json:"due_at"`
	Error         wire.Text `json:"error"`
	WorkerHost    wire.Text `json:"worker_host"`
	WorkspacePath wire.Text `json:"workspace_path"`
}

type blockedBody struct {
	IssueID       string    `json:"issue_id"`
	Identifier    string    `json:"issue_identifier"`
	Title         wire.Text `json:"title"`
	State         wire.Text `json:"state"`
	Error         wire.Text `json:"error"`
	WorkerHost    wire.Text `json:"worker_host"`
	WorkspacePath wire.Text `json:"workspace_path"`
	BlockedAt     wire.Time `json:"blocked_at"`
}

type issueBody struct {
	Identifier string    `json:"issue_identifier"`
	IssueID    string    `json:"issue_id"`
	Title      wire.Text `json:"title"`
	URL        wire.Text `json:"url"`
	Status     string    `json:"status"` // running, retrying, blocked or skipped
	Workspace  struct {
		Path string    `json:"path"`
		Host wire.Text `json:"host"`
	} `json:"workspace"`
	Attempts struct {
		Restarts int64 `json:"restart_count"`
		Current  int64 `json:"current_retry_attempt"`
		Runs     int64 `json:"runs"`
	} `json:"attempts"`
	Running *runningBody `json:"running"`
	Retry   *retryBody   `json:"retry"`
	Blocked *blockedBody `json:"blocked"`
	Logs    struct {
		Sessions []logBody `json:"codex_session_logs"`
	} `json:"logs"`
	RecentEvents []eventBody `json:"recent_events"`
	LastError    wire.Text   `json:"last_error"`
	Tracked      struct{}    `json:"tracked"`
}

type logBody struct {
	Label string    `json:"label"`
	Path  string    `json:"path"`
	URL   wire.Text `json:"url"`
}

type eventBody struct {
	At      wire.Time `json:"at"`
	Event   string    `json:"event"`
	Message wire.Text `json:"message"`
}

func stateOf(v *View, now time.Time) *stateBody {
	live := v.live(now)
	b := &stateBody{
		GeneratedAt: wire.At(now), StartedAt: v.StartedAt, NextPoll: v.NextPoll,
		Running: []runningBody{}, Retrying: []retryBody{}, Blocked: []blockedBody{}, Skipped: list(v.Skipped), Holds: list(v.Holds),
		Totals:     totalsBody{live.InputTokens, live.OutputTokens, live.TotalTokens, live.Seconds, live.Runs, live.Since},
		RateLimits: rateLimits(v),
		Paused:     v.Paused, Draining: v.Draining, Closing: v.Closing, Config: v.Config, Tracker: v.Tracker,
	}
	for i := range v.Running {
		b.Running = append(b.Running, runningOf(&v.Running[i], v))
	}
	for i := range v.Waiting {
		b.Retrying = append(b.Retrying, retryOf(&v.Waiting[i], v))
	}
	for i := range v.Parked {
		b.Blocked = append(b.Blocked, blockedOf(&v.Parked[i], v))
	}
	b.Counts.Running, b.Counts.Retrying, b.Counts.Blocked = len(b.Running), len(b.Retrying), len(b.Blocked)
	b.Counts.Skipped, b.Counts.Slots = len(b.Skipped), v.Slots
	return b
}

func runningOf(s *Seen, v *View) runningBody {
	b := runningBody{
		IssueID: s.IssueID, Identifier: s.Identifier, Title: s.Title, State: s.State,
		WorkspacePath: wire.Text(placeOf(&s.Entry, v)), SessionID: s.Session, RunID: s.RunID, Harness: s.Harness, TurnCount: s.Turn,
		LastEvent: s.LastEvent, LastMessage: s.LastMessage, StartedAt: s.StartedAt, LastEventAt: s.LastEventAt,
		Asking: s.Asking, Stopping: s.Reason,
	}
	if s.Tokens > 0 {
		b.Tokens.Total = wire.Count(s.Tokens)
	}
	if u := s.Usage; u != nil {
		b.Tokens = tokensBody{u.InputTokens, u.OutputTokens, u.TotalTokens}
	}
	return b
}

func retryOf(e *schedule.Entry, v *View) retryBody {
	return retryBody{
		IssueID: e.IssueID, Identifier: e.Identifier, Title: e.Title, Attempt: e.Attempt, DueAt: e.DueAt, Error: e.Reason,
		WorkspacePath: wire.Text(placeOf(e, v)),
	}
}

func blockedOf(e *schedule.Entry, v *View) blockedBody {
	return blockedBody{
		IssueID: e.IssueID, Identifier: e.Identifier, Title: e.Title, State: e.State, Error: e.Reason, BlockedAt: e.ParkedAt,
		WorkspacePath: wire.Text(placeOf(e, v)),
	}
}
