package codex

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// notified deals with a notification. Only those of our own thread count; what
// happens in a sub-agent's thread is passed on and ends nothing.
func (d *driver) notified(f *frame) {
	p := f.params()
	if t := p.Get("threadId"); t.Type == gjson.String && t.Str != d.thread {
		if d.cfg.Deltas || !isDelta(f.method) {
			d.pass(f.method, p, f.raw)
		}
		return
	}
	if progress(f.method) {
		d.Clocks.Progress()
	}
	switch f.method {
	case "turn/started":
		id := p.Get("turn.id").Str
		if d.goal != nil && !d.turn.active && d.End == nil && id != d.turn.id {
			d.newTurn()
		}
		if d.turn.active && (d.turn.id == "" || d.turn.id == id) {
			d.turnRuns(id)
			return
		}
		d.pass(f.method, p, f.raw)
	case "turn/completed":
		d.turnEnded(p, f.raw)
	case "item/started":
		d.itemStarted(p.Get("item"), f.raw)
	case "item/completed":
		d.itemCompleted(p, f.raw)
	case "turn/plan/updated":
		d.em.Emit(wire.EventPlan, &wire.Item{Text: planText(p)}, []byte(f.raw))
	case "turn/diff/updated":
		d.em.Emit(wire.EventDiff, &wire.Item{Text: p.Get("diff").Str}, []byte(f.raw))
	case "thread/tokenUsage/updated":
		d.tokens(p.Get("tokenUsage"), f.raw)
	case "account/rateLimits/updated":
		d.rateLimits(p.Get("rateLimits"), f.raw)
	case "thread/goal/updated":
		d.goalTold(p.Get("goal.status").Str)
		d.pass(f.method, p, f.raw)
	case "thread/goal/cleared":
		d.goalTold("")
		d.pass(f.method, p, f.raw)
	case "error":
		d.troubled(p, f.raw)
	case "serverRequest/resolved":
		d.withdrawn(p.Get("requestId"))
		d.pass(f.method, p, f.raw)
	case "thread/status/changed":
		d.threadStatus(p, f.raw)
	case "warning", "configWarning", "guardianWarning", "deprecationNotice":
		d.warned(f.method, p, f.raw)
	default:
		d.delta(f, p)
	}
}

// progress tells whether a notification shows that the turn moves on. Usage is
// judged where its numbers are known, retries and status changes are none.
func progress(method string) bool {
	return strings.HasPrefix(method, "item/") || strings.HasPrefix(method, "turn/")
}

// delta deals with pieces of items, which are passed on only where they were asked
// for, and with all notifications that have no name of their own.
func (d *driver) delta(f *frame, p gjson.Result) {
	switch {
	case !isDelta(f.method):
		d.pass(f.method, p, f.raw)
	case !d.cfg.Deltas:
	case f.method == "item/agentMessage/delta":
		d.em.EmitPiece(wire.EventMessageDelta, &wire.Item{Item: text(p.Get("itemId")), Text: p.Get("delta").Str}, []byte(f.raw))
	case f.method == "item/commandExecution/outputDelta":
		d.em.EmitPiece(wire.EventCommandOutput, &wire.Command{Item: text(p.Get("itemId")), Output: session.Bounded(p.Get("delta").Str)}, []byte(f.raw))
	default:
		d.pass(f.method, p, f.raw)
	}
}

func isDelta(method string) bool {
	return strings.HasPrefix(method, "item/") && (strings.HasSuffix(method, "delta") || strings.HasSuffix(method, "Delta"))
}

// pass hands a notification on as it is.
func (d *driver) pass(method string, params gjson.Result, raw string) {
	notice := &wire.PeerNotice{Method: method, Params: json.RawMessage("null")}
	if params.Raw != "" {
		notice.Params = json.RawMessage(params.Raw)
	}
	d.em.Emit(wire.EventPeer, notice, []byte(raw))
}

func (d *driver) warned(method string, p gjson.Result, raw string) {
	message := p.Get("message").Str
	if message == "" {
		message = p.Get("summary").Str
	}
	d.em.Emit(wire.EventWarning, &wire.Notice{Code: wire.Text(method), Message: message}, []byte(raw))
}

// troubled takes the notification error. It is never the end of a turn, which comes
// as turn/completed with the same error.
func (d *driver) troubled(p gjson.Result, raw string) {
	e := p.Get("error")
	d.turn.problem = e
	if !p.Get("willRetry").Bool() {
		return
	}
	word, status := errorInfo(e.Get("codexErrorInfo"))
	d.retries(word == wordUnauthorized || status == 401)
	message := e.Get("message").String()
	if more := e.Get("additionalDetails").String(); more != "" {
		message += ": " + more
	}
	d.em.Emit(wire.EventRetrying, &wire.Notice{Code: wire.Text(word), Message: message}, []byte(raw))
}

func (d *driver) threadStatus(p gjson.Result, raw string) {
	if p.Get("status.type").Str == "systemError" && d.turn.active {
		d.turn.broken = true
	}
	d.pass("thread/status/changed", p, raw)
}

func (d *driver) tokens(u gjson.Result, raw string) {
	if !d.meter.Update(usage(u.Get("total")), usage(u.Get("last"))) {
		return
	}
	d.Clocks.Progress()
	d.em.Emit(wire.EventUsage, &wire.Tokens{
		Usage: d.meter.Own(), UsageTotal: d.meter.Total(), ContextWindow: number(u.Get("modelContextWindow")),
	}, []byte(raw))
	d.spend()
}

// spend holds what the run has used against its budget.
func (d *driver) spend() {
	warning, end := d.budget.Spend(d.meter.Own())
	if warning != "" {
		d.Warn(session.CodeBudget, warning)
	}
	if end != nil {
		d.Fail(end)
	}
}

func usage(u gjson.Result) *wire.Usage {
	if !u.IsObject() {
		return nil
	}
	return &wire.Usage{
		InputTokens:       number(u.Get("inputTokens")),
		CachedInputTokens: number(u.Get("cachedInputTokens")),
		OutputTokens:      number(u.Get("outputTokens")),
		ReasoningTokens:   number(u.Get("reasoningOutputTokens")),
		TotalTokens:       number(u.Get("totalTokens")),
	}
}

func (d *driver) rateLimits(limits gjson.Result, raw string) {
	d.limits = limits
	d.em.Emit(wire.EventRateLimits, &wire.Limits{
		Limits: json.RawMessage(limits.Raw), ResetAt: wire.At(resetAt(limits, d.cfg.Now())),
	}, []byte(raw))
}

// number returns a number of the peer, nil if it did not give one.
func number(v gjson.Result) *int64 {
	if v.Type != gjson.Number {
		return nil
	}
	return wire.Count(v.Int())
}

func text(v gjson.Result) wire.Text {
	if v.Type != gjson.String {
		return ""
	}
	return wire.Text(v.Str)
}
