package openhands

import (
	"net/http"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
)

// posted is a message of ours that the log has not shown yet. The server gives it no
// name, so that its text has to do.
type posted struct {
	text   string
	letter *session.Letter // nil: the plan's own prompt
}

// steerAgain is the wait for a server that could not be reached with a text.
const steerAgain = time.Second

func (d *driver) expect(text string, l *session.Letter) {
	d.posted = append(d.posted, posted{text, l})
}

// userSaid takes a user message of the log: the oldest of ours with that text.
func (d *driver) userSaid(text string) {
	i := slices.IndexFunc(d.posted, func(p posted) bool { return p.text == text })
	if i < 0 {
		return
	}
	letter := d.posted[i].letter
	d.posted = slices.Delete(d.posted, i, i+1)
	if letter != nil {
		d.tell(text)
		d.Inbox.Consumed(letter.ClientID, d.turn.id)
	}
}

// forget drops a message that the server has refused.
func (d *driver) forget(l *session.Letter) {
	d.drop(func(p posted) bool { return p.letter == l })
}

// forgetText drops a message of our own.
func (d *driver) forgetText(text string) {
	d.drop(func(p posted) bool { return p.letter == nil && p.text == text })
}

func (d *driver) drop(which func(posted) bool) {
	if i := slices.IndexFunc(d.posted, which); i >= 0 {
		d.posted = slices.Delete(d.posted, i, i+1)
	}
}

// expected reports whether a text of ours is not in the log yet.
func (d *driver) expected(text string) bool {
	return slices.ContainsFunc(d.posted, func(p posted) bool { return p.text == text })
}

// Steer implements session.Steered. During a call of a tool the server answers when
// that is done; the message then stands behind its result. Where the agent may wait for
// leave the message comes without a run, which would be the leave; and in a turn that is
// to end without one, which would be a turn that nobody follows.
func (d *driver) Steer(l *session.Letter) {
	try, turn, run := l.Try, d.turn.id, d.cfg.Agent.Confirm == ConfirmNever && !d.turn.halt.Wanted
	d.steers++
	d.expect(l.Request.Text, l)
	d.send(requestMessage(d.id, l.Request.Text, run, steerLimit), func(_ gjson.Result, err error) {
		d.steers--
		d.interruptAgain()
		switch status := statusOf(err); {
		case l.Try != try: // it was given up for lost, and sent once more
		case err == nil, status == http.StatusTooManyRequests: // which has saved it
			d.Inbox.Accepted(l, turn)
			d.turn.reruns = 0 // the agent has something new to read
			if status == http.StatusTooManyRequests && d.turn.active {
				d.resume()
			}
		case unsent(err): // the server may be starting again
			d.forget(l)
			d.Inbox.Hold(l, err.Error(), steerAgain)
		case unclear(err):
			d.Inbox.Doubt(l, err.Error())
		default:
			d.forget(l)
			d.Inbox.Refused(l, err.Error())
		}
	})
}

// settle finds out, between two turns, what became of texts that were sent before.
func (d *driver) settle() error {
	if err := d.hearSteers(); err != nil {
		return err
	}
	unread := d.Inbox.Unread()
	if len(unread) == 0 {
		return nil
	}
	seen, err := d.history(unread)
	switch {
	case isEnding(err):
		return err
	case err != nil:
		d.Inbox.Unsettled(err)
		return nil
	}
	for _, l := range unread {
		d.forget(l)
		if _, ok := seen[l.ClientID]; ok {
			d.tell(l.Request.Text)
		}
	}
	d.Inbox.Settle(seen)
	return nil
}

// hearSteers waits for the answers to texts that were sent into a turn which has ended
// meanwhile: most of them say all that is to be known.
func (d *driver) hearSteers() error {
	due := d.Clocks.Elapsed() + readLimit
	return session.Until(d.step, func() bool { return d.steers == 0 || d.Clocks.Elapsed() >= due })
}

// historyPages bounds how far back a text is looked for.
const historyPages = 20

// history returns which of the texts the log holds: their client ids. Of two with the
// same text the log has to hold as many.
func (d *driver) history(unread []*session.Letter) (map[string]string, error) {
	counts := make(map[string]int)
	from := ""
	for range historyPages {
		page, err := d.call(requestNewest(d.id, from, pageSize))
		if err != nil {
			return nil, err
		}
		items := page.Get("items").Array()
		for i, e := range items {
			if i == 0 && from != "" {
				continue // the last page's last
			}
			if e.Get("kind").Str == "MessageEvent" && e.Get("source").Str == "user" {
				counts[contentText(e.Get("llm_message.content"))]++
			}
		}
		next := page.Get("next_page_id").Str
		if next == "" || next == from {
			break
		}
		from = next
	}
	seen := make(map[string]string)
	for _, l := range unread {
		if counts[l.Request.Text] > 0 {
			counts[l.Request.Text]--
			seen[l.ClientID] = "" // the log has no turns
		}
	}
	return seen, nil
}
