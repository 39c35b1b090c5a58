package codex

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// JSON-RPC codes of our refusals.
const (
	codeUnknownMethod = -32601
	codeRefused       = -32000
)

type reply struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *replyError     `json:"error,omitempty"`
}

type replyError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// request answers a request of the server. Every one is answered, or the turn would
// wait for ever.
func (d *driver) request(f *frame) {
	d.Clocks.Progress()
	p := f.params()
	switch f.method {
	case "item/commandExecution/requestApproval", "execCommandApproval":
		d.approve(f, commandApproval(p))
	case "item/fileChange/requestApproval", "applyPatchApproval":
		d.approve(f, fileApproval(p))
	case "item/permissions/requestApproval":
		d.approve(f, permissionApproval(p))
	case "item/tool/requestUserInput":
		d.question(f, asked{questions: p.Get("questions"), answers: userInput, no: map[string]any{"answers": struct{}{}}})
	case "mcpServer/elicitation/request":
		d.question(f, asked{questions: p, answers: elicited, no: map[string]any{"action": "decline", "content": nil}})
	case "item/tool/call":
		d.callTool(f)
	case "account/chatgptAuthTokens/refresh", "attestation/generate":
		d.refuse(f, codeRefused, "os-codex has no credentials of its own")
	default:
		d.Warn("unknown_request", "app-server asks for "+f.method+", which is refused")
		d.refuse(f, codeUnknownMethod, "unknown method "+f.method)
	}
}

func (d *driver) reply(f *frame, result any) {
	if err := d.peer.conn.send(reply{ID: json.RawMessage(f.id.Raw), Result: result}); err != nil {
		d.fade(err.Error())
	}
}

func (d *driver) refuse(f *frame, code int, message string) {
	if err := d.peer.conn.send(reply{ID: json.RawMessage(f.id.Raw), Error: &replyError{code, message}}); err != nil {
		d.fade(err.Error())
	}
}

// asked is a request for leave, or a question, and what to answer it with.
type asked struct {
	frame   *frame
	about   wire.Approval
	grant   string   // the word for yes, once
	offered []string // nil: the server names none
	yes, no any
	cancel  any // no, and the turn ends; nil where there is no such answer

	// Of a question:
	questions gjson.Result
	answers   func(questions gjson.Result, answers json.RawMessage) (any, error) // nil: this asks for leave
}

// decide puts the answers to an approval in, in the words of one of the two
// generations of the protocol.
func (a *asked) decide(method string) {
	word := func(decision any) any { return map[string]any{"decision": decision} }
	if strings.HasPrefix(method, "item/") {
		a.grant, a.yes, a.no, a.cancel = "accept", word("accept"), word("decline"), word("cancel")
		return
	}
	denied := map[string]any{"denied": map[string]any{"rejection": "declined by policy"}}
	a.grant, a.yes, a.no, a.cancel = "approved", word("approved"), word(denied), word("abort")
}

func commandApproval(p gjson.Result) asked {
	line := p.Get("command").String()
	if words := p.Get("command"); words.IsArray() {
		var list []string
		for _, w := range words.Array() {
			list = append(list, w.String())
		}
		line = strings.Join(list, " ")
	}
	a := asked{about: wire.Approval{Kind: "command_execution", Title: line, Command: wire.Text(line), Cwd: text(p.Get("cwd")), Reason: text(p.Get("reason"))}}
	a.offered = offers(p.Get("availableDecisions"))
	return a
}

// offers returns the words among the decisions on offer; nil where none are named.
func offers(list gjson.Result) []string {
	if !list.IsArray() {
		return nil
	}
	words := []string{}
	for _, v := range list.Array() {
		if v.Type == gjson.String {
			words = append(words, v.Str)
		}
	}
	return words
}

func fileApproval(p gjson.Result) asked {
	title := "change files"
	if root := p.Get("grantRoot").String(); root != "" {
		title = "write below " + root
	}
	a := asked{about: wire.Approval{Kind: "file_write", Title: title, Reason: text(p.Get("reason"))}}
	if p.Get("grantRoot").String() != "" {
		a.offered = []string{} // a root is granted for the session: there is no "once"
	}
	return a
}

func permissionApproval(p gjson.Result) asked {
	return asked{
		about: wire.Approval{Kind: "permission", Title: "more permissions", Cwd: text(p.Get("cwd")), Reason: text(p.Get("reason"))},
		grant: "turn",
		yes:   map[string]any{"permissions": json.RawMessage(orNull(p.Get("permissions"))), "scope": "turn"},
		no:    map[string]any{"permissions": struct{}{}, "scope": "turn"},
	}
}

func orNull(v gjson.Result) string {
	if v.Raw == "" {
		return "{}"
	}
	return v.Raw
}

func (d *driver) approve(f *frame, a asked) {
	if a.yes == nil {
		a.decide(f.method)
	}
	a.frame, a.about.ID, a.about.Risk, a.about.Status = f, d.Inbox.NextAsk(), "unknown", approval.Pending
	d.em.Emit(wire.EventApprovalRequested, &wire.ApprovalChange{Approval: a.about}, []byte(f.raw))
	switch {
	case d.cfg.Approvals == approval.Mailbox && d.End == nil:
		d.ask(&a, d.cfg.ApprovalWait)
	case d.cfg.Approvals.Grant(a.grant, a.offered):
		d.resolve(&a, a.yes, approval.Accepted)
	default:
		d.resolve(&a, a.no, approval.Declined)
	}
}

// question deals with something that only a person can answer: it waits for the
// mailbox, ends the run, or is dismissed, as the policy says.
func (d *driver) question(f *frame, a asked) {
	a.frame, a.about.ID = f, d.Inbox.NextAsk()
	d.em.Emit(wire.EventInputRequested, &wire.InputChange{Request: a.input()}, []byte(f.raw))
	switch {
	case d.cfg.Approvals == approval.Mailbox && d.End == nil:
		d.ask(&a, d.cfg.InputWait)
	case d.cfg.Approvals.Dismisses():
		d.resolve(&a, a.no, approval.Declined)
	default:
		d.unanswered(&a, "the agent asks a question that nobody is here to answer")
	}
}

// toolSpecs is what thread/start advertises.
func (d *driver) toolSpecs() []map[string]any {
	if d.cfg.Tools == nil {
		return nil
	}
	var specs []map[string]any
	for _, s := range d.cfg.Tools.Specs() {
		specs = append(specs, toolSpec(s))
	}
	return specs
}

func toolSpec(s toolbox.Spec) map[string]any {
	return map[string]any{"type": "function", "name": s.Name, "description": s.Description, "inputSchema": s.InputSchema}
}

// callTool runs a host-side tool beside the session.
func (d *driver) callTool(f *frame) {
	called := *f
	name, args := f.params().Get("tool").Str, json.RawMessage(orNull(f.params().Get("arguments")))
	d.Beside(func(ctx context.Context) {
		result := d.cfg.Tools.Call(ctx, name, args)
		d.Post(func() {
			d.Clocks.Progress()
			d.reply(&called, toolResult(result))
		})
	})
}

func toolResult(r toolbox.Result) map[string]any {
	return map[string]any{
		"success":      r.Success,
		"contentItems": []map[string]string{{"type": "inputText", "text": r.Text}},
	}
}
