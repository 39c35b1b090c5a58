package openhands

import (
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	runAgain  = time.Second // between two requests for a run, doubling
	runLimit  = time.Minute // for a server that says it runs and does not
	maxReruns = 3           // of a message that the server has not read
)

// arm says that the server is told to run now: what it says from here on may be the end
// of that run.
func (d *driver) arm() {
	t := d.turn
	t.armed, t.ran, t.whole, t.check, t.since = true, false, false, 0, d.Clocks.Elapsed()
}

// order sends a request that lets the agent run, such as the one for a run. An interrupt
// that overtook it would end nothing, and so waits for the answer.
func (d *driver) order(r request, then func(error)) {
	t := d.turn
	t.telling = true
	d.send(r, func(_ gjson.Result, err error) {
		t.telling = false
		then(err)
		if d.turn == t && t.halt.Wanted {
			d.interrupt()
		}
	})
}

// run tells the server to run, and waits where it cannot do so now. A turn that is to end
// before that has begun does not run at all.
func (d *driver) run() error {
	if err := d.hold(); err != nil {
		return err
	}
	wait, begun := runAgain, d.Clocks.Elapsed()
	for attempt := int64(1); ; attempt++ {
		switch h := &d.turn.halt; {
		case h.Wanted && h.Sent:
			return nil // whether it runs is asked for
		case h.Wanted:
			d.turnEnded(execPaused)
			return nil
		}
		d.arm()
		err := d.await(func(then func(error)) { d.order(requestRun(d.id), then) })
		switch status := statusOf(err); {
		case err == nil:
			return nil
		case isEnding(err):
			return err
		case status == http.StatusConflict:
			if live, err := d.runs(); live || err != nil {
				return err
			}
		case status == http.StatusTooManyRequests, unclear(err), status == http.StatusNotFound:
		default:
			return d.ending(err)
		}
		if statusOf(err) != http.StatusTooManyRequests && d.Clocks.Elapsed()-begun > runLimit {
			return d.ending(err)
		}
		d.retry("run", err, attempt)
		if err := d.sleep(wait); err != nil {
			return err
		}
		wait = min(2*wait, linkMost)
	}
}

// runs asks whether the server, which says that it runs already, does so: then it reads
// our message too.
func (d *driver) runs() (bool, error) {
	if d.turn.ran {
		return true, nil
	}
	info, err := d.call(requestConversation(d.id))
	if isEnding(err) {
		return false, err
	}
	live := err == nil && info.Get("execution_status").Str == execRunning
	d.turn.ran = d.turn.ran || live
	return live, nil
}

func (d *driver) retry(op string, err error, attempt int64) {
	d.em.Emit(wire.EventRetrying, &wire.Notice{Code: wire.Text(op), Message: d.secrets.text(err.Error()), Attempt: wire.Count(attempt)}, nil)
}

// rerun lets the agent run once more: a message came when it had just ended, and it has
// not read that.
func (d *driver) rerun() {
	t := d.turn
	if t.halt.Wanted {
		d.turnEnded(execPaused)
		return
	}
	if t.reruns++; t.reruns > maxReruns {
		d.Fail(session.Failf(wire.CauseProvider, "agent-server is idle though it was told %d times to run", t.reruns))
		return
	}
	d.resume()
}

// resume lets the agent go on without waiting for the answer, which the end of the turn
// makes up for.
func (d *driver) resume() {
	t := d.turn
	d.arm()
	d.order(requestRun(d.id), func(err error) {
		status := statusOf(err)
		switch {
		case err == nil || d.turn != t || !t.active:
		case status == http.StatusConflict || status == http.StatusTooManyRequests || unclear(err):
			d.retry("run", err, int64(t.reruns))
			t.check = d.Clocks.Elapsed() + confirmAgain
		default:
			d.Fail(session.EndingOf(d.ending(err)))
		}
	})
}
