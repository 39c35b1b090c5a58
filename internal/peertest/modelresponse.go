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

// response is the form of the Responses API: always a stream of events.
type response struct {
	w     http.ResponseWriter
	id    string
	model string
	items []any // done so far
}

func newResponse(w http.ResponseWriter, req *request, number string) form {
	return &response{w: w, id: "resp_" + number, model: req.Model}
}

func (r *response) begin() {
	r.w.Header().Set("Content-Type", "text/event-stream")
	r.event("response.created", map[string]any{"response": r.object("in_progress")})
}

func (r *response) object(status string) map[string]any {
	return map[string]any{"id": r.id, "object": "response", "status": status, "model": r.model}
}

// say streams a message word by word.
func (r *response) say(ctx context.Context, text string, drip time.Duration) bool {
	id := r.itemID("msg")
	message := func(status string, content ...any) map[string]any {
		return map[string]any{
			"type": "message", "role": "assistant", "id": id, "status": status, "content": append([]any{}, content...),
		}
	}
	at := len(r.items)
	r.event("response.output_item.added", map[string]any{"output_index": at, "item": message("in_progress")})
	for i, word := range strings.SplitAfter(text, " ") {
		if i > 0 && !pause(ctx, drip) {
			return false
		}
		r.event("response.output_text.delta", map[string]any{
			"item_id": id, "output_index": at, "content_index": 0, "delta": word,
		})
	}
	r.done(message("completed", map[string]any{"type": "output_text", "text": text, "annotations": []any{}}))
	return ctx.Err() == nil
}

func (r *response) call(c toolCall) {
	if c.custom {
		r.done(map[string]any{
			"type": "custom_tool_call", "id": r.itemID("ct"), "call_id": r.itemID("call"), "name": c.tool, "input": c.input,
		})
		return
	}
	r.done(map[string]any{
		"type": "function_call", "id": r.itemID("fc"), "call_id": r.itemID("call"), "name": c.tool, "arguments": c.input,
	})
}

func (r *response) fail(code, text string) {
	failed := r.object("failed")
	failed["error"] = map[string]string{"code": code, "message": text}
	r.event("response.failed", map[string]any{"response": failed})
}

func (r *response) cut() {} // each event has gone out already

func (r *response) end(u usage) {
	done := r.object("completed")
	done["output"], done["usage"] = r.items, map[string]any{
		"input_tokens":          u.input,
		"input_tokens_details":  map[string]any{"cached_tokens": u.cached},
		"output_tokens":         u.output,
		"output_tokens_details": map[string]any{"reasoning_tokens": u.reasoning},
		"total_tokens":          u.input + u.output,
	}
	r.event("response.completed", map[string]any{"response": done})
}

func (r *response) itemID(prefix string) string {
	return fmt.Sprintf("%s_%s_%d", prefix, r.id, len(r.items))
}

func (r *response) done(it any) {
	r.event("response.output_item.done", map[string]any{"output_index": len(r.items), "item": it})
	r.items = append(r.items, it)
}

// event sends one server-sent event at once. An error means that the client has
// gone, which the request's context tells too.
func (r *response) event(name string, members map[string]any) {
	members["type"] = name
	data, _ := json.Marshal(members) // maps of strings and numbers
	_, _ = io.WriteString(r.w, "event: "+name+"\ndata: "+string(data)+"\n\n")
	_ = http.NewResponseController(r.w).Flush()
}
