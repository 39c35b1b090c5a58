package openhands

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Values of execution_status.
const (
	execIdle     = "idle"
	execRunning  = "running"
	execPaused   = "paused"
	execWaiting  = "waiting_for_confirmation"
	execFinished = "finished"
	execError    = "error"
	execStuck    = "stuck"
)

const (
	confirmAgain = time.Second      // between two looks at a status that may still change
	hintDelay    = 2 * time.Second  // from a status in the log to the state that should follow
	startedAfter = 30 * time.Second // without a sign that a run began
)

// turn is the turn under way, or the last one: one run of the server, or several where
// leave was asked for.
type turn struct {
	number int64
	id     string
	begun  time.Time
	active bool

	armed     bool          // the server was told to run, so that its state can be the end's
	since     time.Duration // when that was
	ran       bool          // the log says that it runs
	whole     bool          // the state of its end has come
	check     time.Duration // when its end is to be confirmed; 0: not yet
	reruns    int
	answering bool // what was asked is answered, and the server has not confirmed that
	telling   bool // a request that lets the agent run is not answered
	revived   bool // it was begun again after the server was lost

	squeezes int    // requests to condense since the agent has done something
	spent    string // why the conversation takes no more of it; "": it may

	halt    halt
	status  string
	problem gjson.Result // the newest ConversationErrorEvent
	text    string       // what the agent said last
	bare    bool         // and that was no call of a tool
}

// runTurn makes one turn. nil means that it completed with an answer.
func (d *driver) runTurn(p session.Prompt) error {
	if err := d.savePrompt(p); err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	if err := d.settle(); err != nil {
		return err
	}
	d.newTurn()
	if err := d.begin(p); err != nil {
		if !d.turn.armed { // else it may run, and is interrupted
			d.abandon()
		}
		return err
	}
	if err := session.Until(d.step, func() bool { return !d.turn.active }); err != nil {
		return err
	}
	return d.judge()
}

func (d *driver) savePrompt(p session.Prompt) error {
	path, keep := d.cfg.Place.Run.Prompt(), p.Turn > 1
	if d.renewed && p.Kind == session.PromptRehydrate {
		path, keep = d.cfg.Place.Run.Rehydrated(), false
	}
	d.conv.Prompt = &session.PromptRecord{Kind: p.Kind, At: wire.At(d.cfg.Now()), Path: path}
	if keep {
		return nil // the file has the run's first prompt
	}
	return state.WriteFile(path, []byte(p.Text))
}

func (d *driver) newTurn() {
	d.turns++
	d.turn = &turn{number: d.turns, id: fmt.Sprintf("turn-%d", d.turns), active: true, begun: d.cfg.Now()}
	d.Clocks.Turn(true)
}

// abandon ends a turn that the server has not begun.
func (d *driver) abandon() {
	d.turn.active = false
	d.Clocks.Turn(false)
	d.Inbox.End()
}

// begin sends the prompt, and then lets the agent run: so each of the two can be tried
// again by itself.
func (d *driver) begin(p session.Prompt) error {
	if p.Letter != nil {
		d.Inbox.Sent(p.Letter)
	}
	if err := d.say(p.Text, p.Letter); err != nil {
		if p.Letter != nil && !isEnding(err) {
			d.Inbox.Refused(p.Letter, err.Error())
		}
		return d.ending(err)
	}
	if p.Letter != nil {
		d.Inbox.Accepted(p.Letter, d.turn.id)
	}
	d.seeded()
	d.em.Turn(d.turn.id)
	d.em.Emit(wire.EventTurnStarted, &wire.Turn{Number: d.turn.number}, nil)
	if err := d.run(); err != nil {
		return err
	}
	if d.turn.active { // it may have ended before the answer came
		d.Inbox.Begin(d.id, d.turn.id)
	}
	return nil
}

// say adds a message once, whatever becomes of the answers.
func (d *driver) say(text string, l *session.Letter) error {
	d.expect(text, l)
	_, err := d.call(requestMessage(d.id, text, false, messageLimit))
	if err == nil || isEnding(err) || !unclear(err) {
		return err
	}
	// It may have been taken all the same; only the log tells.
	there, lookErr := d.said(text)
	switch {
	case lookErr != nil:
		return lookErr
	case there:
		return nil
	}
	d.retry("message", err, 1)
	_, err = d.call(requestMessage(d.id, text, false, messageLimit))
	return err
}

// unclear reports whether the server may have done what it has not confirmed.
func unclear(err error) bool {
	status := statusOf(err)
	return status == 0 || status >= http.StatusInternalServerError
}

// said tells whether the log has a message of ours by now. A server that is away may be
// starting again.
func (d *driver) said(text string) (bool, error) {
	for due := d.Clocks.Elapsed() + d.reachLimit(); ; {
		err := d.await(d.fill)
		if err == nil {
			break
		}
		if isEnding(err) || !unclear(err) || d.Clocks.Elapsed() >= due {
			return false, err
		}
		if err := d.sleep(runAgain); err != nil {
			return false, err
		}
	}
	// It may also have come over the socket, before the answer got lost.
	return !d.expected(text), nil
}

