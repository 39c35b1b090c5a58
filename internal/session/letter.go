package session

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/wire"
)

// unconfirmedAfter is how long the peer may take to answer before its silence is told.
const unconfirmedAfter = 20 * time.Second

// unreadReason is why a request is undelivered.
const unreadReason = "the run ended before it was read"

// Letter is a request that was taken from the mailbox and is not settled. It belongs
// to its Inbox, to which a harness tells what the peer says.
type Letter struct {
	Request mailbox.Request
	// ClientID marks the text in the peer's history, so that it can be found there
	// after a crash: the run that took the request and the request's id.
	ClientID string
	// Try counts how often it was sent: an answer counts only for the newest one.
	Try int

	state mailbox.State
	sent  bool // the peer may have it
	// inherited is set while a dead run's text has not been looked for in the history:
	// nobody can say yet that it was not delivered.
	inherited bool
	turn      string        // that it was sent into
	age       time.Duration // since it was sent
	held      bool          // to be sent again
	due       bool          // and that now
	wait      time.Duration // until it is due; 0: with the next turn
}

func newLetter(r mailbox.Request, runID string) *Letter {
	return &Letter{Request: r, ClientID: runID + "/" + r.ID}
}

// recovered is the letter of a run that has died: the peer may have it or not.
func recovered(c mailbox.Claim) *Letter {
	l := newLetter(c.Request, c.RunID)
	l.state, l.sent, l.inherited = c.State, true, true
	return l
}

// speaks reports whether the letter brings a text for the agent.
func (l *Letter) speaks() bool {
	return l.Request.Kind == mailbox.Steer || l.Request.Kind == mailbox.Queue
}

// advance adds to the letter's clocks and reports whether it has become due.
func (l *Letter) advance(step time.Duration) bool {
	if l.sent {
		l.age += step
	}
	if !l.held || l.due || l.wait == 0 {
		return false
	}
	l.wait = max(0, l.wait-step)
	l.due = l.wait == 0
	return l.due
}

// post notes that the letter is with the peer from now on.
func (in *Inbox) post(l *Letter) {
	l.Try++
	l.sent, l.held, l.due, l.age, l.turn = true, false, false, 0, in.turn
}

// Accepted says that the peer has taken the letter for the turn: what was asked for,
// or a text that it will read.
func (in *Inbox) Accepted(l *Letter, turn string) {
	if in.reply(l, mailbox.Accepted, "", turn) {
		in.event(wire.EventSteerAccepted, l, "")
	}
}

// Doubt says that the peer's answer does not tell whether it has the text.
func (in *Inbox) Doubt(l *Letter, reason string) { in.reply(l, mailbox.Unconfirmed, reason, "") }

// Refused says that the letter will not be delivered.
func (in *Inbox) Refused(l *Letter, reason string) {
	if in.reply(l, mailbox.Refused, reason, "") {
		in.event(wire.EventSteerRefused, l, reason)
	}
}

// Hold says that the peer did not take the text now: it is sent once more after that
// time, or at once when the next turn begins.
func (in *Inbox) Hold(l *Letter, reason string, again time.Duration) {
	if slices.Contains(in.letters, l) {
		in.hold(l, again)
		in.event(wire.EventSteerRefused, l, "held: "+reason)
	}
}

func (in *Inbox) hold(l *Letter, again time.Duration) {
	l.sent, l.inherited, l.held, l.wait = false, false, true, again
	l.due = in.turn != "" && in.turn != l.turn
}

// Holds reports whether a text for the running turn is to be sent once more into it.
func (in *Inbox) Holds() bool {
	return in.turn != "" && !in.stopped && slices.ContainsFunc(in.letters, func(l *Letter) bool {
		return l.Request.Kind == mailbox.Steer && l.held && (l.due || l.wait > 0)
	})
}

// Consumed says that a text with this client id is in the session's history, read by
// that turn.
func (in *Inbox) Consumed(clientID, turn string) {
	for _, l := range in.letters {
		if l.ClientID == clientID && l.speaks() {
			if in.reply(l, mailbox.Consumed, "", turn) {
				in.event(wire.EventSteerConsumed, l, "")
			}
			return
		}
	}
}

// Unread returns the texts that a peer has got in a turn which is over, or from a run
// which has died, and whose reading nobody has seen. Only the session's history tells
// what became of them, and Settle is told.
func (in *Inbox) Unread() []*Letter {
	var unread []*Letter
	for _, l := range in.letters {
		if l.speaks() && l.sent && (in.turn == "" || l.turn != in.turn) {
			unread = append(unread, l)
		}
	}
	return unread
}

// Settle takes what the session's history has of the unread texts, by client id with
// the turn that read each. One that is not there is sent once more, under the same id.
func (in *Inbox) Settle(history map[string]string) {
	for _, l := range in.Unread() {
		if turn, ok := history[l.ClientID]; ok {
			in.Consumed(l.ClientID, turn)
			continue
		}
		in.hold(l, 0)
	}
	if in.turn != "" { // one that nobody has asked for, and that has begun meanwhile
		in.Deliver()
	}
}

// Unsettled says that the history cannot be had. Rather than deliver a text twice the
// Inbox leaves the unread ones to the next run.
func (in *Inbox) Unsettled(why error) {
	for _, l := range in.Unread() {
		in.Doubt(l, fmt.Sprintf("whether it was read is not known: %v", why))
		in.drop(l)
	}
}

// giveUp settles a letter at the end of its run, and reports whether it is a text that
// was not delivered.
func (in *Inbox) giveUp(l *Letter, over bool) bool {
	switch {
	case !l.speaks():
		in.reply(l, mailbox.Expired, "the run ended before it was answered", "")
		return false
	case l.Request.Keep, l.sent && !over, l.inherited:
		return false // its claim stays, and the next run settles it
	}
	if in.reply(l, mailbox.Undelivered, unreadReason, "") {
		in.event(wire.EventSteerRefused, l, "undelivered: "+unreadReason)
	}
	return true
}

// reply writes down the state of a letter and reports whether that is news.
func (in *Inbox) reply(l *Letter, state mailbox.State, message, turn string) bool {
	if in.box == nil || !slices.Contains(in.letters, l) {
		return false
	}
	err := in.box.Reply(mailbox.Reply{ID: l.Request.ID, State: state, Message: wire.Text(message), Turn: wire.Text(turn)})
	if errors.Is(err, mailbox.ErrBackward) {
		return false
	}
	if err != nil {
		in.warnf("%v", err) // the claim stays open, so that nothing is lost
	}
	l.state = state
	if state != mailbox.Unconfirmed && (state != mailbox.Accepted || !l.speaks()) {
		in.drop(l)
	}
	return true
}

// drop forgets a letter; its claim, if it is open, is the next run's.
func (in *Inbox) drop(l *Letter) {
	in.letters = slices.DeleteFunc(slices.Clone(in.letters), func(x *Letter) bool { return x == l })
}

func (in *Inbox) event(name string, l *Letter, reason string) {
	in.em.Emit(name, &wire.Steer{Request: l.Request.ID, Kind: l.Request.Kind, Reason: wire.Text(reason)}, nil)
}
