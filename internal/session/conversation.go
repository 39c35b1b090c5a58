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
	Harness     string    `json:"harness"`
	SessionID   wire.Text `json:"session_id"`
	ServerURL   wire.Text `json:"server_url"`
	Contract    string    `json:"contract"`     // of the peer's protocol; another one is not resumed
	ReusePolicy string    `json:"reuse_policy"` // ReusePerIssue, ReuseNever
	IssueID     wire.Text `json:"issue_id"`
	Identifier  wire.Text `json:"identifier"`
	Cwd         string    `json:"cwd"`
	// PersistenceDir is where the peer keeps the session, as the peer names it.
	PersistenceDir wire.Text     `json:"persistence_dir"`
	Fresh          bool          `json:"fresh"`  // the newest run began this session
	Seeded         bool          `json:"seeded"` // the session has got the full prompt
	Prompt         *PromptRecord `json:"prompt"`
	LastEvent      *EventRecord  `json:"last_event"`
	// Usage are the totals of the session and of those that it stands in for, which are
	// Carried: the peer does not count them.
	Usage       *wire.Usage `json:"usage"`
	Carried     *wire.Usage `json:"carried"`
	UsageAt     wire.Time   `json:"usage_at"`    // when the peer counted last
	Status      string      `json:"status"`      // active, or the outcome of the last run
	PeerStatus  wire.Text   `json:"peer_status"` // the peer's newest word on the session
	ResetReason wire.Text   `json:"reset_reason"`
	// Replaces is the session that was lost and that this one stands in for.
	Replaces   wire.Text       `json:"replaces"`
	Route      *wire.Route     `json:"route"`
	Launch     *Launch         `json:"launch"`
	CreatedAt  wire.Time       `json:"created_at"`
	UpdatedAt  wire.Time       `json:"updated_at"`
	AttachedAt wire.Time       `json:"attached_at"`
	Extra      json.RawMessage `json:"extra,omitempty"` // the harness's own
}

// Launch tells what the newest run was made with, for people: another one is no reason
// to begin anew. Of secrets it has the names of the variables, never a value.
type Launch struct {
	Model        wire.Text `json:"model"`
	ModelKeyEnv  wire.Text `json:"model_key_env"`  // null where no key is given
	ServerKeyEnv wire.Text `json:"server_key_env"` // the same of the peer's own key
}

// PromptRecord tells of the newest prompt.
type PromptRecord struct {
	Kind string    `json:"kind"` // PromptFull, PromptContinuation, PromptRehydrate
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

// NewConversation returns that of a session which begins now: of a harness, with its
// contract and policy. reason says why no earlier one is gone on with.
func (l *Loop) NewConversation(harness, contract, policy, reason string) *Conversation {
	ws := l.cfg.Place.Workspace
	return &Conversation{
		Harness: harness, Contract: contract, ReusePolicy: policy,
		IssueID: issueID(ws), Identifier: identifier(ws), Cwd: ws.Path,
		Fresh: true, ResetReason: wire.Text(reason),
		CreatedAt: wire.At(l.cfg.Now()), Status: StatusActive,
	}
}

// ResumeConversation takes an earlier run's conversation over for this one.
func (l *Loop) ResumeConversation(c *Conversation) {
	c.Fresh, c.Identifier = false, identifier(l.cfg.Place.Workspace)
}

// SaveConversation writes c down with the session's newest event.
func (l *Loop) SaveConversation(c *Conversation) error {
	c.Note(l.em.Last())
	c.UpdatedAt = wire.At(l.cfg.Now())
	return c.Save(l.cfg.Place.State)
}

// Used is what the session and those that it stands in for have used so far, nil where
// that is not known.
func (c *Conversation) Used() *wire.Usage {
	if c.Usage == nil && !c.Seeded {
		return c.Carried
	}
	return c.Usage
}

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
	// A file of an earlier version names none.
	case c.Identifier != "" && c.Identifier != identifier(p.Workspace):
		return fmt.Sprintf("the session was recorded for %q", string(c.Identifier))
	}
	return ""
}
