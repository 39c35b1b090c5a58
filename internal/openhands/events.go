package openhands

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// call is an action that is under way.
type call struct {
	item    wire.Text // the model's id of the call
	tool    string
	kind    string // of the action
	command string // of the terminal or the file editor
	path    string
	risk    string // as the approval has it; "" for not known
	args    string // of a host-side tool
}

// take deals with one event of the log, once.
func (d *driver) take(e gjson.Result) {
	id := e.Get("id").Str
	if !d.log.fresh(id) {
		return
	}
	if id != "" {
		d.log.last = strings.Clone(id) // id is a part of the frame, and would keep it
	}
	kind := e.Get("kind").Str
	if kind != "ConversationStateUpdateEvent" && e.Get("source").Str != "user" {
		d.Clocks.Progress()
	}
	switch kind {
	case "MessageEvent":
		d.message(e)
	case "ActionEvent":
		d.action(e)
	case "ObservationEvent":
		d.observed(e)
	case "UserRejectObservation":
		d.completed(e, "declined", false, e.Get("rejection_reason").Str)
	case "AgentErrorEvent":
		d.completed(e, "failed", false, e.Get("error").Str)
	case "ConversationErrorEvent":
		d.turn.problem = e
		d.em.Emit(wire.EventWarning, &wire.Notice{Code: text(e.Get("code")), Message: d.secrets.text(e.Get("detail").String())}, []byte(e.Raw))
	case "ConversationStateUpdateEvent":
		d.update(e)
	case "CondensationRequest":
		d.squeezed()
		d.pass(kind, e)
	case "SystemPromptEvent", "LLMCompletionLogEvent", "PauseEvent", "InterruptEvent":
		// Long, or told by the status.
	default:
		d.pass(kind, e)
	}
}

// pass hands an event on as it is.
func (d *driver) pass(method string, e gjson.Result) {
	params := d.secrets.text(e.Raw)
	if !json.Valid([]byte(params)) {
		params = "null"
	}
	d.em.Emit(wire.EventPeer, &wire.PeerNotice{Method: method, Params: json.RawMessage(params)}, []byte(e.Raw))
}

// message takes what was said: by the agent, by us, or by the server, which pushes an
// agent that says nothing.
func (d *driver) message(e gjson.Result) {
	said := contentText(e.Get("llm_message.content"))
	switch e.Get("source").Str {
	case "user":
		d.userSaid(said)
	case "agent":
		d.reasoning(e.Get("llm_message.reasoning_content"), e)
		d.turn.bare, d.turn.text, d.turn.squeezes = true, said, 0
		if said != "" {
			d.em.Emit(wire.EventMessage, &wire.Item{Item: text(e.Get("id")), Text: said}, []byte(e.Raw))
		}
	default:
		d.turn.bare = false
		d.pass("MessageEvent", e)
	}
}

func (d *driver) reasoning(v gjson.Result, e gjson.Result) {
	if strings.TrimSpace(v.Str) != "" {
		d.em.Emit(wire.EventReasoning, &wire.Item{Item: text(e.Get("id")), Text: v.Str}, []byte(e.Raw))
	}
}

// action takes a call that the agent makes.
func (d *driver) action(e gjson.Result) {
	d.turn.bare, d.turn.squeezes = false, 0
	d.reasoning(e.Get("reasoning_content"), e)
	if thought := contentText(e.Get("thought")); strings.TrimSpace(thought) != "" {
		d.em.Emit(wire.EventMessage, &wire.Item{Item: text(e.Get("id")), Text: thought}, []byte(e.Raw))
	}
	a := e.Get("action")
	c := &call{
		item: text(e.Get("tool_call_id")), tool: e.Get("tool_name").Str, kind: a.Get("kind").Str,
		command: a.Get("command").Str, path: a.Get("path").Str, risk: riskOf(e.Get("security_risk").Str),
	}
	if c.hosted() {
		c.args = hostArgs(a)
	}
	d.tools[e.Get("tool_call_id").Str] = c
	switch c.kind {
	case "TerminalAction":
		d.em.Emit(wire.EventCommandStarted, &wire.Command{Item: c.item, Command: wire.Text(c.command), Cwd: wire.Text(d.cfg.Place.Workspace.Path)}, []byte(e.Raw))
	case "FinishAction":
		d.turn.text = a.Get("message").Str
		d.em.Emit(wire.EventMessage, &wire.Item{Item: text(e.Get("id")), Text: d.turn.text}, []byte(e.Raw))
	case "ThinkAction":
		d.reasoning(a.Get("thought"), e)
	case "FileEditorAction":
		if c.command == "view" {
			d.em.Emit(wire.EventToolCalled, c.event(nil), []byte(e.Raw))
		}
	default:
		d.em.Emit(wire.EventToolCalled, c.event(nil), []byte(e.Raw))
	}
}

func (c *call) event(success *bool) *wire.Tool {
	t := &wire.Tool{Item: c.item, Tool: c.tool, Source: "builtin", Success: success}
	switch {
	case c.kind == "MCPToolAction":
		t.Source = "mcp"
	case c.hosted():
		t.Source = "host"
	}
	return t
}