// status takes a change of the status from the log. It is a hint only: the server may
// go on all the same.
func (d *driver) status(word string) {
	d.reach.status = word
	t := d.turn
	if !t.active || !t.armed {
		return
	}
	switch word {
	case execRunning:
		t.ran, t.check = true, 0
	case execFinished, execError, execStuck, execPaused, execWaiting, execIdle:
		if t.check == 0 {
			t.check = d.Clocks.Elapsed() + hintDelay
		}
	}
}

// state takes the whole state, which the server sends when a run has ended, and also to
// a socket that is new.
func (d *driver) state(value gjson.Result, raw string) {
	word := value.Get("execution_status").Str
	d.reach.status = word
	d.tokens(value.Get("stats"), "")
	if t := d.turn; t.active && t.armed && word != execRunning {
		t.whole, t.check = true, 0
		d.confirm()
	}
}

// confirm asks for the status by REST, which alone decides.
func (d *driver) confirm() { d.poll(false) }

// poll is confirm, and fetches the events up to the status. Those of a run that goes on
// are left to a live socket, unless thorough: it may bring them faster than REST does.
func (d *driver) poll(thorough bool) {
	if d.reach.polling || d.id == "" {
		return
	}
	d.reach.polling, d.turn.check = true, 0
	changes := d.changes
	d.send(requestConversation(d.id), func(info gjson.Result, err error) {
		d.reach.polling = false
		if err != nil {
			d.unreached(err)
			return
		}
		d.reached()
		d.tokens(info.Get("stats"), "")
		word := info.Get("execution_status").Str
		d.reach.status = word
		if word == execRunning && d.reach.live && !thorough {
			d.confirmed(word)
			return
		}
		d.fill(func(err error) {
			if err != nil {
				d.unreached(err)
				return
			}
			if d.changes != changes { // the server may do something else by now
				d.turn.check = d.Clocks.Elapsed() + session.Tick
				return
			}
			d.confirmed(word)
		})
	})
}

// confirmed takes the status that the server has by now, with all events before it.
func (d *driver) confirmed(word string) {
	t := d.turn
	if !t.active || !t.armed {
		return
	}
	over := t.ran || t.whole && word == execFinished || d.Clocks.Elapsed()-t.since > startedAfter
	if word == execRunning || !over {
		if t.whole || word != execRunning {
			t.check = d.Clocks.Elapsed() + confirmAgain
		}
		return
	}
	switch {
	case word == execWaiting && t.answering:
		t.check = d.Clocks.Elapsed() + confirmAgain
	case word != execWaiting && d.expects(word):
		// A text that comes just now lets the server run on, and that is this turn's.
		t.check = d.Clocks.Elapsed() + session.Tick
	case word == execWaiting:
		t.armed = false
		d.confirmation()
	case word == execIdle:
		d.rerun()
	default:
		d.turnEnded(word)
	}
}

// steerPatience bounds the wait for the answers to texts once the turn is to end.
const steerPatience = 5 * time.Second

// expects reports whether a text may still come to the server, which runs on for it from
// the status word.
func (d *driver) expects(word string) bool {
	if h := &d.turn.halt; h.Wanted {
		return d.steers > 0 && d.Clocks.Elapsed() < h.since+steerPatience
	}
	return d.steers > 0 || d.hosted > 0 && word == execFinished || d.Inbox.Holds()
}

// turnEnded takes the end of a turn.
func (d *driver) turnEnded(word string) {
	t := d.turn
	if d.revive(word) {
		return
	}
	t.active, t.armed, t.status = false, false, word
	d.answer = t.text
	d.Clocks.Turn(false)
	status := map[string]string{execFinished: "completed", execPaused: "interrupted"}[word]
	if status == "" {
		status = "failed"
	}
	d.em.Emit(wire.EventTurnCompleted, &wire.Turn{
		Number: t.number, Status: wire.Text(status), DurationMS: wire.Count(d.cfg.Now().Sub(t.begun).Milliseconds()),
	}, nil)
	d.em.Turn("")
	d.Inbox.End()
	t.halt.Ended(d.Inbox, d.turn.id, word == execPaused)
	d.withdraw()
}

// judge turns the end of a turn into nil or the ending of the session.
func (d *driver) judge() error {
	t := d.turn
	switch {
	case d.End != nil:
		return d.End
	case t.status == execFinished && strings.TrimSpace(t.text) == "":
		return session.Failf(wire.CauseNoAnswer, "the turn completed without an answer")
	case t.status == execFinished:
		return nil
	case t.spent != "" && t.halt.End == nil:
		return session.Failf(wire.CauseContextWindow, "the turn was ended: %s", t.spent)
	case t.status == execStuck:
		return &session.Ending{Outcome: wire.Stalled, Category: wire.Stalled, Message: "agent-server finds that the agent goes round in circles"}
	case t.status == execError:
		return d.failure(t.problem)
	case t.status == execPaused && t.halt.End != nil:
		return d.Halted(&t.halt.Halt)
	case t.status == execPaused:
		return session.Failf(wire.CauseProvider, "somebody else paused the conversation")
	}
	end := session.Failf(wire.CauseProtocol, "the turn ended with the unknown execution_status %q", t.status)
	end.Detail = "openhands.protocol.execution_status"
	return end
}
