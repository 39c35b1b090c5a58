package codex

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

func (a *asked) input() wire.InputRequest {
	return wire.InputRequest{ID: a.about.ID, Questions: json.RawMessage(orNull(a.questions))}
}

// title says in words what is asked.
func (a *asked) title() string {
	if a.answers != nil {
		return orNull(a.questions)
	}
	return a.about.Title
}

// ask waits for an answer through the mailbox.
func (d *driver) ask(a *asked, limit time.Duration) {
	d.asks[a.about.ID] = a
	open := mailbox.Approval{Request: a.about.ID}
	if a.answers != nil {
		open.Questions = a.input().Questions
	} else {
		about := a.about
		open.Approval = &about
	}
	d.Inbox.Ask(open, limit)
}

// Decide implements session.Steered.
func (d *driver) Decide(id string, r mailbox.Request) error {
	a := d.asks[id]
	switch {
	case r.Kind == mailbox.Decline:
		d.resolve(a, a.no, approval.Declined)
	case r.Kind == mailbox.Cancel:
		d.cancel(a, r)
	case r.Kind == mailbox.Answer && a.answers != nil:
		answer, err := a.answers(a.questions, r.Answers)
		if err != nil {
			return err
		}
		d.resolve(a, answer, approval.Accepted)
	case r.Kind == mailbox.Answer:
		return errors.New("it asks for leave, which is answered by approve, decline or cancel")
	case a.answers != nil:
		return errors.New("it asks a question, which is answered by answer, decline or cancel")
	case a.offered != nil && !slices.Contains(a.offered, a.grant):
		return errors.New("the agent does not offer to be granted it once, and only that can be")
	default:
		d.resolve(a, a.yes, approval.Accepted)
	}
	return nil
}

// cancel declines and ends the turn.
func (d *driver) cancel(a *asked, r mailbox.Request) {
	d.turn.halt.End = (&session.Letter{Request: r}).Ending()
	if a.cancel != nil {
		d.turn.halt.Wanted, d.turn.halt.Sent = true, true // the answer itself ends it
		d.resolve(a, a.cancel, approval.Cancelled)
		return
	}
	d.interrupt()
	d.resolve(a, a.no, approval.Cancelled)
}

// TimedOut implements session.Steered.
func (d *driver) TimedOut(id string, limit time.Duration) {
	d.unanswered(d.asks[id], fmt.Sprintf("nobody answered the agent within %v", limit))
}

// unanswered ends the run because of what nobody has answered.
func (d *driver) unanswered(a *asked, why string) {
	d.interrupt() // before the refusal, so that the agent does not go on by a guess
	if a.answers != nil {
		d.refuse(a.frame, codeRefused, "nobody is here to answer")
		d.close(a, approval.TimedOut)
	} else {
		d.resolve(a, a.no, approval.TimedOut)
	}
	d.Fail(&session.Ending{Outcome: wire.InputRequired, Category: wire.InputRequired, Message: why, Detail: a.title()})
}

// resolve answers what was asked.
func (d *driver) resolve(a *asked, answer any, status string) {
	d.Clocks.Progress()
	d.reply(a.frame, answer)
	d.close(a, status)
}

// close tells how it was answered.
func (d *driver) close(a *asked, status string) {
	delete(d.asks, a.about.ID)
	d.Inbox.Answered(a.about.ID)
	if a.answers != nil {
		d.em.Emit(wire.EventInputResolved, &wire.InputChange{Request: a.input()}, nil)
		return
	}
	a.about.Status = status
	d.em.Emit(wire.EventApprovalResolved, &wire.ApprovalChange{Approval: a.about}, nil)
}

// openAsks returns what is asked and not answered, in the order of asking, which is
// that of the numbers in the ids.
func (d *driver) openAsks() []*asked {
	return slices.SortedFunc(maps.Values(d.asks), func(a, b *asked) int {
		x, y := a.about.ID, b.about.ID
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

// declineAsks answers all that is open: the run is being ended.
func (d *driver) declineAsks() {
	for _, a := range d.openAsks() {
		d.resolve(a, a.no, approval.Declined)
	}
}

// withdrawAsks drops all that is open: its turn has ended.
func (d *driver) withdrawAsks() {
	for _, a := range d.openAsks() {
		d.close(a, approval.Withdrawn)
	}
}

// withdrawn drops what the server does not wait for any more.
func (d *driver) withdrawn(request gjson.Result) {
	for _, a := range d.openAsks() {
		if a.frame.id.Raw == request.Raw {
			d.close(a, approval.Withdrawn)
		}
	}
}

// userInput makes the answer to questions of the agent. Answers are an object by the
// questions' ids, or an array in their order; each is a text or a list of texts.
func userInput(questions gjson.Result, answers json.RawMessage) (any, error) {
	byID := make(map[string]any)
	given := gjson.ParseBytes(answers)
	for i, q := range questions.Array() {
		id := q.Get("id").String()
		v := given.Get(gjson.Escape(id))
		if given.IsArray() {
			v = given.Get(fmt.Sprint(i))
		}
		texts := []string{}
		switch {
		case v.Type == gjson.String:
			texts = append(texts, v.Str)
		case v.IsArray():
			for _, text := range v.Array() {
				texts = append(texts, text.String())
			}
		default:
			return nil, fmt.Errorf("answers has no text for question %q", id)
		}
		byID[id] = map[string]any{"answers": texts}
	}
	return map[string]any{"answers": byID}, nil
}

// elicited makes the answer to a form of an MCP server.
func elicited(_ gjson.Result, answers json.RawMessage) (any, error) {
	if !gjson.ParseBytes(answers).IsObject() {
		return nil, errors.New("answers to a form are an object")
	}
	return map[string]any{"action": "accept", "content": answers}, nil
}
