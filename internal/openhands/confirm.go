package openhands

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// asked is what the agent waits for leave for: all actions of one step together, since
// the server takes one answer for them.
type asked struct {
	about wire.Approval
}

// confirmation asks for leave, or answers at once.
func (d *driver) confirmation() {
	if d.asked != nil {
		return
	}
	a := &asked{about: d.pendingActions()}
	a.about.ID, a.about.Status = d.Inbox.NextAsk(), approval.Pending
	d.asked = a
	d.em.Emit(wire.EventApprovalRequested, &wire.ApprovalChange{Approval: a.about}, nil)
	switch {
	case d.turn.halt.Wanted:
		d.answerAsked(false, "the turn is being ended", approval.Declined, false)
	case d.cfg.Approvals == approval.Mailbox:
		about := a.about
		d.Inbox.Ask(mailbox.Approval{Request: a.about.ID, Approval: &about}, d.cfg.ApprovalWait)
	case d.cfg.Approvals.Grant("accept", nil):
		d.answerAsked(true, "accepted by policy", approval.Accepted, true)
	default:
		d.answerAsked(false, "declined by policy", approval.Declined, true)
	}
}

// pendingActions describes what waits.
func (d *driver) pendingActions() wire.Approval {
	var calls []*call
	for _, c := range d.tools {
		if c.kind != "" && c.kind != "FinishAction" && c.kind != "ThinkAction" {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b *call) int { return cmp.Compare(a.item, b.item) })
	about := wire.Approval{Kind: "tool_use", Risk: "unknown", Cwd: wire.Text(d.cfg.Place.Workspace.Path)}
	var titles []string
	risk := ""
	for _, c := range calls {
		switch c.kind {
		case "TerminalAction":
			about.Kind, about.Command = "command_execution", wire.Text(c.command)
			titles = append(titles, c.command)
		case "FileEditorAction":
			about.Kind = "file_write"
			titles = append(titles, c.command+" "+c.path)
		default:
			titles = append(titles, c.tool)
		}
		risk = worse(risk, cmp.Or(c.risk, about.Risk))
	}
	about.Risk = cmp.Or(risk, about.Risk)
	about.Title = strings.Join(titles, "; ")
	if len(calls) != 1 {
		about.Command = ""
	}
	return about
}

// worse returns the greater of two risks. What nobody has rated may be anything, and
// gives way to a high one only.
func worse(a, b string) string {
	order := []string{"", "low", "medium", "unknown", "high"}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// answerAsked sends the answer. After a refusal goOn lets the agent react to it; an
// accepted action is its run already.
func (d *driver) answerAsked(accept bool, reason, status string, goOn bool) {
	t := d.turn
	if accept {
		d.arm()
	}
	t.answering = true
	d.order(requestConfirm(d.id, accept, reason), func(err error) {
		t.answering = false
		switch {
		case d.turn != t || !t.active:
		case err != nil && accept && (statusOf(err) == http.StatusTooManyRequests || unclear(err)):
			// A run would approve, but what waits by then may be something else: the status
			// decides whether it is asked for again.
			d.retry("confirm", err, 1)
			t.ran, t.check = true, d.Clocks.Elapsed()+confirmAgain
		case err != nil:
			d.Fail(session.EndingOf(d.ending(err)))
		case !accept && goOn:
			d.resume()
		case !accept:
			d.turnEnded(execPaused)
		}
	})
	d.closeAsked(status)
}

func (d *driver) closeAsked(status string) {
	a := d.asked
	d.asked = nil
	d.Clocks.Progress()
	d.Inbox.Answered(a.about.ID)
	a.about.Status = status
	d.em.Emit(wire.EventApprovalResolved, &wire.ApprovalChange{Approval: a.about}, nil)
}

// Decide implements session.Steered.
func (d *driver) Decide(id string, r mailbox.Request) error {
	if d.asked == nil || d.asked.about.ID != id {
		return fmt.Errorf("no question %q is open", id)
	}
	switch r.Kind {
	case mailbox.Approve:
		d.answerAsked(true, cmp.Or(r.Text, "approved"), approval.Accepted, true)
	case mailbox.Decline:
		d.answerAsked(false, cmp.Or(r.Text, "declined"), approval.Declined, true)
	case mailbox.Cancel:
		d.turn.halt.End = (&session.Letter{Request: r}).Ending()
		d.turn.halt.Wanted = true
		d.answerAsked(false, "cancelled", approval.Cancelled, false)
	default:
		return errors.New("it asks for leave, which is answered by approve, decline or cancel")
	}
	return nil
}

// TimedOut implements session.Steered.
func (d *driver) TimedOut(id string, limit time.Duration) {
	if d.asked == nil {
		return
	}
	title := d.asked.about.Title
	d.turn.halt.Wanted = true
	d.answerAsked(false, "nobody answered in time", approval.TimedOut, false)
	d.Fail(&session.Ending{Outcome: wire.InputRequired, Category: wire.InputRequired,
		Message: fmt.Sprintf("nobody answered the agent within %v", limit), Detail: title})
}

// withdraw drops what is open: its turn has ended.
func (d *driver) withdraw() {
	if d.asked != nil {
		d.closeAsked(approval.Withdrawn)
	}
}
