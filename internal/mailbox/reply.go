package mailbox

import (
	"errors"
	"fmt"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// State is what has become of a request. It only moves forward: claimed, unconfirmed,
// accepted, one of the others.
type State string

// The states. All but the first are those of replies.
const (
	Claimed     State = ""            // taken, and no more is known
	Unconfirmed State = "unconfirmed" // sent, and no answer in time
	Accepted    State = "accepted"    // the peer took it, for the right turn
	Consumed    State = "consumed"    // the agent has seen the text
	Refused     State = "refused"
	Invalid     State = "invalid"
	Expired     State = "expired"
	Undelivered State = "undelivered" // the run ended before it was read
)

// rank orders the states; nothing follows a final one.
func (s State) rank() int {
	switch s {
	case Claimed:
		return 0
	case Unconfirmed:
		return 1
	case Accepted:
		return 2
	case Consumed, Refused, Invalid, Expired, Undelivered:
		return final
	}
	return -1
}

const final = 3

// follows reports whether a reply with state next may stand where prev does. The same
// state again tells of another turn or gives another message.
func follows(prev, next State) bool {
	return next != Claimed && (next.rank() > prev.rank() || next == prev && next.rank() < final)
}

// settles reports whether state is the last word on a request of kind: a control is
// done once it is accepted, a text only once it is consumed.
func settles(kind string, state State) bool {
	return state.rank() == final || state == Accepted && !speaks(kind)
}

// Reply is the content of a reply file.
type Reply struct {
	ID       string    `json:"id"`
	Kind     wire.Text `json:"kind"` // null where the request could not be read
	State    State     `json:"state"`
	Accepted bool      `json:"accepted"`
	Message  wire.Text `json:"message"`
	Turn     wire.Text `json:"turn"`
	Text     wire.Text `json:"text"` // that of the request
	At       wire.Time `json:"at"`
}

// Errors of Reply.
var (
	ErrSettled  = errors.New("no claim is open")
	ErrBackward = errors.New("a state only moves forward")
)

// Reply tells what has become of a claimed request, from the reply's ID, State,
// Message and Turn; the other members are filled in. The claim is closed with the
// last word on it: later replies are ErrSettled, and one that would take a state
// back is ErrBackward, both without harm.
func (b *Box) Reply(r Reply) error {
	c, ok := b.claims[r.ID]
	if !ok {
		return fmt.Errorf("reply to %q: %w", r.ID, ErrSettled)
	}
	if !follows(c.State, r.State) {
		return fmt.Errorf("reply to %q: %q after %q: %w", r.ID, r.State, c.State, ErrBackward)
	}
	if err := b.writeReply(r, c.Request); err != nil {
		return err
	}
	c.State = r.State
	if !settles(c.Request.Kind, c.State) {
		return nil
	}
	// The claim goes last: an owner who dies in between leaves both, and the next one
	// sees by the reply that nothing is to be done.
	delete(b.claims, r.ID)
	if c.RunID != b.runID {
		if err := b.writeOwner(); err != nil {
			return fmt.Errorf("close claim of %q: %w", r.ID, err)
		}
	}
	if err := remove(b.path(r.ID, claimSuffix)); err != nil {
		return fmt.Errorf("close claim of %q: %w", r.ID, err)
	}
	return nil
}

func (b *Box) writeReply(r Reply, to Request) error {
	r.Kind, r.Text, r.At = wire.Text(to.Kind), wire.Text(to.Text), wire.At(b.now())
	r.Accepted = r.State == Accepted || r.State == Consumed
	if err := state.WriteVolatile(b.path(r.ID, replySuffix), r); err != nil {
		return fmt.Errorf("reply to %q: %w", r.ID, err)
	}
	return nil
}

// readReply returns the reply with this id, or nil where there is none that can be
// read.
func readReply(path string) *Reply {
	var r Reply
	if err := state.ReadJSON(path, &r); err != nil {
		return nil
	}
	return &r
}
