package session

import (
	"errors"
	"fmt"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/wire"
)

// Deliver hands over what can be handed over now, in the order of the requests' names.
// Texts wait for a turn, and behind an earlier text that is held.
func (in *Inbox) Deliver() {
	in.resend()
	for _, r := range in.scan() {
		if in.stopped {
			return
		}
		if r.Kind == mailbox.Queue || r.Kind == mailbox.Steer && !in.ready() {
			continue
		}
		if l := in.take(r); l != nil {
			in.hand(l)
		}
	}
}

// scan returns what lies in the box.
func (in *Inbox) scan() []mailbox.Request {
	if in.box == nil || in.stopped {
		return nil
	}
	requests, err := in.box.Scan()
	if err != nil {
		in.warnf("%v", err)
	}
	return requests
}

// resend sends the held texts that are due.
func (in *Inbox) resend() {
	if in.turn == "" || in.stopped {
		return
	}
	for _, l := range in.letters {
		if l.due && l.Request.Kind == mailbox.Steer {
			in.steer(l)
		}
	}
}

// ready reports whether one more text may go into the running turn.
func (in *Inbox) ready() bool {
	unanswered := 0
	for _, l := range in.letters {
		switch {
		case l.Request.Kind == mailbox.Steer && l.held:
			return false
		case l.sent && l.state == mailbox.Claimed:
			unanswered++
		}
	}
	return in.turn != "" && unanswered < maxUnanswered
}

// take claims a request. It is nil where the request is gone, or cannot be claimed
// now.
func (in *Inbox) take(r mailbox.Request) *Letter {
	err := in.box.Claim(r)
	if errors.Is(err, mailbox.ErrGone) {
		return nil
	}
	if err != nil {
		in.warnf("%v", err)
		return nil
	}
	l := newLetter(r, in.place.RunID)
	in.letters = append(in.letters, l)
	return l
}

func (in *Inbox) hand(l *Letter) {
	switch l.Request.Kind {
	case mailbox.Steer:
		in.steer(l)
	case mailbox.Interrupt:
		in.peer.Interrupt(l)
	case mailbox.Stop:
		in.Accepted(l, in.turn)
		in.stopped = true
		in.peer.Stop(l.Ending())
	default:
		in.decide(l)
	}
}

func (in *Inbox) steer(l *Letter) {
	in.post(l)
	in.peer.Steer(l) // first: the text is what somebody waits for
	in.event(wire.EventSteerSent, l, "")
}

// Next takes the oldest text that is to start a turn of its own, or returns nil. It is
// sent once the harness has said so with Sent.
func (in *Inbox) Next() *Letter {
	if in.stopped {
		return nil
	}
	for _, l := range in.letters {
		if l.held && l.Request.Kind == mailbox.Queue {
			return l
		}
	}
	for _, r := range in.scan() {
		if r.Kind != mailbox.Queue {
			continue
		}
		if l := in.take(r); l != nil {
			l.held = true
			return l
		}
	}
	return nil
}

// Sent says that the harness has sent the text of Next, or a request to interrupt.
func (in *Inbox) Sent(l *Letter) {
	in.post(l)
	in.event(wire.EventSteerSent, l, "")
}

// Ending is the end of a run that was stopped, or interrupted with nothing to go on
// with. A reason that is no category of a cancelled run is the operator's own words.
func (l *Letter) Ending() *Ending {
	category := wire.CauseOperator
	switch reason := l.Request.Reason; reason {
	case wire.CauseTracker, wire.CauseShutdown:
		category = reason
	}
	what := "stopped"
	if l.Request.Kind != mailbox.Stop {
		what = "interrupted"
	}
	return Cancelled(category, fmt.Sprintf("%s by request %q: %s", what, l.Request.ID, l.Request.Reason))
}
