package mailbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Active is the content of active.json: the turn that runs and who runs it.
type Active struct {
	RunID    string    `json:"run_id"`
	Session  wire.Text `json:"session"`
	Thread   wire.Text `json:"thread"`
	Turn     wire.Text `json:"turn"`
	PID      int       `json:"pid"`
	PIDStart string    `json:"pid_start"` // as proc.Process has it
	Harness  string    `json:"harness"`
	Mailbox  string    `json:"mailbox"` // the folder
	Since    wire.Time `json:"since"`   // of the turn
}

// activeMembers are the members of active.json.
var activeMembers = []string{"run_id", "session", "thread", "turn", "pid", "pid_start", "harness", "mailbox", "since"}

// ofTurn reports whether a member of active.json tells of the turn. Nobody can know
// its value before the turn is there, so that without a turn it is a past one's; the
// other members may still become what a target says.
func ofTurn(member string) bool { return member == "turn" || member == "since" }

// SetActive says that a turn runs.
func (b *Box) SetActive(a Active) error {
	line, err := wire.Encode(a)
	if err != nil {
		return fmt.Errorf("encode active turn: %v", err)
	}
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		return fmt.Errorf("encode active turn: %v", err)
	}
	for name, value := range members {
		if value != nil && value != "" {
			b.known[name] = value
		}
	}
	return state.WriteVolatile(filepath.Join(b.dir, activeName), a)
}

// ClearActive says that no turn runs.
func (b *Box) ClearActive() error {
	for name := range b.known {
		if ofTurn(name) {
			delete(b.known, name)
		}
	}
	if err := remove(filepath.Join(b.dir, activeName)); err != nil {
		return fmt.Errorf("remove active turn: %w", err)
	}
	return nil
}

// ReadActive returns the turn that runs, or nil where none does: a file whose process
// has died does not count.
func ReadActive(dir string) (*Active, error) {
	var a Active
	err := state.ReadJSON(filepath.Join(dir, activeName), &a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read active turn: %w", err)
	}
	if !proc.Alive(a.PID, a.PIDStart) {
		return nil, nil
	}
	return &a, nil
}

// Approval is the content of <id>.approval.json: what the agent waits to be told.
// Request is that id, and what a request of kind approve, decline, cancel or answer
// names.
type Approval struct {
	Request   string          `json:"request"`
	Approval  *wire.Approval  `json:"approval,omitempty"`  // leave for something, or
	Questions json.RawMessage `json:"questions,omitempty"` // questions
	Turn      wire.Text       `json:"turn"`
	At        wire.Time       `json:"at"`
}

// WriteApproval shows that the agent waits for an answer.
func (b *Box) WriteApproval(a Approval) error {
	if !validID(a.Request) {
		return fmt.Errorf("write approval: id %q is not 1 to %d of A-Z a-z 0-9 _ -", a.Request, maxID)
	}
	return state.WriteVolatile(b.path(a.Request, approvalSuffix), a)
}

// RemoveApproval shows that it waits no longer.
func (b *Box) RemoveApproval(request string) error {
	if err := remove(b.path(request, approvalSuffix)); err != nil {
		return fmt.Errorf("remove approval: %w", err)
	}
	return nil
}
