package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"ostoolkit/internal/wire"
)

// silence is the answer of a command that printed nothing: a session without any
// answer would count as failed, which a quiet script does not deserve.
const silence = "the command printed nothing"

// turn is a turn that runs. The loop owns it; its runner has only the job.
type turn struct {
	turnFrame
	thread      *thread
	began       time.Time
	stop        context.CancelFunc // ends the command
	interrupted bool
	command     *commandExecution
	steerFile   string
	wordsIn     int64
}

// The params of notifications.
type (
	turnResult struct {
		Turn turnFrame `json:"turn"`
	}
	statusParams struct {
		ThreadID string `json:"threadId"`
		Status   state  `json:"status"`
	}
	turnNote struct {
		ThreadID string    `json:"threadId"`
		Turn     turnFrame `json:"turn"`
	}
	itemNote struct {
		Item          item   `json:"item"`
		ThreadID      string `json:"threadId"`
		TurnID        string `json:"turnId"`
		StartedAtMs   *int64 `json:"startedAtMs,omitempty"`
		CompletedAtMs *int64 `json:"completedAtMs,omitempty"`
	}
	deltaParams struct {
		ThreadID string `json:"threadId"`
		TurnID   string `json:"turnId"`
		ItemID   string `json:"itemId"`
		Delta    string `json:"delta"`
	}
	usageParams struct {
		ThreadID   string     `json:"threadId"`
		TurnID     string     `json:"turnId"`
		TokenUsage usageFrame `json:"tokenUsage"`
	}
	errorParams struct {
		Error     *turnError `json:"error"`
		WillRetry bool       `json:"willRetry"`
		ThreadID  string     `json:"threadId"`
		TurnID    string     `json:"turnId"`
	}
)

// begin answers turn/start, tells of the turn and starts its runner.
func (s *server) begin(id json.RawMessage, t *thread, p *turnParams) {
	now := s.env.Now()
	tn := &turn{thread: t, began: now}
	tn.turnFrame = turnFrame{ID: s.newID(), Status: "inProgress", ItemsView: "notLoaded"}
	tn.RootTurnID = tn.ID
	t.active = tn
	s.reply(id, turnResult{tn.frame(nil, "notLoaded")})

	started := now.Unix()
	tn.StartedAt = &started
	s.save(t, record{Type: recordTurn, Turn: &tn.turnFrame})
	s.notify("thread/status/changed", statusParams{t.ID, active()})
	s.notify("turn/started", turnNote{t.ID, tn.frame(nil, "notLoaded")})
	s.say(tn, p)
	s.work(tn, p.text())
}

// work starts the runner of a turn; a turn that cannot begin fails at once.
func (s *server) work(tn *turn, prompt string) {
	ctx, cancel := context.WithCancel(s.ctx)
	tn.stop = cancel
	tn.command = &commandExecution{
		Type: "commandExecution", ID: "call_" + s.newID(), Command: s.command, Cwd: tn.thread.Cwd,
		Source: "agent", Status: "inProgress", CommandActions: []action{{"unknown", s.command}},
	}
	s.itemStarted(tn, tn.command)
	job, err := s.newJob(tn, prompt)
	if err != nil {
		cancel()
		s.finish(tn, exited{turn: tn, err: err})
		return
	}
	tn.steerFile = job.steerFile
	s.runners.Go(func() {
		defer cancel()
		job.run(ctx, s.ctx)
	})
}

// steer appends the text to the steer file of the command and shows it as said.
func (s *server) steer(tn *turn, p *turnParams) {
	if err := appendLine(tn.steerFile, p.text()); err != nil {
		s.env.Warnf("steer turn %s: %v", tn.ID, err)
		return
	}
	s.say(tn, p)
}

func appendLine(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text + "\n"); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// say shows a text of the user as an item. An empty one is none.
func (s *server) say(tn *turn, p *turnParams) {
	text := p.text()
	if text == "" {
		return
	}
	tn.wordsIn += int64(len(strings.Fields(text)))
	m := &userMessage{
		Type: "userMessage", ID: s.newID(), ClientID: p.ClientUserMessageID,
		Content: []input{{Type: "text", Text: text, TextElements: []string{}}},
	}
	s.itemStarted(tn, m)
	s.itemCompleted(tn, m)
}

func (s *server) itemStarted(tn *turn, it item) {
	it.times().StartedAtMs = s.env.Now().UnixMilli()
	s.notify("item/started", itemNote{Item: it, ThreadID: tn.thread.ID, TurnID: tn.ID, StartedAtMs: &it.times().StartedAtMs})
}

