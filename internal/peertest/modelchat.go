package peertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// finishTool is the tool with which an OpenHands agent ends its run.
const finishTool = "finish"

// chatRequest is what the model reads of POST /v1/chat/completions.
type chatRequest struct {
	Model    string        `json:"model"`
	Messages []chatMessage `json:"messages"`
	Stream   bool          `json:"stream"`
	CacheKey string        `json:"prompt_cache_key"` // OpenHands: the conversation's id
	Tools    []struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"tool_call_id"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func readChat(r *http.Request) (*request, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	var chat chatRequest
	if err := json.Unmarshal(body, &chat); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	if len(chat.Messages) == 0 {
		return nil, errors.New("request has no messages")
	}
	req := &request{Model: chat.Model, Stream: chat.Stream, CacheKey: chat.CacheKey, Input: chat.items(), raw: body}
	for _, t := range chat.Tools {
		req.Tools = append(req.Tools, toolSpec{Type: t.Type, Name: t.Function.Name})
	}
	return req, nil
}

// items returns the conversation in the form of the Responses API. A finish call ends
// the work as a message does, so it becomes one, and its result is left out.
func (c *chatRequest) items() []item {
	var items []item
	finished := map[string]bool{}
	for _, m := range c.Messages {
		if m.Role == "tool" {
			if !finished[m.CallID] {
				items = append(items, item{Type: "function_call_output", Output: m.Content})
			}
			continue
		}
		items = append(items, m.messages()...)
		for _, call := range m.ToolCalls {
			if finished[call.ID] = call.Function.Name == finishTool; !finished[call.ID] {
				items = append(items, item{Type: "function_call"})
			}
		}
	}
	return items
}

// messages returns one item for each text of a message. OpenHands makes one message of
// user texts that follow each other: all but the first came while the model worked.
func (m *chatMessage) messages() []item {
	var parts []json.RawMessage
	if m.Role != "user" || json.Unmarshal(m.Content, &parts) != nil {
		return []item{{Type: "message", Role: m.Role, Content: m.Content}}
	}
	var items []item
	for i, part := range parts {
		content := append(append([]byte{'['}, part...), ']')
		items = append(items, item{Type: "message", Role: m.Role, Content: content, joined: i > 0})
	}
	return items
}

// completion is the form of the Chat Completions API: one JSON object at the end, or
// a stream of chunks where the client asked for it.
type completion struct {
	w      http.ResponseWriter
	id     string
	model  string
	stream bool
	text   strings.Builder
	calls  []any
}

func newCompletion(w http.ResponseWriter, req *request, number string) form {
	return &completion{w: w, id: "chatcmpl-" + number, model: req.Model, stream: req.Stream}
}

func (c *completion) begin() {
	if !c.stream {
		c.w.Header().Set("Content-Type", "application/json")
		return
	}
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.delta(map[string]any{"role": "assistant", "content": ""})
}

func (c *completion) say(ctx context.Context, text string, drip time.Duration) bool {
	for i, word := range strings.SplitAfter(text, " ") {
		if i > 0 && !pause(ctx, drip) {
			return false
		}
		c.text.WriteString(word)
		c.delta(map[string]any{"content": word})
	}
	return ctx.Err() == nil
}

func (c *completion) call(t toolCall) {
	call := map[string]any{
		"id": fmt.Sprintf("call_%s_%d", c.id, len(c.calls)), "type": "function",
		"function": map[string]any{"name": t.tool, "arguments": t.input},
	}
	c.calls = append(c.calls, call)
	part := map[string]any{"index": len(c.calls) - 1}
	for name, value := range call {
		part[name] = value
	}
	c.delta(map[string]any{"tool_calls": []any{part}})
}

// fail is an error among the chunks, or the status 400 as for a request that the
// provider refuses.
func (c *completion) fail(code, text string) {
	failed := map[string]any{"error": map[string]any{
		"type": "invalid_request_error", "code": code, "message": text, "param": nil,
	}}
	if c.stream {
		c.chunk(failed)
		return
	}
	c.w.WriteHeader(http.StatusBadRequest)
	c.write(failed)
}

// cut sends half of an object, so that the client sees its answer begin.
func (c *completion) cut() {
	if !c.stream {
		_, _ = io.WriteString(c.w, `{"id":"`+c.id)
		_ = http.NewResponseController(c.w).Flush()
	}
}

func (c *completion) end(u usage) {
	reason := "stop"
	if len(c.calls) > 0 {
		reason = "tool_calls"
	}
	if c.stream {
		c.chunk(c.object("chat.completion.chunk", map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": reason}))
		last := c.object("chat.completion.chunk")
		last["usage"] = c.usage(u)
		c.chunk(last)
		c.send("[DONE]")
		return
	}
	message := map[string]any{"role": "assistant", "content": c.text.String()}
	if len(c.calls) > 0 {
		message["tool_calls"] = c.calls
	}
	whole := c.object("chat.completion", map[string]any{"index": 0, "message": message, "finish_reason": reason})
	whole["usage"] = c.usage(u)
	c.write(whole)
}

func (c *completion) object(kind string, choices ...any) map[string]any {
	return map[string]any{
		"id": c.id, "object": kind, "created": 1, "model": c.model, "choices": append([]any{}, choices...),
	}
}

func (c *completion) usage(u usage) map[string]any {
	return map[string]any{
		"prompt_tokens": u.input, "completion_tokens": u.output, "total_tokens": u.input + u.output,
		"prompt_tokens_details":     map[string]any{"cached_tokens": u.cached},
		"completion_tokens_details": map[string]any{"reasoning_tokens": u.reasoning},
	}
}

// delta is one chunk of a stream; without one, the whole at the end has it.
func (c *completion) delta(part map[string]any) {
	if c.stream {
		c.chunk(c.object("chat.completion.chunk", map[string]any{"index": 0, "delta": part, "finish_reason": nil}))
	}
}

func (c *completion) chunk(members map[string]any) {
	data, _ := json.Marshal(members) // maps of strings and numbers
	c.send(string(data))
}

// send and write do not tell of a client that has gone: the request's context does.
func (c *completion) send(data string) {
	_, _ = io.WriteString(c.w, "data: "+data+"\n\n")
	_ = http.NewResponseController(c.w).Flush()
}

func (c *completion) write(members map[string]any) {
	data, _ := json.Marshal(members) // as in chunk
	_, _ = c.w.Write(data)
}
