package session

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/wire"
)

// ask is a question of the agent that is open.
type ask struct {
	id            string
	limit, waited time.Duration
}

// NextAsk returns an id for a question of the agent. It is the run's own, so that an
// answer to a question of an earlier run, which may have had the same number, misses.
// Nor does the run give it twice: an earlier session of it has asked fewer questions
// than it has printed events.
func (in *Inbox) NextAsk() string {
	in.asked++
	return fmt.Sprintf("%s-%d", askPrefix(in.place.RunID), in.asked)
}

func askPrefix(runID string) string {
	sum := sha256.Sum256([]byte(runID))
	return hex.EncodeToString(sum[:4])
}

// Ask shows a question to whoever may answer it, within limit; 0 is no limit.
func (in *Inbox) Ask(a mailbox.Approval, limit time.Duration) {
	in.asks = append(in.asks, &ask{id: a.Request, limit: limit})
	if in.box == nil {
		return
	}
	a.Turn, a.At = wire.Text(in.turn), wire.At(in.now())
	if err := in.box.WriteApproval(a); err != nil {
		in.warnf("%v", err)
	}
}

// Asking reports whether a question is open: waiting for a person is no stall.
func (in *Inbox) Asking() bool { return len(in.asks) > 0 }

// Answered says that a question is not open any more.
func (in *Inbox) Answered(id string) {
	for i, a := range in.asks {
		if a.id != id {
			continue
		}
		in.asks = append(in.asks[:i:i], in.asks[i+1:]...)
		if in.box == nil {
			return
		}
		if err := in.box.RemoveApproval(id); err != nil {
			in.warnf("%v", err)
		}
		return
	}
}

// decide gives the agent an answer.
func (in *Inbox) decide(l *Letter) {
	id := l.Request.Request
	for _, a := range in.asks {
		if a.id != id {
			continue
		}
		if err := in.peer.Decide(id, l.Request); err != nil {
			in.Refused(l, err.Error())
			return
		}
		in.Accepted(l, in.turn)
		return
	}
	in.Refused(l, fmt.Sprintf("no question %q is open", id))
}

// overdue adds to the clocks of the open questions.
func (in *Inbox) overdue(step time.Duration) {
	for _, a := range in.asks {
		if a.waited += step; passed(a.waited, a.limit) {
			in.peer.TimedOut(a.id, a.limit)
			return // it ends the run
		}
	}
}
