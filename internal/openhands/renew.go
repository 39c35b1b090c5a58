package openhands

import (
	"context"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// Codes of ConversationErrorEvents that tell of a conversation which has no room left,
// or which the model's provider does not take any more.
const (
	codeOverflow       = "LLMContextWindowExceedError"
	codeNoCondensation = "NoCondensationAvailableException" // the condenser cannot make room
	codeMalformed      = "LLMMalformedConversationHistoryError"
)

const (
	maxSqueezes = 3  // how often the server may condense before the agent does something
	maxTold     = 64 // texts that are remembered for a conversation that stands in
)

// makeTurn makes one turn of the plan. Where the conversation is used up by it the turn
// is made again, once in a run, in a conversation that stands in for it.
func (d *driver) makeTurn(p session.Prompt) error {
	err := d.runTurn(p)
	reason := d.usedUp()
	if err == nil || reason == "" || d.renewed {
		return err
	}
	if p.Kind == session.PromptContinuation && p.Letter == nil && d.cfg.Plan.Again {
		d.tell(p.Text) // the user's own words, which no other prompt has
	}
	if err := d.renew(reason); err != nil {
		return err
	}
	return d.runTurn(session.Prompt{Kind: session.PromptRehydrate, Text: d.cfg.Plan.Rehydrated, Turn: p.Turn})
}

// usedUp says why the conversation can take no more turns though nothing is wrong but
// the conversation itself, or "".
func (d *driver) usedUp() string {
	t := d.turn
	switch {
	case d.End != nil || t.active || t.halt.End != nil:
		return ""
	case t.spent != "":
		return t.spent
	case t.status == execError && !t.halt.Wanted:
		return exhausted(t.problem)
	}
	return ""
}

// squeezed takes the server's wish to condense, which follows on an overflow. Where the
// context is too small however short the history, it would condense and overflow until
// the iterations are used up, and pay for each.
func (d *driver) squeezed() {
	t := d.turn
	if t.squeezes++; t.squeezes >= maxSqueezes && t.active {
		t.spent = "it stays over the model's context however often it is condensed"
		d.interrupt()
	}
}

// exhausted is usedUp for a ConversationErrorEvent.
func exhausted(problem gjson.Result) string {
	switch problem.Get("code").Str {
	case codeOverflow:
		return "it ran out of context"
	case codeMalformed:
		return "the model's provider does not take its history any more"
	case codeNoCondensation:
		switch problem.Get("classification.kind").Str {
		case "auth", "quota", "rate_limit", "config":
			return "" // whose model is refused; a fresh conversation would be, too
		}
		return "it ran out of context and could not be condensed"
	}
	return ""
}

// tell notes a text that the agent has got, for a conversation that may have to stand in.
func (d *driver) tell(text string) {
	d.told = append(d.told, text)
	d.told = d.told[max(0, len(d.told)-maxTold):]
}

// renew goes on in another conversation. What the old one has counted is kept, and its
// log says what became of the texts that were sent to it.
func (d *driver) renew(reason string) error {
	d.renewed = true
	lost := d.id
	d.contextLost(reason)
	if err := d.settle(); err != nil {
		return err
	}
	d.leave()
	d.meter.Renew()
	return d.standIn(lost, reason)
}

func (d *driver) contextLost(reason string) {
	d.em.Emit(wire.EventContextLost, &wire.Session{Cwd: d.cfg.Place.Workspace.Path, Peer: &d.agent, Reason: wire.Text(reason)}, nil)
}

// leave forgets the conversation: nothing that it still says is heard.
func (d *driver) leave() {
	d.endTalk()
	d.talk, d.endTalk = context.WithCancel(d.Context())
	d.link, d.frames, d.id = nil, nil, ""
	d.log = journal{}
	d.reach = reach{heard: d.Clocks.Elapsed()}
	d.tools = make(map[string]*call)
	d.posted, d.steers, d.hosted = nil, 0, 0
}

// lose begins a conversation instead of an earlier run's, which cannot be gone on with.
// One that had got its prompt has work behind it, of which the new one is told.
func (d *driver) lose(old *session.Conversation, id, reason string) error {
	d.contextLost(reason)
	d.meter.Fresh()
	if old == nil || string(old.SessionID) != id {
		return d.start(reason, "")
	}
	if used := old.Used(); used != nil {
		d.meter.Carry(used)
		d.meter.Resumed(used)
	}
	switch {
	case old.Seeded:
		return d.standIn(id, reason)
	case old.Replaces != "": // and neither had that one said anything yet
		return d.standIn(string(old.Replaces), string(old.ResetReason))
	}
	return d.start(reason, "")
}

// standIn begins a conversation that is told of a lost one.
func (d *driver) standIn(lost, reason string) error {
	if err := d.rehydrate(lost, reason); err != nil {
		return err
	}
	return d.start(reason, lost)
}

// rehydrate makes the prompt of a conversation that stands in for a lost one.
func (d *driver) rehydrate(lost, reason string) error {
	l := session.Lost{Reason: reason, Told: d.told}
	var err error
	if l.Recap, err = d.cfg.Place.Recap(lost); err != nil {
		d.warn("recap", err.Error())
	}
	if d.cfg.Notes != nil {
		if l.Notes, err = session.Await(d.Loop, d.step, d.cfg.Notes); isEnding(err) {
			return err
		}
		if err != nil {
			d.warn("notes", err.Error())
		}
	}
	d.cfg.Plan.Rehydrated = d.secrets.text(l.Prompt(d.cfg.Plan.Full))
	return nil
}
