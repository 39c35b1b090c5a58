package session

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// maxUnanswered bounds the texts that a peer has got and not answered. More wait in
// the box, where their senders can still take them back.
const maxUnanswered = 32

// Steered is what a harness does about the requests in its mailbox. The Inbox calls it
// in the session's goroutine; nothing in it may wait.
type Steered interface {
	// Steer sends the text into the running turn. What becomes of it is told to the Inbox.
	Steer(*Letter)
	// Interrupt asks for the end of the running turn, and tells the Inbox of the answer.
	Interrupt(*Letter)
	// Stop ends the run.
	Stop(*Ending)
	// Decide gives the agent the answer to what it has asked under that id. An error
	// says why it cannot be given; the question is still open then.
	Decide(id string, r mailbox.Request) error
	// TimedOut deals with a question that nobody has answered within limit.
	TimedOut(id string, limit time.Duration)
}

// Inbox is the mailbox of one session: it takes requests in the order of their names,
// hands them to the harness, and writes down what becomes of them. Trouble with the
// box is a warning and never ends a session; without a box the Inbox does nothing.
type Inbox struct {
	place   Place
	em      *Emitter
	harness string
	now     func() time.Time
	peer    Steered

	box     *mailbox.Box // nil: there is none
	watcher *watch.Watcher

	turn    string    // "" while none runs
	letters []*Letter // taken and not settled, in the order they were taken
	asks    []*ask
	asked   int64 // the number of the newest question
	stopped bool  // the run is being ended: nothing is handed over any more
}

// InboxOptions are how an Inbox is opened.
type InboxOptions struct {
	Harness string // its name in active.json
	Now     func() time.Time
	Watch   watch.Options // Warn is not used
}

// OpenInbox takes the mailbox over. The caller holds the lock. What an
// earlier run had taken and not settled is among Unread, unless it was a control, which
// has expired with its run.
func OpenInbox(p Place, em *Emitter, peer Steered, o InboxOptions) *Inbox {
	in := &Inbox{place: p, em: em, peer: peer, harness: o.Harness, now: o.Now, asked: em.begun}
	if err := in.open(o.Watch); err != nil {
		in.box = nil
		in.warnf("the session cannot be steered: %v", err)
	}
	return in
}

func (in *Inbox) open(o watch.Options) (err error) {
	dir := in.place.State.Mailbox()
	in.box, err = mailbox.Open(dir, mailbox.Options{
		Now: in.now, Kinds: mailbox.SessionKinds, RunID: in.place.RunID, Warn: in.warnf,
	})
	if err != nil {
		return err
	}
	if err := in.box.ExpireOpenControls(); err != nil {
		in.warnf("%v", err)
	}
	for _, c := range in.box.Claims() {
		in.letters = append(in.letters, recovered(c))
	}
	o.Warn = in.warnf
	in.watcher, err = watch.Open([]string{dir}, o)
	return err
}

// C is ready when it is time to Deliver.
func (in *Inbox) C() <-chan struct{} {
	if in.box == nil {
		return nil
	}
	return in.watcher.C()
}

// warnf may be called from the watcher's goroutine.
func (in *Inbox) warnf(format string, args ...any) {
	in.em.Emit(wire.EventWarning, &wire.Notice{Code: "mailbox", Message: fmt.Sprintf(format, args...)}, nil)
}

// Begin says that a turn runs, and delivers what has waited for one.
func (in *Inbox) Begin(thread, turn string) {
	in.turn = turn
	if in.box == nil {
		return
	}
	self := proc.Self()
	err := in.box.SetActive(mailbox.Active{
		RunID: in.place.RunID, Session: wire.Text(thread), Thread: wire.Text(thread), Turn: wire.Text(turn),
		PID: self.Pid, PIDStart: self.Started, Harness: in.harness, Mailbox: in.place.State.Mailbox(), Since: wire.At(in.now()),
	})
	if err != nil {
		in.warnf("%v", err)
	}
	for _, l := range in.letters {
		l.due = l.due || l.held
	}
	in.Deliver()
}

// End says that no turn runs any more.
func (in *Inbox) End() {
	in.turn = ""
	if in.box == nil {
		return
	}
	if err := in.box.ClearActive(); err != nil {
		in.warnf("%v", err)
	}
}

// Tick advances the Inbox's own clocks: that of answers which do not come, of texts
// that are to be sent once more, and of open questions.
func (in *Inbox) Tick(step time.Duration) {
	again := false
	for _, l := range in.letters {
		again = l.advance(step) || again
		if l.state == mailbox.Claimed && l.sent && l.age >= unconfirmedAfter {
			in.reply(l, mailbox.Unconfirmed, fmt.Sprintf("the agent did not answer within %v", unconfirmedAfter), "")
		}
	}
	if again {
		in.Deliver()
	}
	in.overdue(step)
}

// Close ends the mailbox of the run and returns the ids of the requests that nobody
// has read. over says that no turn runs and all was heard of it: what it has not read
// by then it never will. Otherwise the next run finds out.
func (in *Inbox) Close(over bool) []string {
	if in.box == nil {
		return nil
	}
	in.stopped = true
	in.watcher.Close()
	var undelivered []string
	for _, l := range slices.Clone(in.letters) {
		if in.giveUp(l, over) {
			undelivered = append(undelivered, l.Request.ID)
		}
	}
	kinds := in.kinds()
	rest, err := in.box.Finish(filepath.Join(string(in.place.Run), "mailbox"))
	if err != nil {
		in.warnf("%v", err)
	}
	for _, id := range rest {
		if kind, ok := kinds[id]; ok {
			in.em.Emit(wire.EventSteerRefused, &wire.Steer{Request: id, Kind: kind, Reason: "undelivered: " + unreadReason}, nil)
		}
	}
	return append(undelivered, rest...)
}

// kinds returns the kinds of the requests that wait in the box, by id.
func (in *Inbox) kinds() map[string]string {
	kinds := make(map[string]string)
	requests, err := in.box.Scan()
	if err != nil {
		in.warnf("%v", err)
	}
	for _, r := range requests {
		kinds[r.ID] = r.Kind
	}
	return kinds
}

// Leave lets the mailbox be, for a run that turns out to be somebody else's: what is
// in it waits for the next one.
func (in *Inbox) Leave() {
	if in.box == nil {
		return
	}
	in.stopped = true
	in.watcher.Close()
	in.End()
}
