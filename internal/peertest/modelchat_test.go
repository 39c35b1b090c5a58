package peertest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// chat is a client that keeps its history, as OpenHands does: user texts that follow
// each other are parts of one message.
type chat struct {
	t        *testing.T
	model    *Model
	key      string
	stream   bool
	messages []map[string]any
}

func startChat(t *testing.T, o ModelOptions) *chat {
	t.Helper()
	return &chat{t: t, model: converse(t, o, "[]").model, key: "c1"}
}

func (c *chat) user(texts ...string) {
	var parts []any
	for _, text := range texts {
		parts = append(parts, map[string]string{"type": "text", "text": text})
	}
	c.messages = append(c.messages, map[string]any{"role": "user", "content": parts})
}

func (c *chat) result(call gjson.Result, output string) {
	c.messages = append(c.messages, map[string]any{
		"role": "tool", "tool_call_id": call.Get("id").String(), "content": []any{map[string]string{"type": "text", "text": output}},
	})
}

func (c *chat) post() (int, string) {
	c.t.Helper()
	tool := func(name string) any {
		return map[string]any{"type": "function", "function": map[string]string{"name": name}}
	}
	body, err := json.Marshal(map[string]any{
		"model": "scripted", "prompt_cache_key": c.key, "stream": c.stream, "messages": c.messages,
		"tools": []any{tool("terminal"), tool("finish")},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.model.URL()+"/chat/completions", strings.NewReader(string(body)))
	if err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(b) + "[" + err.Error() + "]"
	}
	return resp.StatusCode, string(b)
}

// ask is post for an answer that succeeds: it keeps the message and returns the whole
// completion.
func (c *chat) ask() gjson.Result {
	c.t.Helper()
	status, body := c.post()
	if status != http.StatusOK {
		c.t.Fatalf("status %d: %s", status, body)
	}
	answer := gjson.Parse(body)
	c.messages = append(c.messages, answer.Get("choices.0.message").Value().(map[string]any))
	return answer
}

func content(r gjson.Result) string      { return r.Get("choices.0.message.content").String() }
func called(r gjson.Result) gjson.Result { return r.Get("choices.0.message.tool_calls.0") }

func TestChatWalksThroughSteps(t *testing.T) {
	c := startChat(t, ModelOptions{})
	c.messages = append(c.messages, map[string]any{"role": "system", "content": "@say not me"})
	c.user("Issue ABC-1\n@say first\n@run echo hi\n@call finish {\"message\":\"saw it\"}")

	r := c.ask()
	call := called(r)
	if content(r) != "first" || call.Get("function.name").String() != "terminal" ||
		call.Get("function.arguments").String() != `{"command":"echo hi"}` || r.Get("choices.0.finish_reason").String() != "tool_calls" {
		t.Fatalf("first answer: %s", r.Raw)
	}
	c.result(call, "hi")
	r = c.ask()
	finish := called(r)
	if finish.Get("function.name").String() != "finish" || finish.Get("id").String() == call.Get("id").String() {
		t.Fatalf("second answer: %s", r.Raw)
	}
	// A finish call has ended the work: what follows is a prompt, not a steered text.
	c.result(finish, "saw it")
	c.user("go on")
	if r = c.ask(); content(r) != "done: go on" || r.Get("choices.0.finish_reason").String() != "stop" {
		t.Fatalf("a prompt after finish: %s", r.Raw)
	}
}

func TestChatSteeredText(t *testing.T) {
	c := startChat(t, ModelOptions{})
	c.user("@run one\n@say heard $STEERED", "be quick")
	r := c.ask()
	if got := called(r).Get("function.arguments").String(); got != `{"command":"one"}` {
		t.Fatalf("a text in the same message took the place of the prompt: %s", r.Raw)
	}
	c.result(called(r), "1")
	c.user("be brief")
	if got := content(c.ask()); got != "heard be quick / be brief" {
		t.Errorf("said %q", got)
	}
	c.user("@delay 1h", "@say instead")
	if got := content(c.ask()); got != "instead" {
		t.Errorf("a second text with steps: said %q", got)
	}
}

func TestChatUsage(t *testing.T) {
	c := startChat(t, ModelOptions{})
	c.user("@usage 1000 200 30 4\n@drip 1ms\n@say one two")
	want := `{"completion_tokens":30,"completion_tokens_details":{"reasoning_tokens":4},"prompt_tokens":1000,` +
		`"prompt_tokens_details":{"cached_tokens":200},"total_tokens":1030}`
	if r := c.ask(); r.Get("usage").Raw != want || content(r) != "one two" {
		t.Errorf("got %s\nwant the usage %s", r.Raw, want)
	}
}

func TestChatFails(t *testing.T) {
	c := startChat(t, ModelOptions{})
	for text, want := range map[string]struct {
		status int
		body   string
	}{
		"@fail 401": {401, `"type":"invalid_api_key"`},
		"@fail 429": {429, `"type":"rate_limit_exceeded"`},
		"@fail 500": {500, `"type":"server_error"`},
		"@abort context_length_exceeded too long": {400, `"code":"context_length_exceeded"`},
		"@say half\n@cut":                         {200, `[unexpected EOF]`},
		"@call look {":                            {400, `line 1: @call`},
	} {
		c.messages = nil
		c.user(text)
		if status, body := c.post(); status != want.status || !strings.Contains(body, want.body) {
			t.Errorf("%q: %d %s", text, status, body)
		}
	}

	// Failures are counted in each conversation by itself.
	c.messages = nil
	c.user("@fail 500 1\n@say at last")
	for _, key := range []string{"c2", "c3"} {
		c.key = key
		if status, body := c.post(); status != 500 {
			t.Errorf("%s: %d %s", key, status, body)
		}
		if _, body := c.post(); content(gjson.Parse(body)) != "at last" {
			t.Errorf("%s again: %s", key, body)
		}
	}
	c.messages = nil
	if status, body := c.post(); status != 400 || !strings.Contains(body, "no messages") {
		t.Errorf("nothing asked: %d %s", status, body)
	}
}

func TestChatStreams(t *testing.T) {
	c := startChat(t, ModelOptions{})
	c.stream = true
	c.user("@drip 1ms\n@say one two\n@run true")
	_, body := c.post()
	var text, arguments, reason string
	var tokens int64
	for line := range strings.Lines(body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		chunk := gjson.Parse(data)
		text += chunk.Get("choices.0.delta.content").String()
		arguments += chunk.Get("choices.0.delta.tool_calls.0.function.arguments").String()
		reason += chunk.Get("choices.0.finish_reason").String()
		tokens += chunk.Get("usage.total_tokens").Int()
	}
	if text != "one two" || arguments != `{"command":"true"}` || reason != "tool_calls" || tokens != 120 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("text %q, arguments %q, reason %q, %d tokens in\n%s", text, arguments, reason, tokens, body)
	}

	c.messages = nil
	c.user("@say half\n@cut")
	if _, body := c.post(); !strings.Contains(body, `"content":"half"`) || !strings.Contains(body, "[unexpected EOF]") {
		t.Errorf("cut: %s", body)
	}
	c.messages = nil
	c.user("@abort context_length_exceeded too long")
	if _, body := c.post(); !strings.Contains(body, `data: {"error":{"code":"context_length_exceeded"`) || strings.Contains(body, "[DONE]") {
		t.Errorf("abort: %s", body)
	}
}
