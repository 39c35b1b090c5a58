package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

const (
	replyAge      = time.Hour        // how long an answer stays in the control mailbox
	tidyInterval  = time.Minute      // how often those are looked for
	interruptWait = 30 * time.Second // for a harness to take an interrupt
)

// ControlBox is the folder through which scripts tell os-loop something.
func ControlBox(root state.Root) string {
	c := Config{Root: root}
	return c.path("mailbox")
}

// control is the goroutine that owns the control mailbox. It hands one request at a
// time to the owner and writes down the answer.
type control struct {
	d       *driver
	box     *mailbox.Box
	answers chan schedule.Reply // holds one
}

func (d *driver) openControl() error {
	done := d.path(runsDir, "control")
	if err := os.RemoveAll(done); err != nil {
		return fmt.Errorf("clear old answers: %w", err)
	}
	box, err := mailbox.Open(ControlBox(d.Root), mailbox.Options{Now: d.Now, Kinds: mailbox.LoopKinds, Warn: d.Warn})
	if err != nil {
		return err
	}
	w, err := watch.Open([]string{ControlBox(d.Root)}, watch.Options{Warn: d.Warn})
	if err != nil {
		return err
	}
	d.warnAbout("control mailbox", box.ExpireOpenControls())
	c := &control{d: d, box: box, answers: make(chan schedule.Reply, 1)}
	d.control = c
	d.tasks.Go(func() {
		defer w.Close()
		c.serve(w.C())
		// The folder in which whoever still waits looks for the answer.
		_, err := box.Finish(d.path(runsDir, "control", "mailbox"))
		d.warnAbout("control mailbox", err)
	})
	return nil
}

func (c *control) serve(hints <-chan struct{}) {
	tidy := time.NewTicker(tidyInterval)
	defer tidy.Stop()
	for {
		select {
		case <-hints:
			if !c.scan() {
				return
			}
		case <-tidy.C:
			c.d.warnAbout("control mailbox", c.box.Tidy(replyAge))
		case <-c.d.ctx.Done():
			return
		}
	}
}

// scan passes on what is asked for. It reports whether there is still somebody to
// answer.
func (c *control) scan() bool {
	requests, err := c.box.Scan()
	c.d.warnAbout("control mailbox", err)
	for _, r := range requests {
		if err := c.box.Claim(r); err != nil {
			if !errors.Is(err, mailbox.ErrGone) {
				c.d.warnAbout("control mailbox", err)
			}
			continue
		}
		target := r.Issue
		if r.Backend != "" {
			target = r.Backend
		}
		c.d.fact(schedule.Command{ID: r.ID, Kind: r.Kind, Target: target})
		answer, ok := c.answer()
		if !ok {
			return false
		}
		c.d.warnAbout("control mailbox", c.box.Reply(answer))
	}
	return true
}

// answer waits for the owner. An answer that was given just before the end counts.
func (c *control) answer() (mailbox.Reply, bool) {
	var a schedule.Reply
	select {
	case a = <-c.answers:
	case <-c.d.ctx.Done():
		select {
		case a = <-c.answers:
		default:
			return mailbox.Reply{}, false
		}
	}
	r := mailbox.Reply{ID: a.ID, State: mailbox.Refused, Message: wire.Text(a.Message)}
	if a.Accepted {
		r.State = mailbox.Accepted
	}
	return r, true
}

// reply is the owner's side: there is room, since one request is asked at a time.
func (c *control) reply(a schedule.Reply) { c.answers <- a }

// interrupt ends a turn whose issue was moved on, with a text that begins the next
// one: the session goes on with the new state.
func (d *driver) interrupt(a schedule.Interrupt) {
	w := d.workers[a.IssueID]
	if w == nil || w.runID != a.RunID {
		return
	}
	d.tasks.Go(func() {
		l := &wire.Loop{
			Event: "interrupt_done", IssueID: wire.Text(a.IssueID), Identifier: wire.Text(w.identifier), RunID: wire.Text(a.RunID),
			Reason: wire.Text(fmt.Sprintf("%s -> %s", a.From, a.To)),
		}
		if err := w.interrupt(d.ctx, a); err != nil {
			l.Event, l.Reason = "interrupt_failed", wire.Text(err.Error())
		}
		l.Time = wire.At(d.Now())
		d.send(note{record: l})
	})
}

func (w *worker) interrupt(ctx context.Context, a schedule.Interrupt) error {
	if w.quiet && !w.listens() { // between two turns one of ours reads it later
		return errors.New("its harness has no mailbox")
	}
	o := mailbox.SendOptions{Kinds: mailbox.SessionKinds, Now: w.d.Now, Rand: w.d.Rand}
	text := fmt.Sprintf("The issue was moved from %q to %q. Read it again and go on with what that state asks for.", a.From, a.To)
	// The text first: an interrupt without one ends the run.
	if _, err := mailbox.Send(ctx, w.dir.Mailbox(), mailbox.Request{Kind: mailbox.Queue, Text: text}, o); err != nil {
		return err
	}
	o.Wait = interruptWait
	_, err := mailbox.Send(ctx, w.dir.Mailbox(), mailbox.Request{Kind: mailbox.Interrupt, Reason: a.From + " -> " + a.To}, o)
	return err
}
