package openhands

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// clientAction begins the kind of a call that the server leaves to its client. It
// answers the model at once that the call is passed on, and takes no result: that has to
// come as a message.
const clientAction = "ClientAction_"

// resultComes tells the model of it.
const resultComes = "Its result is not in the answer to the call: it comes soon after, as a message that begins with \"Result of\"."

// clientTools describes the host-side tools to the server, nil for none.
func clientTools(box *toolbox.Box) []map[string]any {
	var tools []map[string]any
	for _, s := range box.Specs() {
		tools = append(tools, map[string]any{
			"name": s.Name, "description": strings.TrimSpace(s.Description + " " + resultComes), "parameters": parameters(s.InputSchema),
		})
	}
	return tools
}

// parameters is a tool's schema, with the type that the server insists on.
func parameters(schema json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil || members["type"] != nil {
		return schema
	}
	members["type"] = json.RawMessage(`"object"`)
	typed, err := json.Marshal(members)
	if err != nil {
		return schema
	}
	return typed
}

// missTools says which tools an earlier conversation lacks: it keeps those that it was
// begun with.
func (d *driver) missTools(info gjson.Result) {
	has := make(map[string]bool)
	for _, name := range info.Get("client_tools.#.name").Array() {
		has[name.Str] = true
	}
	for _, s := range d.cfg.Tools.Specs() {
		if !has[s.Name] {
			d.warn("tool", fmt.Sprintf("the conversation was begun without the tool %q, and goes on without; --resume never begins a new one", s.Name))
		}
	}
}

func (c *call) hosted() bool { return strings.HasPrefix(c.kind, clientAction) }

// hostArgs are the arguments of a call: the members of its action but for the kind.
func hostArgs(action gjson.Result) string {
	var args map[string]json.RawMessage
	if err := json.Unmarshal([]byte(action.Raw), &args); err != nil {
		return action.Raw // the tool refuses it
	}
	delete(args, "kind")
	b, err := json.Marshal(args)
	if err != nil {
		return action.Raw
	}
	return string(b)
}

// callTool runs a host-side tool beside the session, once the server has passed the call
// on: before that somebody may still refuse it.
func (d *driver) callTool(c *call, raw []byte) {
	d.hosted++
	id := d.id
	d.Beside(func(ctx context.Context) {
		result := d.cfg.Tools.Call(ctx, c.tool, json.RawMessage(c.args))
		d.Post(func() {
			d.Clocks.Progress()
			d.em.Emit(wire.EventToolCompleted, c.event(&result.Success), raw)
			if d.id == id { // else the conversation was lost meanwhile
				d.sendResult(&hostResult{id: id, text: resultText(c, result), since: d.Clocks.Elapsed()})
			}
		})
	})
}

func resultText(c *call, r toolbox.Result) string {
	how := "Result of"
	if !r.Success {
		how = "Result of the failed"
	}
	return fmt.Sprintf("%s %s (call %s):\n%s", how, c.tool, c.item, r.Text)
}

// hostResult is the result of a host-side tool that the server has not confirmed.
type hostResult struct {
	id       string // of the conversation
	text     string
	since    time.Duration // when it was there
	attempts int64
}

// sendResult gives the agent the result of a tool, in the running turn or for the next.
// Where the agent may wait for leave it comes without a run, which would be the leave. A
// server that is away, as one that is started again, gets it when it is back.
func (d *driver) sendResult(r *hostResult) {
	t := d.turn
	run := t.active && !t.halt.Wanted && d.cfg.Agent.Confirm == ConfirmNever
	d.expect(r.text, nil)
	d.send(requestMessage(d.id, r.text, run, steerLimit), func(_ gjson.Result, err error) {
		status := statusOf(err)
		switch {
		case err == nil, status == http.StatusTooManyRequests: // which has saved it
			d.hosted--
			t.reruns = 0 // the agent has something new to read
			if err != nil && t == d.turn && t.active {
				d.resume()
			}
		case unclear(err):
			d.resendResult(r, err)
		default:
			d.loseResult(r, err)
		}
	})
}

// resendResult sends the result once more after a while, if the log tells by then that it
// was not taken.
func (d *driver) resendResult(r *hostResult, err error) {
	if d.Clocks.Elapsed()-r.since > d.reachLimit() {
		d.loseResult(r, err)
		return
	}
	r.attempts++
	d.retry("tool", err, r.attempts)
	d.After(runAgain, func() {
		if d.id != r.id {
			return
		}
		d.fill(func(err error) {
			switch {
			case !d.expected(r.text):
				d.hosted--
			case err != nil: // a second one would be worse than a late one
				d.resendResult(r, err)
			default:
				d.forgetText(r.text)
				d.sendResult(r)
			}
		})
	})
}

func (d *driver) loseResult(r *hostResult, err error) {
	d.hosted--
	d.forgetText(r.text)
	d.warn("tool", "the agent does not get the result of a tool: "+err.Error())
}