// itemCompleted also keeps the item for a later resume.
func (s *server) itemCompleted(tn *turn, it item) {
	now := s.env.Now().UnixMilli()
	it.times().CompletedAtMs = &now
	s.notify("item/completed", itemNote{Item: it, ThreadID: tn.thread.ID, TurnID: tn.ID, CompletedAtMs: &now})
	if raw, err := wire.Encode(it); err == nil {
		s.save(tn.thread, record{Type: recordItem, TurnID: tn.ID, Item: raw})
	}
}

func (s *server) delta(method string, tn *turn, itemID, text string) {
	s.notify(method, deltaParams{tn.thread.ID, tn.ID, itemID, text})
}

// wrote is output of a turn's command.
type wrote struct {
	turn *turn
	text string
}

func (w wrote) apply(s *server) {
	s.delta("item/commandExecution/outputDelta", w.turn, w.turn.command.ID, w.text)
}

// exited is the end of a turn's command.
type exited struct {
	turn     *turn
	err      error  // it could not be started
	status   int    // its exit status, 128+n for a signal
	exit     string // the same in words
	output   string // the beginning of all output
	answer   string // the last line of stdout
	reason   string // the last line of stderr
	wordsOut int64  // of stdout
}

func (e exited) apply(s *server) { s.finish(e.turn, e) }

// finish ends a turn in the order of the real server.
func (s *server) finish(tn *turn, e exited) {
	tn.thread.active = nil
	s.dropCalls(tn)
	var items []json.RawMessage
	status := state{Type: "idle"}
	switch {
	case tn.interrupted:
		// As measured: the item of a command that was interrupted stays open.
		tn.Status = "interrupted"
	case e.err != nil || e.status != 0:
		tn.Status, tn.Error = "failed", e.failure()
		status = state{Type: "systemError"}
		s.commandCompleted(tn, e)
	default:
		tn.Status = "completed"
		s.commandCompleted(tn, e)
		items = s.answer(tn, e.answer)
	}
	s.count(tn, e.wordsOut)
	s.notify("thread/status/changed", statusParams{tn.thread.ID, status})
	if tn.Error != nil {
		s.notify("error", errorParams{tn.Error, false, tn.thread.ID, tn.ID})
	}
	now := s.env.Now()
	at, took := now.Unix(), now.Sub(tn.began).Milliseconds()
	tn.CompletedAt, tn.DurationMs = &at, &took
	s.save(tn.thread, record{Type: recordTurn, Turn: &tn.turnFrame})
	view := "notLoaded"
	if items != nil {
		view = "summary"
	}
	s.notify("turn/completed", turnNote{tn.thread.ID, tn.frame(items, view)})
}

func (e exited) failure() *turnError {
	message := fmt.Sprintf("the command ended with %s", e.exit)
	if e.err != nil {
		message = e.err.Error()
	} else if e.reason != "" {
		message += ": " + e.reason
	}
	return &turnError{Message: message, CodexErrorInfo: "other"}
}

func (s *server) commandCompleted(tn *turn, e exited) {
	c := tn.command
	took := s.env.Now().UnixMilli() - c.StartedAtMs
	c.Status, c.AggregatedOutput, c.DurationMs = "completed", &e.output, &took
	if e.err != nil || e.status != 0 {
		c.Status = "failed"
	}
	if e.err == nil {
		c.ExitCode = &e.status
	}
	s.itemCompleted(tn, c)
}

// answer says the last words of the agent, word by word, and returns the item.
func (s *server) answer(tn *turn, text string) []json.RawMessage {
	if text == "" {
		text = silence
	}
	m := &agentMessage{Type: "agentMessage", ID: "msg_" + s.newID()}
	s.itemStarted(tn, m)
	for _, word := range strings.SplitAfter(text, " ") {
		s.delta("item/agentMessage/delta", tn, m.ID, word)
	}
	m.Text = text
	s.itemCompleted(tn, m)
	kept := tn.thread.turn(tn.ID).Items
	return kept[len(kept)-1:]
}

func (s *server) count(tn *turn, wordsOut int64) {
	t := tn.thread
	last, total := tokens{}, t.total
	last.words(tn.wordsIn, wordsOut)
	total.words(tn.wordsIn, wordsOut)
	s.save(t, record{Type: recordUsage, Total: &total, Last: &last})
	s.notify("thread/tokenUsage/updated", usageParams{t.ID, tn.ID, usageFrame{Total: total, Last: last}})
}

// frame is the turn with the items that are to be shown.
func (tn *turn) frame(items []json.RawMessage, view string) turnFrame {
	f := tn.turnFrame
	f.Items, f.ItemsView = items, view
	if f.Items == nil {
		f.Items = []json.RawMessage{}
	}
	return f
}
