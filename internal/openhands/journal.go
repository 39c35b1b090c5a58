package openhands

import (
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	pollEvery  = time.Second      // while no socket is live
	quietAfter = 15 * time.Second // a live socket that says nothing is checked by REST
	reachLimit = time.Minute      // for a server that cannot be reached at all
)

// journal is what we have of the conversation's log.
type journal struct {
	seen    marks
	last    string  // the newest event's id; "" for none
	filling bool    // older events are being fetched by REST
	again   bool    // and once more after that
	owed    bool    // that has failed, and is tried again
	held    []frame // what the socket brought meanwhile
	after   []func(error)
}

// fresh reports whether an event is new, and remembers it.
func (j *journal) fresh(id string) bool {
	if id == "" {
		return true // nothing tells it from another
	}
	return j.seen.add(id)
}

// reach is what we know of the way to the server.
type reach struct {
	live    bool          // a socket follows the conversation
	refused int           // attempts in a row to open one that did not work
	polling bool          // a poll is under way
	next    time.Duration // when the next poll is due, on the session's clock
	heard   time.Duration // when the server was last heard of
	lost    bool          // the loss of the socket was told
	away    bool          // the last poll did not work, which was told
	failed  time.Duration // with away: the first one in a row that did not
	status  string        // the newest execution_status
}

// heard takes a frame of the socket.
func (d *driver) heard(f frame, ok bool) {
	if !ok {
		d.frames = nil
		return
	}
	d.reach.heard = d.Clocks.Elapsed()
	switch f.kind {
	case frameLive:
		d.linked()
		if !f.whole {
			d.fill(nil)
		}
	case frameEvent, frameState:
		if d.log.filling || d.log.owed {
			d.log.held = append(d.log.held, f)
			return
		}
		d.apply(f)
	case framePiece:
		d.piece(f.event)
	case frameNotice:
		d.noticed(f.event)
	case frameBroken:
		d.warn("malformed_event", f.err.Error())
	case frameDown:
		d.unlinked(f.err)
	case frameFatal:
		d.refused(f.err)
	}
}

func (d *driver) apply(f frame) {
	if f.kind == frameState {
		d.state(f.event.Get("value"), f.event.Raw)
		return
	}
	d.take(f.event)
}

func (d *driver) linked() {
	d.reach.live, d.reach.refused = true, 0
	if d.reach.lost {
		d.reach.lost = false
		d.warn("link", "the socket is open again")
	}
}

// unlinked notes that the socket is lost. What becomes of the agent meanwhile is not
// known; it may well go on.
func (d *driver) unlinked(err error) {
	was := d.reach.live
	if !was {
		d.reach.refused++
	}
	d.reach.live, d.reach.next = false, d.Clocks.Elapsed()
	if was && !d.reach.lost {
		d.reach.lost = true
		d.warn("link", fmt.Sprintf("%v; the agent may go on meanwhile", err))
	}
}

// unready names why no socket was had before the first turn.
func (d *driver) unready() string {
	if d.reach.refused >= maxRefused {
		return "openhands.websocket.closed_before_readiness"
	}
	return "openhands.websocket.readiness_timeout"
}

// refused ends the session of a server that does not let us follow.
func (d *driver) refused(err error) {
	d.reach.live = false
	category := wire.CauseNotFound
	if errors.Is(err, errUnauthorized) {
		category = wire.CauseAuth
	}
	end := session.Failf(category, "%v", err)
	end.Detail = "openhands.websocket.follow"
	d.Fail(end)
}

// watch asks by REST where the socket does not tell.
func (d *driver) watch(step time.Duration) {
	now := d.Clocks.Elapsed()
	if d.id == "" || d.reach.polling || d.End != nil {
		return
	}
	if t := d.turn; t.active && t.check > 0 && now >= t.check {
		d.confirm()
		return
	}
	if d.log.owed && !d.log.filling && now >= d.reach.next {
		d.reach.next = now + pollEvery
		d.fill(nil)
		return
	}
	quiet := d.turn.active && now-d.reach.heard >= quietAfter
	if d.turn.active && !d.reach.live && now >= d.reach.next || quiet {
		d.reach.next, d.reach.heard = now+pollEvery, max(d.reach.heard, now-quietAfter+pollEvery)
		d.poll(true)
	}
}

// fill fetches the events that we may have missed, then calls then with the error, if
// any. What the socket brings meanwhile waits, since it is newer.
func (d *driver) fill(then func(error)) {
	if then != nil {
		d.log.after = append(d.log.after, then)
	}
	if d.log.filling {
		d.log.again = true
		return
	}
	d.log.filling, d.log.again = true, false
	d.page(d.log.last)
}

func (d *driver) page(from string) {
	d.send(requestEvents(d.id, from), func(page gjson.Result, err error) {
		if err != nil {
			d.filled(err)
			return
		}
		items := page.Get("items").Array()
		if from != "" && (len(items) == 0 || items[0].Get("id").Str != from) {
			// The server begins anew where it does not know the event: the log is another.
			d.warn("history", "agent-server does not know the newest event any more")
			d.filled(nil)
			return
		}
		for _, item := range items {
			d.take(item)
		}
		next := page.Get("next_page_id").Str
		if next == "" || next == from {
			d.filled(nil)
			return
		}
		d.page(next)
	})
}

// filled lets what has waited go on, unless older events are still owed. Of two sockets
// one may have brought events before and one after those.
func (d *driver) filled(err error) {
	d.log.filling, d.log.owed = false, err != nil
	if d.log.again && err == nil {
		d.fill(nil)
		return
	}
	if err == nil {
		held := d.log.held
		d.log.held = nil
		for _, f := range held {
			d.apply(f)
		}
	}
	after := d.log.after
	d.log.after = nil
	for _, then := range after {
		then(err)
	}
}

// lastKnown tells for people what the server said last.
func (d *driver) lastKnown() string {
	if d.reach.status == "" {
		return ""
	}
	return fmt.Sprintf("its last known execution_status is %q", d.reach.status)
}
