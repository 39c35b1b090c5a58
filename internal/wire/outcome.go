package wire

import "ostoolkit/internal/cli"

// The outcomes of a run. Interrupted is never printed by a harness: it is given by
// whoever settles a run whose owner died.
const (
	Succeeded      = "succeeded"
	Failed         = "failed"
	InputRequired  = "input_required"
	Stalled        = "stalled"
	TimedOut       = "timed_out"
	BudgetExceeded = "budget_exceeded"
	Cancelled      = "cancelled"
	RateLimited    = "rate_limited"
	Interrupted    = "interrupted"
)

// The values of OutcomeError.Category.
const (
	CauseProvider      = "provider"
	CauseContextWindow = "context_window"
	CauseNoAnswer      = "no_answer"
	CausePeerDied      = "peer_died"
	CauseHookFailed    = "hook_failed"
	CausePrompt        = "prompt"
	CauseInternal      = "internal"
	CauseAuth          = "auth"
	CausePermission    = "permission"
	CauseNotFound      = "not_found"
	CauseUnavailable   = "unavailable"
	CauseProtocol      = "protocol"
	CauseConfig        = "config"
	CauseState         = "state"
	CauseBusy          = "busy"
	CauseSuperseded    = "superseded"
	CauseOperator      = "operator"
	CauseTracker       = "tracker"
	CauseShutdown      = "shutdown"
)

// Outcome is the last line of every session.
type Outcome struct {
	Time        Time          `json:"time"`
	RunID       string        `json:"run_id"`
	IssueID     Text          `json:"issue_id"`
	Identifier  Text          `json:"identifier"`
	Outcome     string        `json:"outcome"`
	Error       *OutcomeError `json:"error"`
	Session     Text          `json:"session"`
	Turns       int64         `json:"turns"`
	FinalText   Text          `json:"final_text"` // at most MaxFinalText; the whole is in the run folder
	FinishedBy  Text          `json:"finished_by"`
	Usage       *Usage        `json:"usage"`
	Model       Model         `json:"model"`
	DurationMS  int64         `json:"duration_ms"`
	Resumable   bool          `json:"resumable"`
	RetryAt     Time          `json:"retry_at"`
	Undelivered []string      `json:"undelivered"`
	Peer        *Peer         `json:"peer"`
	Workspace   *WorkspaceRef `json:"workspace"`
}

// MaxFinalText bounds Outcome.FinalText in bytes.
const MaxFinalText = 64 << 10

func (*Outcome) kind() string { return "outcome" }

// MarshalJSON implements json.Marshaler: undelivered is a list, never null.
func (o *Outcome) MarshalJSON() ([]byte, error) {
	type plain Outcome
	c := plain(*o)
	if c.Undelivered == nil {
		c.Undelivered = []string{}
	}
	return Encode(c)
}

// OutcomeError is the cause of an outcome.
type OutcomeError struct {
	Category string `json:"category"`
	Message  string `json:"message"`
	Detail   Text   `json:"detail"`
}

// Usage counts tokens; a count that the provider did not give is null.
type Usage struct {
	InputTokens       *int64 `json:"input_tokens"`
	CachedInputTokens *int64 `json:"cached_input_tokens"`
	OutputTokens      *int64 `json:"output_tokens"`
	ReasoningTokens   *int64 `json:"reasoning_tokens"`
	TotalTokens       *int64 `json:"total_tokens"`
}

// Model is the model that was asked for and the one that answered.
type Model struct {
	Requested Text `json:"requested"`
	Observed  Text `json:"observed"`
}

// Peer is the agent process or server behind a session.
type Peer struct {
	Name    Text  `json:"name"`
	Version Text  `json:"version"`
	Exit    *Exit `json:"exit"`
}

// Exit is how a process ended: a code or a signal, the other is null.
type Exit struct {
	Code   *int64 `json:"code"`
	Signal Text   `json:"signal"`
}

// WorkspaceRef says where a run worked.
type WorkspaceRef struct {
	Key      Text `json:"key"`
	Path     Text `json:"path"`
	StateDir Text `json:"state_dir"`
}

var outcomeStatus = map[string]int{
	Succeeded:      cli.StatusOK,
	Failed:         cli.StatusFailed,
	InputRequired:  cli.StatusInputRequired,
	Stalled:        cli.StatusStalled,
	TimedOut:       cli.StatusTimedOut,
	BudgetExceeded: cli.StatusBudgetExceeded,
	Cancelled:      cli.StatusCancelled,
	RateLimited:    cli.StatusTemporary,
	Interrupted:    cli.StatusFailed,
}

var categoryStatus = map[string]int{
	CauseAuth:        cli.StatusAuth,
	CausePermission:  cli.StatusAuth,
	CauseNotFound:    cli.StatusUnavailable,
	CauseUnavailable: cli.StatusUnavailable,
	CauseProtocol:    cli.StatusProtocol,
	CauseConfig:      cli.StatusConfig,
	CauseState:       cli.StatusState,
	CauseBusy:        cli.StatusTemporary,
	CauseSuperseded:  cli.StatusTemporary,
}

// ExitStatus returns the exit status of a command whose last word is o.
func (o *Outcome) ExitStatus() int {
	if o.Outcome == Failed && o.Error != nil {
		if s, ok := categoryStatus[o.Error.Category]; ok {
			return s
		}
	}
	if s, ok := outcomeStatus[o.Outcome]; ok {
		return s
	}
	return cli.StatusFailed
}

// Known reports whether o is one of the outcomes of the closed list.
func (o *Outcome) Known() bool {
	_, ok := outcomeStatus[o.Outcome]
	return ok
}
