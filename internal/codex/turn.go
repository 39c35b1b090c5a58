package codex

import (
	"errors"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// turn is the turn under way, or the last one.
type turn struct {
	number  int64
	id      string // as we know it
	target  string // as the server calls it, where it has said that this differs
	active  bool   // asked for and not ended
	told    bool   // turn.started was emitted
	begun   bool   // the server says that it runs: only then can it be interrupted
	halt    halt
	status  string
	problem gjson.Result  // the error of its end, or the last one that it told
	text    string        // of its last message
	broken  bool          // the server told of a system error
	ailing  time.Duration // since then
}

func (t *turn) running() bool { return t.active }

// current is the id that the server takes for the running turn.
func (t *turn) current() string {
	if t.target != "" {
		return t.target
	}
	return t.id
}

// runTurn makes one turn. nil means that it completed with an answer.
func (d *driver) runTurn(p session.Prompt) error {
	if err := d.savePrompt(p); err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	if err := d.settle(); err != nil {
		return err
	}
	if !d.turn.active { // a goal may have begun one meanwhile, which takes the text in
		d.newTurn()
	}
	if err := d.startTurn(p); err != nil {
		return err
	}
	if d.goal != nil && !d.goal.set {
		if err := d.setGoal(); err != nil {
			return err
		}
	}
	for d.turn.active {
		if err := d.step(); err != nil {
			return err
		}
	}
	return d.judge()
}

// newTurn makes the next turn of the run, which may not have a name yet.
func (d *driver) newTurn() {
	d.turns++
	d.turn = &turn{number: d.turns, active: true}
	d.Clocks.Turn(true)
}

// startTurn returns when the turn is known to run, or has ended already: its end may
// come before the answer to its start.
func (d *driver) startTurn(p session.Prompt) error {
	c := d.send(methodTurnStart, d.turnParams(p))
	if p.Letter != nil {
		d.Inbox.Sent(p.Letter)
	}
	t := d.turn
	c.then = func(result gjson.Result, err error) {
		if id := result.Get("turn.id").Str; err == nil && d.turn == t { // a late answer is none of the next turn's
			d.turnBegan(id)
		}
		if p.Letter != nil {
			d.letterStarted(p.Letter, result.Get("turn.id").Str, err)
		}
	}
	err := d.until(func() bool { return c.done || !d.turn.active }, c.method, d.cfg.ReadTimeout)
	if err == nil {
		err = c.err
	}
	var refused *rpcError
	switch {
	case errors.As(err, &refused):
		d.turn.active = false
		d.Clocks.Turn(false)
		d.Inbox.End()
		return session.Failf(wire.CauseProtocol, "%v", refused)
	case err != nil:
		return err
	}
	return nil
}

func (d *driver) savePrompt(p session.Prompt) error {
	path := d.cfg.Place.Run.Prompt()
	d.conv.Prompt = &session.PromptRecord{Kind: p.Kind, At: wire.At(d.cfg.Now()), Path: path}
	if p.Turn > 1 {
		return nil // the file keeps the run's first prompt
	}
	return state.WriteFile(path, []byte(p.Text))
}

func (d *driver) turnParams(p session.Prompt) map[string]any {
	params := map[string]any{"threadId": d.thread, "input": textInput(p.Text)}
	if p.Letter != nil {
		params["clientUserMessageId"] = p.Letter.ClientID
	}
	if e := d.cfg.Thread.Effort; e != "" {
		params["effort"] = e
	}
	if policy := d.cfg.Thread.TurnPolicy; policy != nil {
		params["sandboxPolicy"] = policy
	}
	return params
}

func textInput(text string) []map[string]string {
	return []map[string]string{{"type": "text", "text": text}}
}

// turnBegan takes the id of the turn, from the answer or from turn/started.
func (d *driver) turnBegan(id string) {
	if !d.turn.active || d.turn.told || id == "" {
		return
	}
	d.turn.id, d.turn.told = id, true
	d.em.Turn(id)
	d.em.Emit(wire.EventTurnStarted, &wire.Turn{Number: d.turn.number}, nil)
	if d.turn.halt.Wanted {
		d.interrupt()
	}
	d.Inbox.Begin(d.thread, id)
}

// turnEnded takes turn/completed.
func (d *driver) turnEnded(p gjson.Result, raw string) {
	t := p.Get("turn")
	id := t.Get("id").Str
	if !d.turn.active || d.turn.id != "" && id != d.turn.id {
		d.pass("turn/completed", p, raw)
		return
	}
	d.turnBegan(id)
	d.turn.active, d.turn.status = false, t.Get("status").Str
	if e := t.Get("error"); e.IsObject() {
		d.turn.problem = e
	}
	if d.turn.text == "" {
		d.turn.text = lastMessage(t.Get("items"))
	}
	d.finalText = d.turn.text
	d.Clocks.Turn(false)
	d.seeded()
	d.em.Emit(wire.EventTurnCompleted, &wire.Turn{
		Number: d.turn.number, Status: wire.Text(d.turn.status), DurationMS: number(t.Get("durationMs")),
	}, []byte(raw))
	d.em.Turn("")
	d.Inbox.End()
	d.turn.halt.Ended(d.Inbox, d.turn.id, d.turn.status == "interrupted")
	d.withdrawAsks()
}

func lastMessage(items gjson.Result) string {
	text := ""
	for _, item := range items.Array() {
		if item.Get("type").Str == "agentMessage" {
			text = item.Get("text").Str
		}
	}
	return text
}

// seeded notes that the thread has got its prompt: only then does a later run send
// the short one.
func (d *driver) seeded() {
	if d.conv == nil || d.conv.Seeded {
		return
	}
	d.conv.Seeded = true
	if err := d.SaveConversation(d.conv); err != nil {
		d.Warn("conversation", err.Error())
	}
}

// judge turns the end of a turn into nil or the ending of the session.
func (d *driver) judge() error {
	if d.End != nil {
		return d.End
	}
	switch d.turn.status {
	case "completed":
		// What a goal is worth is told by its status.
		if d.goal == nil && strings.TrimSpace(d.turn.text) == "" {
			return session.Failf(wire.CauseNoAnswer, "the turn completed without an answer")
		}
		return nil
	case "failed":
		return d.turn.failure(d)
	case "interrupted":
		if d.turn.halt.End != nil {
			return d.Halted(&d.turn.halt.Halt)
		}
		return session.Failf(wire.CauseProvider, "app-server interrupted the turn by itself")
	}
	return session.Failf(wire.CauseProtocol, "the turn ended with the unknown status %q", d.turn.status)
}

// failure is the ending that the turn's error asks for.
func (t *turn) failure(d *driver) *session.Ending {
	end := endingOf(t.problem)
	if end.Outcome == wire.RateLimited {
		end.RetryAt = d.retryAt()
	}
	return end
}

// retryAt is when a rate limit is tried again.
func (d *driver) retryAt() time.Time {
	now := d.cfg.Now()
	if at := resetAt(d.limits, now); !at.IsZero() {
		return at
	}
	return now.Add(defaultReset)
}
