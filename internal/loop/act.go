package loop

import (
	"context"
	"sync"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// act carries out one action. Files of the scheduler are written here and now, since
// what follows relies on them; anything slower is begun.
func (d *driver) act(a schedule.Action) {
	if d.Schedule.Mode == schedule.PlanOnly && !d.harmless(a) {
		return
	}
	switch a := a.(type) {
	case schedule.Poll:
		d.tasks.Go(func() { d.fact(d.programs.poll(d.ctx, d.Reading)) })
	case schedule.ReadIDs:
		d.tasks.Go(func() { d.fact(d.programs.read(d.ctx, d.Reading, a.IDs)) })
	case schedule.Start:
		d.start(a)
	case schedule.Stop:
		if w := d.workers[a.IssueID]; w != nil {
			w.halt(a)
		}
	case schedule.Interrupt:
		d.interrupt(a)
	case schedule.Remove:
		d.remove(a)
	case schedule.Emit:
		d.announce(a.Loop)
		d.printer.print(a.Loop)
	case schedule.Reply:
		d.control.reply(a)
	case schedule.WakeAt:
		d.wake.Reset(time.Until(a.At))
	case schedule.Exit:
		d.exit = &a.Status
	default:
		d.remember(a)
	}
}

// remember carries out the actions that are files.
func (d *driver) remember(a schedule.Action) {
	switch a := a.(type) {
	case schedule.Save:
		d.save(a)
	case schedule.Drop:
		d.drop(a)
	case schedule.HoldBackend:
		err := d.writeHold(a.Hold)
		d.held[a.Hold.Backend] = err == nil || d.held[a.Hold.Backend]
		d.warnAbout("write the hold", err)
	case schedule.ClearBackend:
		delete(d.held, a.Backend)
		d.warnAbout("clear the hold", d.clearHold(a.Backend))
	}
}

// harmless tells whether an action touches nothing.
func (d *driver) harmless(a schedule.Action) bool {
	switch a.(type) {
	case schedule.Poll, schedule.ReadIDs, schedule.WakeAt, schedule.Exit:
		return true
	}
	return false
}

// start begins a run, unless what it costs could not be written down: a crash would
// make it free then.
func (d *driver) start(a schedule.Start) {
	id := a.Issue.ID
	if err := d.unsaved[id]; err != nil {
		d.queue = append(d.queue, schedule.RunFailedToStart{IssueID: id, Category: wire.CauseState, Message: err.Error()})
		return
	}
	w, err := d.newRun(a)
	if err != nil {
		d.queue = append(d.queue, schedule.RunFailedToStart{IssueID: id, Category: wire.CauseConfig, Message: err.Error()})
		return
	}
	d.watch(w)
}

// watch gives a worker its goroutine.
func (d *driver) watch(w *worker) {
	d.workers[w.issueID] = w
	d.tasks.Go(func() {
		if f := w.see(d.ctx); f != nil {
			d.send(note{fact: f, over: w})
		}
	})
}

// remove takes a folder away. What speaks against it is for people: the folder stays.
// It is not given up at our own end, which comes right after it where nothing else is
// left to do, unless that has to be at once; the next os-loop tries again then.
func (d *driver) remove(a schedule.Remove) {
	limit := d.hookLimit()
	d.tasks.Go(func() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(d.ctx))
		var watch sync.WaitGroup
		watch.Go(func() {
			select {
			case <-d.Hurry:
				cancel()
			case <-ctx.Done():
			}
		})
		defer watch.Wait()
		defer cancel()
		r, err := d.programs.ask(ctx, limit, nil, "os-workspace", "remove", "--workflow", d.programs.workflow, "--", a.Identifier)
		defer r.close()
		switch {
		case ctx.Err() != nil:
		case err != nil:
			d.Warn("remove the workspace of %s: %v", a.Identifier, err)
		case r.exit.Status() == cli.StatusNoInput: // it is gone already
		case !r.exit.Success():
			d.Warn("the workspace of %s stays: %s", a.Identifier, r.reason())
		}
	})
}
