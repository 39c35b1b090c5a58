package rehearse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// settings are what a thread was opened with.
type settings struct {
	ID             string          `json:"id"`
	CreatedAt      int64           `json:"created_at"`
	Cwd            string          `json:"cwd"`
	Model          string          `json:"model"`
	ApprovalPolicy json.RawMessage `json:"approval_policy"`
	Sandbox        sandbox         `json:"sandbox"`
	Tools          []tool          `json:"tools"`
}

// thread is one conversation. Its rollout is a file of records, appended as things
// happen and locked as long as this process has the thread.
type thread struct {
	settings
	rollout *os.File
	turns   []turnFrame // ended and running, with all items
	total   tokens
	last    tokens
	active  *turn // nil between turns
}

// record is one line of a rollout. For the settings, for a turn and for the usage
// the last record counts.
type record struct {
	Type   string          `json:"type"`
	Thread *settings       `json:"thread,omitempty"`
	Turn   *turnFrame      `json:"turn,omitempty"` // without its items
	TurnID string          `json:"turn_id,omitempty"`
	Item   json.RawMessage `json:"item,omitempty"`
	Total  *tokens         `json:"total,omitempty"`
	Last   *tokens         `json:"last,omitempty"`
}

const (
	recordThread = "thread"
	recordTurn   = "turn"
	recordItem   = "item"
	recordUsage  = "usage"
)

// errBusy says that another process has the thread.
var errBusy = errors.New("the rollout is locked")

func rolloutPath(home, id string) string { return filepath.Join(home, id+".jsonl") }

func createThread(home string, set settings) (*thread, error) {
	t := &thread{settings: set}
	var err error
	if t.rollout, err = lockRollout(rolloutPath(home, set.ID), os.O_CREATE|os.O_EXCL); err != nil {
		return nil, err
	}
	if err := t.append(record{Type: recordThread, Thread: &t.settings}); err != nil {
		return nil, errors.Join(err, t.rollout.Close())
	}
	return t, nil
}

// openThread reads a thread back. A turn that has no end was cut off with its
// server, and counts as interrupted.
func openThread(home, id string) (*thread, error) {
	f, err := lockRollout(rolloutPath(home, id), 0)
	if err != nil {
		return nil, err
	}
	t := &thread{rollout: f}
	if err := t.replay(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if t.ID != id {
		return nil, errors.Join(fmt.Errorf("rollout %q is of thread %q", f.Name(), t.ID), f.Close())
	}
	for i := range t.turns {
		if t.turns[i].Status == "inProgress" {
			t.turns[i].Status = "interrupted"
		}
	}
	return t, nil
}

func lockRollout(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the rollout: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errBusy, f.Close())
	}
	return f, nil
}

// replay reads the rollout. A line that is torn, since its writer was killed, is
// passed over; append begins a new one after it.
func (t *thread) replay(r io.Reader) error {
	lines := wire.NewReader(r, maxFrame)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the rollout: %v", err)
		}
		var rec record
		if json.Unmarshal(line.Bytes, &rec) == nil {
			t.apply(rec)
		}
	}
}

func (t *thread) apply(rec record) {
	switch {
	case rec.Type == recordThread && rec.Thread != nil:
		t.settings = *rec.Thread
	case rec.Type == recordTurn && rec.Turn != nil:
		if have := t.turn(rec.Turn.ID); have != nil {
			items := have.Items
			*have = *rec.Turn
			have.Items = items
		} else {
			t.turns = append(t.turns, *rec.Turn)
		}
	case rec.Type == recordItem:
		if have := t.turn(rec.TurnID); have != nil {
			have.Items = append(have.Items, rec.Item)
		}
	case rec.Type == recordUsage && rec.Total != nil && rec.Last != nil:
		t.total, t.last = *rec.Total, *rec.Last
	}
}

func (t *thread) turn(id string) *turnFrame {
	for i := range t.turns {
		if t.turns[i].ID == id {
			return &t.turns[i]
		}
	}
	return nil
}

// append writes one record as a whole line. The leading newline ends a torn line of
// an earlier process; readers pass over the blank ones.
func (t *thread) append(rec record) error {
	line, err := wire.Encode(rec)
	if err != nil {
		return err
	}
	if _, err := t.rollout.Write(bytes.Join([][]byte{{'\n'}, line, {'\n'}}, nil)); err != nil {
		return fmt.Errorf("write the rollout: %v", err)
	}
	return nil
}

// save keeps a record in memory and in the rollout. A rehearsal goes on without its
// rollout, since only a later resume needs it.
func (s *server) save(t *thread, rec record) {
	t.apply(rec)
	if err := t.append(rec); err != nil {
		s.env.Warnf("thread %s: %v", t.ID, err)
	}
}

func (t *thread) frame(turns bool) threadFrame {
	f := threadFrame{
		ID: t.ID, SessionID: t.ID, Preview: t.preview(),
		ModelProvider: "rehearsal", Model: t.Model,
		CreatedAt: t.CreatedAt, UpdatedAt: t.updatedAt(), Status: state{Type: "idle"},
		Path: t.rollout.Name(), Cwd: t.Cwd, CLIVersion: cli.Version(), Source: "vscode", Turns: []turnFrame{},
	}
	if t.active != nil {
		f.Status = active()
	}
	if !turns {
		return f
	}
	for _, turn := range t.turns {
		turn.ItemsView = "full"
		if turn.Items == nil {
			turn.Items = []json.RawMessage{}
		}
		f.Turns = append(f.Turns, turn)
	}
	return f
}

func (t *thread) opened(turns bool) opened {
	return opened{
		Thread: t.frame(turns), Model: t.Model, ModelProvider: "rehearsal", Cwd: t.Cwd,
		ApprovalPolicy: t.ApprovalPolicy, ApprovalsReviewer: "user", Sandbox: t.Sandbox,
	}
}

func (t *thread) updatedAt() int64 {
	at := t.CreatedAt
	for _, turn := range t.turns {
		if turn.CompletedAt != nil {
			at = *turn.CompletedAt
		}
	}
	return at
}

// preview is the first text of the user.
func (t *thread) preview() string {
	if len(t.turns) == 0 || len(t.turns[0].Items) == 0 {
		return ""
	}
	var m userMessage
	if json.Unmarshal(t.turns[0].Items[0], &m) != nil || m.Type != "userMessage" || len(m.Content) == 0 {
		return ""
	}
	return m.Content[0].Text
}
