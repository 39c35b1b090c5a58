package peertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// usage is the token counts of one answer.
type usage struct{ input, cached, output, reasoning int64 }

// usualUsage is what an answer costs that no @usage step prices.
var usualUsage = usage{input: 100, cached: 30, output: 20, reasoning: 5}

func (u usage) object() map[string]any {
	return map[string]any{
		"input_tokens":          u.input,
		"input_tokens_details":  map[string]any{"cached_tokens": u.cached},
		"output_tokens":         u.output,
		"output_tokens_details": map[string]any{"reasoning_tokens": u.reasoning},
		"total_tokens":          u.input + u.output,
	}
}

// answer is one response on its way to the client: server-sent events. It belongs
// to the goroutine of its request.
type answer struct {
	ctx   context.Context
	w     http.ResponseWriter
	req   *request
	turn  turn
	id    string
	usage usage

	drip  time.Duration
	items []any // done so far
}

// send streams what the steps ask for and the frame around it. It stops, silently,
// where the client has gone.
func (a *answer) send(steps []order) {
	a.w.Header().Set("Content-Type", "text/event-stream")
	a.event("response.created", map[string]any{"response": a.response("in_progress")})
	for i := range steps {
		if !a.do(&steps[i]) {
			return
		}
	}
	if len(a.items) == 0 {
		a.say("done: " + firstLine(a.turn.prompt))
	}
	done := a.response("completed")
	done["output"], done["usage"] = a.items, a.usage.object()
	a.event("response.completed", map[string]any{"response": done})
}

// do takes one step and reports whether the answer goes on.
func (a *answer) do(s *order) bool {
	switch s.verb {
	case verbDelay:
		return pause(a.ctx, s.wait)
	case verbDrip:
		a.drip = s.wait
	case verbUsage:
		a.usage = s.usage
	case verbSay:
		a.say(a.expand(s.text))
	case verbRun:
		a.run(s.text)
	case verbCall:
		a.call(s.name, s.text)
	case verbPatch:
		a.patch(s.text)
	case verbAbort:
		failed := a.response("failed")
		failed["error"] = map[string]string{"code": s.name, "message": s.text}
		a.event("response.failed", map[string]any{"response": failed})
		return false
	case verbCut:
		// The one way of net/http to close the connection without an end.
		panic(http.ErrAbortHandler)
	}
	return a.ctx.Err() == nil
}

func (a *answer) expand(text string) string {
	return strings.NewReplacer("$OUTPUT", a.turn.output, "$STEERED", strings.Join(a.turn.steered, " / ")).Replace(text)
}

func (a *answer) response(status string) map[string]any {
	return map[string]any{"id": a.id, "object": "response", "status": status, "model": a.req.Model}
}

// say streams a message word by word.
func (a *answer) say(text string) {
	id := fmt.Sprintf("msg_%s_%d", a.id, len(a.items))
	message := func(status string, content ...any) map[string]any {
		return map[string]any{
			"type": "message", "role": "assistant", "id": id, "status": status, "content": append([]any{}, content...),
		}
	}
	at := len(a.items)
	a.event("response.output_item.added", map[string]any{"output_index": at, "item": message("in_progress")})
	for i, word := range strings.SplitAfter(text, " ") {
		if i > 0 && !pause(a.ctx, a.drip) {
			return
		}
		a.event("response.output_text.delta", map[string]any{
			"item_id": id, "output_index": at, "content_index": 0, "delta": word,
		})
	}
	a.done(message("completed", map[string]any{"type": "output_text", "text": text, "annotations": []any{}}))
}

// run calls whichever shell tool the client offers.
func (a *answer) run(command string) {
	tools := a.req.tools()
	switch {
	case tools["exec_command"] != "":
		a.call("exec_command", object("cmd", command))
	case tools["shell_command"] != "":
		a.call("shell_command", object("command", command))
	default:
		a.call("shell", object("command", []string{"bash", "-lc", command}))
	}
}

// patch calls apply_patch where the client has such a tool. Codex has it for
// models it knows only, but takes the shell form from every model.
func (a *answer) patch(text string) {
	switch a.req.tools()["apply_patch"] {
	case "custom":
		a.done(map[string]any{
			"type": "custom_tool_call", "id": a.itemID("ct"), "call_id": a.itemID("call"), "name": "apply_patch", "input": text,
		})
	case "function":
		a.call("apply_patch", object("input", text))
	default:
		a.run("apply_patch <<'EOF'\n" + text + "EOF\n")
	}
}

func (a *answer) call(tool, arguments string) {
	a.done(map[string]any{
		"type": "function_call", "id": a.itemID("fc"), "call_id": a.itemID("call"), "name": tool, "arguments": arguments,
	})
}

func (a *answer) itemID(prefix string) string {
	return fmt.Sprintf("%s_%s_%d", prefix, a.id, len(a.items))
}

func (a *answer) done(it any) {
	a.event("response.output_item.done", map[string]any{"output_index": len(a.items), "item": it})
	a.items = append(a.items, it)
}

// event sends one server-sent event at once. An error means that the client has
// gone, which the request's context tells too.
func (a *answer) event(name string, members map[string]any) {
	members["type"] = name
	data, _ := json.Marshal(members) // maps of strings and numbers
	_, _ = io.WriteString(a.w, "event: "+name+"\ndata: "+string(data)+"\n\n")
	_ = http.NewResponseController(a.w).Flush()
}

func object(key string, value any) string {
	b, _ := json.Marshal(map[string]any{key: value}) // strings only
	return string(b)
}

// firstLine returns the first line that is not blank, cut to what a test reads.
func firstLine(text string) string {
	const limit = 80
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(line); len(r) > limit {
		line = string(r[:limit])
	}
	return line
}
