package codex

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
)

// steerAgain is how soon a text is sent again that the turn did not take: a review or a
// compaction may end within the turn, and nothing tells.
const steerAgain = 2 * time.Second

const (
	codeUnsupported = -32601
	codeOverloaded  = -32001
	historyPage     = 500 // items asked for at once
)

// What the server says of a turn that is not the one we mean. It has one code for all
// refusals, so that its words have to decide.
const noActiveTurn = "no active turn to"

var otherTurn = regexp.MustCompile("^expected active turn id `?[^`\\s]*`? but found `?([^`\\s]+)`?$")

// staleTurn returns the id of the turn that runs, from a refusal that says so, or "".
func staleTurn(err error) string {
	var refused *rpcError
	if !errors.As(err, &refused) {
		return ""
	}
	if m := otherTurn.FindStringSubmatch(refused.message); m != nil {
		return m[1]
	}
	return ""
}

// Steer implements session.Steered.
func (d *driver) Steer(l *session.Letter) { d.steer(l, d.turn.current(), true) }

// steer sends a text into the turn with that id. again says that another id may be
// tried, should the server name one.
func (d *driver) steer(l *session.Letter, turn string, again bool) {
	try := l.Try
	d.steers++
	c := d.send(methodTurnSteer, d.steerParams(l, turn))
	c.then = func(result gjson.Result, err error) {
		d.steers--
		switch found := staleTurn(err); {
		case l.Try != try: // it was given up for lost, and sent into another turn
		case err == nil && result.Get("turnId").Str == turn:
			d.Inbox.Accepted(l, turn)
		case err == nil:
			d.Inbox.Doubt(l, fmt.Sprintf("the agent did not say that it took it for turn %q", turn))
		case found != "" && again:
			d.turn.target = found
			d.steer(l, found, false)
		default:
			d.notSteered(l, err)
		}
	}
}

func (d *driver) steerParams(l *session.Letter, turn string) map[string]any {
	return map[string]any{
		"threadId": d.thread, "expectedTurnId": turn, "input": textInput(l.Request.Text), "clientUserMessageId": l.ClientID,
	}
}

// notSteered deals with a text that the server has not taken.
func (d *driver) notSteered(l *session.Letter, err error) {
	var refused *rpcError
	switch {
	case !errors.As(err, &refused):
		d.Inbox.Doubt(l, err.Error())
	case strings.Contains(refused.message, noActiveTurn):
		d.Inbox.Hold(l, refused.message, 0)
	case refused.data.Get("codexErrorInfo.activeTurnNotSteerable").Exists(),
		strings.Contains(refused.message, "ActiveTurnNotSteerable"), refused.code == codeOverloaded:
		d.Inbox.Hold(l, refused.message, steerAgain)
	default:
		d.Inbox.Refused(l, refused.message)
	}
}

// letterStarted takes the answer to a turn that was started with a letter.
func (d *driver) letterStarted(l *session.Letter, turn string, err error) {
	switch {
	case err != nil:
		d.Inbox.Refused(l, err.Error())
	case turn == "":
		d.Inbox.Doubt(l, "the agent did not name the turn that it began")
	default:
		d.Inbox.Accepted(l, turn)
	}
}

// userSaid looks for a text of ours in a user item, which is told of at its start and
// at its end.
func (d *driver) userSaid(item gjson.Result) {
	id, client := item.Get("id").Str, item.Get("clientId").Str
	if id != "" && id == d.userItem {
		return
	}
	d.userItem = id
	if client != "" {
		d.Inbox.Consumed(client, d.turn.id)
	}
}

// settle finds out, between two turns, what became of texts that were sent before.
func (d *driver) settle() error {
	if err := d.hearSteers(); err != nil {
		return err
	}
	for unread := d.Inbox.Unread(); len(unread) > 0; {
		history, err := d.history()
		var refused *rpcError
		if errors.As(err, &refused) {
			d.Inbox.Unsettled(refused)
			return nil
		}
		if err != nil {
			return err
		}
		// A goal's turn may have come and gone meanwhile. Its texts need not be in what
		// was read before, and would be delivered twice.
		asked := unread
		if unread = d.Inbox.Unread(); within(unread, asked) {
			d.Inbox.Settle(history)
			return nil
		}
	}
	return nil
}

func within(some, all []*session.Letter) bool {
	return !slices.ContainsFunc(some, func(l *session.Letter) bool { return !slices.Contains(all, l) })
}

// hearSteers waits for the answers to texts that were sent into a turn which has ended
// meanwhile: most of them say all that is to be known.
func (d *driver) hearSteers() error {
	due := d.Clocks.Elapsed() + d.cfg.ReadTimeout
	return session.Until(d.step, func() bool { return d.steers == 0 || d.Clocks.Elapsed() >= due })
}

// history returns the texts of ours that the thread holds: their client ids, each with
// the turn that it is part of.
func (d *driver) history() (map[string]string, error) {
	if !d.resumed && d.turns == 0 {
		return nil, nil // an empty thread cannot be asked
	}
	seen := make(map[string]string)
	params := d.itemsParams()
	for {
		page, err := d.call(methodItemsList, params, d.cfg.StartTimeout)
		var refused *rpcError
		if errors.As(err, &refused) && refused.code == codeUnsupported {
			return d.wholeHistory()
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range page.Get("data").Array() {
			note(seen, entry.Get("item"), entry.Get("turnId").Str)
		}
		next := page.Get("nextCursor").Str
		if next == "" || next == params["cursor"] {
			return seen, nil
		}
		params["cursor"] = next
	}
}

func (d *driver) itemsParams() map[string]any {
	return map[string]any{"threadId": d.thread, "limit": historyPage}
}

func (d *driver) wholeParams() map[string]any {
	return map[string]any{"threadId": d.thread, "includeTurns": true}
}

// wholeHistory asks for all turns at once, for threads that are kept in the older way.
func (d *driver) wholeHistory() (map[string]string, error) {
	result, err := d.call(methodThreadRead, d.wholeParams(), d.cfg.StartTimeout)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]string)
	for _, t := range result.Get("thread.turns").Array() {
		for _, item := range t.Get("items").Array() {
			note(seen, item, t.Get("id").Str)
		}
	}
	return seen, nil
}

func note(seen map[string]string, item gjson.Result, turn string) {
	if client := item.Get("clientId").Str; client != "" && item.Get("type").Str == "userMessage" {
		seen[client] = turn
	}
}
