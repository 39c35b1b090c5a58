package wire

import (
	"bytes"
	"encoding/json"
)

// Event is one step of a session. Members holds what only this kind of event has:
// one of the structs below, or raw JSON where the event was read.
type Event struct {
	Time       Time   `json:"time"`
	Seq        int64  `json:"seq"` // 1, 2, … without gaps in a run
	RunID      string `json:"run_id"`
	IssueID    Text   `json:"issue_id"`
	Identifier Text   `json:"identifier"`
	Session    Text   `json:"session"`
	Turn       Text   `json:"turn"`
	Event      string `json:"event"`
	Summary    string `json:"summary"` // at most MaxSummary characters, for people

	Members any             `json:"-"`
	Raw     json.RawMessage `json:"raw,omitempty"` // the peer's frame, with --raw
}

// MaxSummary bounds Event.Summary in characters.
const MaxSummary = 160

func (*Event) kind() string { return "event" }

// MarshalJSON implements json.Marshaler: the members follow the common ones in the
// same object.
func (e *Event) MarshalJSON() ([]byte, error) {
	return e.appendMembers([]byte("{"))
}

// UnmarshalJSON implements json.Unmarshaler. Members becomes the whole object as
// json.RawMessage; As reads it.
func (e *Event) UnmarshalJSON(b []byte) error {
	type plain Event
	if err := json.Unmarshal(b, (*plain)(e)); err != nil {
		return err
	}
	e.Members = json.RawMessage(bytes.Clone(b))
	return nil
}

// As reads the members of an event that came from a stream.
func (e *Event) As(members any) error {
	raw, ok := e.Members.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = Encode(e.Members); err != nil {
			return err
		}
	}
	return json.Unmarshal(raw, members)
}

// The names of events.
const (
	EventSessionPlanned    = "session.planned"
	EventSessionStarted    = "session.started"
	EventSessionResumed    = "session.resumed"
	EventContextLost       = "context.lost"
	EventTurnStarted       = "turn.started"
	EventTurnCompleted     = "turn.completed"
	EventMessage           = "message"
	EventMessageDelta      = "message.delta"
	EventReasoning         = "reasoning"
	EventPlan              = "plan"
	EventDiff              = "diff"
	EventCommandStarted    = "command.started"
	EventCommandOutput     = "command.output"
	EventCommandCompleted  = "command.completed"
	EventFileChanged       = "file.changed"
	EventToolCalled        = "tool.called"
	EventToolCompleted     = "tool.completed"
	EventUsage             = "usage"
	EventRateLimits        = "rate_limits"
	EventApprovalRequested = "approval.requested"
	EventApprovalResolved  = "approval.resolved"
	EventInputRequested    = "input.requested"
	EventInputResolved     = "input.resolved"
	EventSteerSent         = "steer.sent"
	EventSteerAccepted     = "steer.accepted"
	EventSteerConsumed     = "steer.consumed"
	EventSteerRefused      = "steer.refused"
	EventRetrying          = "retrying"
	EventWarning           = "warning"
	EventStalled           = "stalled"
	EventSuspended         = "suspended"
	EventFallback          = "fallback"
	EventPeer              = "peer"
)

// Session goes with session.* and context.lost.
type Session struct {
	Route          *Route `json:"route,omitempty"`
	Model          Text   `json:"model"`
	Effort         Text   `json:"effort"`
	Cwd            string `json:"cwd"`
	Sandbox        Text   `json:"sandbox"`
	ApprovalPolicy Text   `json:"approval_policy"`
	Peer           *Peer  `json:"peer"`
	PromptKind     Text   `json:"prompt_kind"` // full, continuation, rehydrate
	Reason         Text   `json:"reason"`
}

// Turn goes with turn.started and turn.completed.
type Turn struct {
	Number     int64  `json:"number"`
	Status     Text   `json:"status"` // completed, interrupted, failed; null while it runs
	DurationMS *int64 `json:"duration_ms"`
}

// Item goes with message, message.delta, reasoning, plan and diff.
type Item struct {
	Item Text   `json:"item"`
	Text string `json:"text"`
}

// Command goes with command.*.
type Command struct {
	Item     Text   `json:"item"`
	Command  Text   `json:"command"`
	Cwd      Text   `json:"cwd"`
	ExitCode *int64 `json:"exit_code"`
	Status   Text   `json:"status"`
	Output   Text   `json:"output"` // bounded
}

// FileChange goes with file.changed.
type FileChange struct {
	Item   Text     `json:"item"`
	Paths  []string `json:"paths"`
	Status Text     `json:"status"`
}

// Tool goes with tool.*.
type Tool struct {
	Item    Text   `json:"item"`
	Tool    string `json:"tool"`
	Source  string `json:"source"` // host, mcp, builtin
	Success *bool  `json:"success"`
}

// Tokens goes with usage.
type Tokens struct {
	Usage         *Usage `json:"usage"`       // this run's own
	UsageTotal    *Usage `json:"usage_total"` // the session's
	ContextWindow *int64 `json:"context_window"`
}

// Limits goes with rate_limits.
type Limits struct {
	Limits  json.RawMessage `json:"limits"` // as the peer gave them
	ResetAt Time            `json:"reset_at"`
}

// Approval is something that the agent asks leave for.
type Approval struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"` // command_execution, file_write, tool_use, permission
	Title   string `json:"title"`
	Command Text   `json:"command"`
	Cwd     Text   `json:"cwd"`
	Reason  Text   `json:"reason"`
	Risk    string `json:"risk"`   // low, medium, high, unknown
	Status  string `json:"status"` // pending, or the answer that was sent
}

// ApprovalChange goes with approval.*.
type ApprovalChange struct {
	Approval Approval `json:"approval"`
}

// InputRequest is a question of the agent or of one of its tools.
type InputRequest struct {
	ID        string          `json:"id"`
	Questions json.RawMessage `json:"questions"`
}

// InputChange goes with input.*.
type InputChange struct {
	Request InputRequest `json:"request"`
}

// Steer goes with steer.*.
type Steer struct {
	Request string `json:"request"`
	Kind    string `json:"kind"`
	Reason  Text   `json:"reason"`
}

// Notice goes with retrying, warning, stalled, suspended and fallback.
type Notice struct {
	Code    Text   `json:"code"`
	Message string `json:"message"`
	Attempt *int64 `json:"attempt"`
}

// PeerNotice goes with peer: a notification without a name here, unchanged.
type PeerNotice struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// Loop is one step of os-loop. Members that a step does not have are left out.
type Loop struct {
	Time       Time   `json:"time"`
	Event      string `json:"event"`
	IssueID    Text   `json:"issue_id"`
	Identifier Text   `json:"identifier"`
	RunID      Text   `json:"run_id"`
	Reason     Text   `json:"reason"`

	Attempt *int64          `json:"attempt,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	DueAt   Time            `json:"due_at,omitzero"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

func (*Loop) kind() string { return "loop" }