// observed takes the result of a call.
func (d *driver) observed(e gjson.Result) {
	o := e.Get("observation")
	if o.Get("is_error").Bool() {
		d.completed(e, "failed", false, contentText(o.Get("content")))
		return
	}
	d.completed(e, "completed", true, contentText(o.Get("content")))
}

// completed tells how a call has ended.
func (d *driver) completed(e gjson.Result, status string, success bool, output string) {
	id := e.Get("tool_call_id").Str
	c := d.tools[id]
	if c == nil {
		c = &call{item: text(e.Get("tool_call_id")), tool: e.Get("tool_name").Str}
	}
	delete(d.tools, id)
	switch {
	case c.kind == "FinishAction", c.kind == "ThinkAction":
	case c.kind == "TerminalAction":
		d.em.Emit(wire.EventCommandCompleted, commandResult(c, e.Get("observation"), status, output), []byte(e.Raw))
	case c.hosted() && success:
		d.callTool(c, []byte(e.Raw))
	case c.kind == "FileEditorAction" && c.command != "view":
		d.em.Emit(wire.EventFileChanged, &wire.FileChange{Item: c.item, Paths: []string{c.path}, Status: wire.Text(status)}, []byte(e.Raw))
	default:
		d.em.Emit(wire.EventToolCompleted, c.event(&success), []byte(e.Raw))
	}
}

func commandResult(c *call, o gjson.Result, status, output string) *wire.Command {
	m := &wire.Command{
		Item: c.item, Command: wire.Text(c.command), Cwd: text(o.Get("metadata.working_dir")),
		ExitCode: number(o.Get("exit_code")), Status: wire.Text(status), Output: session.Bounded(output),
	}
	if m.ExitCode != nil && *m.ExitCode < 0 { // the server does not wait for it any more
		m.ExitCode, m.Status = nil, "running"
	}
	return m
}

// update takes the change of one member of the state.
func (d *driver) update(e gjson.Result) {
	switch e.Get("key").Str {
	case "execution_status":
		d.status(e.Get("value").Str)
	case "stats":
		d.tokens(e.Get("value"), e.Raw)
	}
}

// piece passes a piece of a message on, where it was asked for.
func (d *driver) piece(v gjson.Result) {
	d.Clocks.Progress()
	said := v.Get("content").Str
	if !d.cfg.Deltas || said == "" || v.Get("kind").Str == "reasoning" {
		return
	}
	d.em.EmitPiece(wire.EventMessageDelta, &wire.Item{Item: text(v.Get("item_id")), Text: said}, []byte(v.Raw))
	d.em.Flush()
}

// noticed takes what a socket says of itself.
func (d *driver) noticed(v gjson.Result) {
	detail := v.Get("detail").String()
	if detail == "" {
		d.pass(v.Get("type").Str, v)
		return
	}
	d.em.Emit(wire.EventWarning, &wire.Notice{Code: text(v.Get("code")), Message: d.secrets.text(detail)}, []byte(v.Raw))
}

// tokens takes the totals of the conversation, one sum for each use of a model.
func (d *driver) tokens(stats gjson.Result, raw string) {
	total, window := sumUsage(stats.Get("usage_to_metrics"))
	if total == nil {
		return
	}
	if name := stats.Get("usage_to_metrics.default.model_name").Str; name != "" {
		d.model.Observed = wire.Text(name)
	}
	if !d.meter.Update(total, nil) {
		return
	}
	d.usedAt = d.cfg.Now()
	d.Clocks.Progress()
	d.em.Emit(wire.EventUsage, &wire.Tokens{Usage: d.meter.Own(), UsageTotal: d.meter.Total(), ContextWindow: window}, []byte(raw))
	warning, end := d.budget.Spend(d.meter.Own())
	if warning != "" {
		d.warn(session.CodeBudget, warning)
	}
	if end != nil {
		d.Fail(end)
	}
}

func sumUsage(metrics gjson.Result) (total *wire.Usage, window *int64) {
	add := func(p **int64, v gjson.Result) {
		if n := number(v); n != nil {
			if *p == nil {
				*p = wire.Count(0)
			}
			*p = wire.Count(**p + *n)
		}
	}
	metrics.ForEach(func(use, m gjson.Result) bool {
		u := m.Get("accumulated_token_usage")
		if !u.IsObject() {
			return true
		}
		if total == nil {
			total = &wire.Usage{}
		}
		add(&total.InputTokens, u.Get("prompt_tokens"))
		add(&total.CachedInputTokens, u.Get("cache_read_tokens"))
		add(&total.OutputTokens, u.Get("completion_tokens"))
		add(&total.ReasoningTokens, u.Get("reasoning_tokens"))
		if n := number(u.Get("context_window")); use.Str == "default" && n != nil && *n > 0 {
			window = n
		}
		return true
	})
	return total, window
}

// contentText joins the texts of a message's parts.
func contentText(parts gjson.Result) string {
	if parts.Type == gjson.String {
		return parts.Str
	}
	var texts []string
	for _, p := range parts.Array() {
		if t := p.Get("text"); t.Exists() {
			texts = append(texts, t.Str)
		}
	}
	return strings.Join(texts, "\n")
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

// riskOf is what the server's analyzer says of an action.
func riskOf(word string) string {
	switch word {
	case "LOW", "MEDIUM", "HIGH":
		return strings.ToLower(word)
	}
	return ""
}
