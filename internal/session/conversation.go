package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Conversation is conversation.json: what the next run needs to go on with the
// session, and what people want to know of it.
type Conversation struct {
	Harness     string          `json:"harness"`
	SessionID   wire.Text       `json:"session_id"`
	ServerURL   wire.Text       `json:"server_url"`
	Contract    string          `json:"contract"`     // of the peer's protocol; another one is not resumed
	ReusePolicy string          `json:"reuse_policy"` // per_issue
	IssueID     wire.Text       `json:"issue_id"`
	Cwd         string          `json:"cwd"`
	Fresh       bool            `json:"fresh"`  // the newest run began this session
	Seeded      bool            `json:"seeded"` // the session has got the full prompt
	Prompt      *PromptRecord   `json:"prompt"`
	LastEvent   *EventRecord    `json:"last_event"`
	Usage       *wire.Usage     `json:"usage"`  // the session's totals
	Status      string          `json:"status"` // active, or the outcome of the last run
	ResetReason wire.Text       `json:"reset_reason"`
	Route       *wire.Route     `json:"route"`
	CreatedAt   wire.Time       `json:"created_at"`
	UpdatedAt   wire.Time       `json:"updated_at"`
	AttachedAt  wire.Time       `json:"attached_at"`
	Extra       json.RawMessage `json:"extra,omitempty"` // the harness's own
}

// PromptRecord tells of the newest prompt.
type PromptRecord struct {
	Kind string    `json:"kind"` // full, continuation
	At   wire.Time `json:"at"`
	Path string    `json:"path"`
}

// EventRecord tells of the newest event.
type EventRecord struct {
	ID      int64     `json:"id"`
	Kind    string    `json:"kind"`
	At      wire.Time `json:"at"`
	Summary string    `json:"summary"`
}

// StatusActive is the status of a conversation whose run has not ended.
const StatusActive = "active"

// Note puts ev into LastEvent.
func (c *Conversation) Note(ev *wire.Event) {
	if ev != nil {
		c.LastEvent = &EventRecord{ID: ev.Seq, Kind: ev.Event, At: ev.Time, Summary: ev.Summary}
	}
}

// LoadConversation reads the file of dir. None is nil without an error; one that is
// damaged is an error, and the caller may begin anew.
func LoadConversation(dir state.Dir) (*Conversation, error) {
	var c Conversation
	switch err := state.ReadJSON(dir.Conversation(), &c); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the conversation: %w", err)
	}
	return &c, nil
}

// Save writes the file of dir.
func (c *Conversation) Save(dir state.Dir) error {
	if err := state.WriteJSON(dir.Conversation(), c); err != nil {
		return fmt.Errorf("save the conversation: %w", err)
	}
	return nil
}

// Mismatch says why c cannot be gone on with by a run of this harness and contract
// in this place, or "" where it can.
func (c *Conversation) Mismatch(harness, contract string, p Place) string {
	switch {
	case c.SessionID == "":
		return "no session was recorded"
	case c.Harness != harness:
		return fmt.Sprintf("the session belongs to harness %q", c.Harness)
	case c.Contract != contract:
		return fmt.Sprintf("the session was recorded with contract %q", c.Contract)
	case c.Cwd != p.Workspace.Path:
		return fmt.Sprintf("the session worked in %q", c.Cwd)
	case c.IssueID != issueID(p.Workspace):
		return fmt.Sprintf("the session belongs to issue %q", string(c.IssueID))
	}
	return ""
}
