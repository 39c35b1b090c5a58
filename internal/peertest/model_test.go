package peertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// conversation is a client that keeps the history, as Codex does.
type conversation struct {
	t     *testing.T
	model *Model
	tools string // JSON
	input []string
}

func converse(t *testing.T, o ModelOptions, tools string) *conversation {
	t.Helper()
	m, err := StartModel(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &conversation{t: t, model: m, tools: tools}
}

func (c *conversation) user(text string) {
	c.input = append(c.input, fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`, text))
}

func (c *conversation) result(call gjson.Result, output string) {
	c.input = append(c.input, fmt.Sprintf(`{"type":%q,"call_id":%q,"output":%q}`,
		call.Get("type").String()+"_output", call.Get("call_id").String(), output))
}

// post sends the conversation and returns the status and the body.
func (c *conversation) post() (int, string) {
	c.t.Helper()
	body := fmt.Sprintf(`{"model":"m","prompt_cache_key":"t1","tools":%s,"input":[%s]}`, c.tools, strings.Join(c.input, ","))
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.model.URL()+"/responses", strings.NewReader(body))
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

// ask is post for an answer that succeeds: it keeps the items and returns the
// response of the last event.
func (c *conversation) ask() gjson.Result {
	c.t.Helper()
	status, body := c.post()
	if status != http.StatusOK {
		c.t.Fatalf("status %d: %s", status, body)
	}
	var last gjson.Result
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			last = gjson.Parse(data)
		}
	}
	if got := last.Get("type").String(); got != "response.completed" {
		c.t.Fatalf("last event is %q in\n%s", got, body)
	}
	for _, it := range last.Get("response.output").Array() {
		c.input = append(c.input, it.Raw)
	}
	return last.Get("response")
}

const execTool = `[{"type":"function","name":"exec_command"},{"type":"web_search"}]`

func said(r gjson.Result) string {
	return r.Get(`output.#(type=="message").content.0.text`).String()
}

func TestModelWalksThroughSteps(t *testing.T) {
	c := converse(t, ModelOptions{}, execTool)
	c.user("<environment_context>\n@say not me\n</environment_context>")
	c.user("# AGENTS.md instructions for /x\n@say nor me")
	c.user("Issue ABC-1 of @alice\n\n  @say first\n@run echo hi\n@call look {\"at\":1}\n@say saw $OUTPUT")

	r := c.ask()
	call := r.Get("output.1")
	if said(r) != "first" || call.Get("name").String() != "exec_command" || call.Get("arguments").String() != `{"cmd":"echo hi"}` {
		t.Fatalf("first answer: %s", r.Raw)
	}
	c.result(call, "hi")
	r = c.ask()
	call = r.Get("output.0")
	if call.Get("name").String() != "look" || call.Get("arguments").String() != `{"at":1}` {
		t.Fatalf("second answer: %s", r.Raw)
	}
	c.result(call, "a cat")
	if r = c.ask(); said(r) != "saw a cat" {
		t.Fatalf("third answer: %s", r.Raw)
	}
	c.user("go on")
	if r = c.ask(); said(r) != "done: go on" {
		t.Fatalf("a prompt without steps: %s", r.Raw)
	}
}

func TestModelShellTools(t *testing.T) {
	tests := []struct{ tools, name, arguments string }{
		{execTool, "exec_command", `{"cmd":"true"}`},
		{`[{"type":"function","name":"shell_command"}]`, "shell_command", `{"command":"true"}`},
		{`[]`, "shell", `{"command":["bash","-lc","true"]}`},
	}
	for _, tt := range tests {
		c := converse(t, ModelOptions{}, tt.tools)
		c.user("@run true")
		call := c.ask().Get("output.0")
		if call.Get("name").String() != tt.name || call.Get("arguments").String() != tt.arguments {
			t.Errorf("with tools %s: %s", tt.tools, call.Raw)
		}
	}
}

func TestModelPatches(t *testing.T) {
	const block = "*** Begin Patch\n*** Add File: a.txt\n+hello you\n*** End Patch\n"
	tests := []struct{ tools, prompt, path, want string }{
		{`[{"type":"custom","name":"apply_patch"}]`, "@patch\n" + block, "input", block},
		{`[{"type":"custom","name":"apply_patch"}]`, "@patch a.txt hello you", "input", block},
		{`[{"type":"function","name":"apply_patch"}]`, "@patch a.txt hello you", "arguments", object("input", block)},
		{execTool, "@patch a.txt hello you", "arguments", object("cmd", "apply_patch <<'EOF'\n"+block+"EOF\n")},
	}
	for _, tt := range tests {
		c := converse(t, ModelOptions{}, tt.tools)
		c.user(tt.prompt)
		if got := c.ask().Get("output.0." + tt.path).String(); got != tt.want {
			t.Errorf("%q with %s:\n%s\nwant\n%s", tt.prompt, tt.tools, got, tt.want)
		}
	}
}

func TestModelSteeredText(t *testing.T) {
	c := converse(t, ModelOptions{}, execTool)
	c.user("@run one\n@run two\n@say heard $STEERED")
	c.result(c.ask().Get("output.0"), "1")
	c.user("be quick")
	call := c.ask().Get("output.0")
	if got := call.Get("arguments").String(); got != `{"cmd":"two"}` {
		t.Fatalf("a steered text without steps made a new prompt: %s", got)
	}
	c.result(call, "2")
	if got := said(c.ask()); got != "heard be quick" {
		t.Errorf("said %q", got)
	}

	c.user("@run three\n@say not reached")
	c.result(c.ask().Get("output.0"), "3")
	c.user("stop that\n@say a new prompt")
	if got := said(c.ask()); got != "a new prompt" {
		t.Errorf("a steered text with steps: said %q", got)
	}

	c.user("@run four\n@say not reached")
	c.result(c.ask().Get("output.0"), "aborted by user")
	c.user("<turn_aborted>\nThe user interrupted the turn.\n</turn_aborted>")
	c.user("again")
	if got := said(c.ask()); got != "done: again" {
		t.Errorf("after an interrupted turn: said %q", got)
	}
}

func TestModelFails(t *testing.T) {
	c := converse(t, ModelOptions{}, execTool)
	c.user("@fail 500 2\n@say at last")
	for i := range 2 {
		if status, body := c.post(); status != 500 || gjson.Get(body, "error.type").String() != "server_error" {
			t.Fatalf("try %d: %d %s", i+1, status, body)
		}
	}
	if got := said(c.ask()); got != "at last" {
		t.Errorf("third try: said %q", got)
	}

	c.user(`@fail 429 {"error":{"type":"usage_limit_reached","resets_at":5}}`)
	for range 3 {
		if status, body := c.post(); status != 429 || gjson.Get(body, "error.resets_at").Int() != 5 {
			t.Fatalf("%d %s", status, body)
		}
	}

	c.user("@abort context_length_exceeded too long")
	if _, body := c.post(); !strings.Contains(body, "event: response.failed") || !strings.Contains(body, `"context_length_exceeded"`) {
		t.Errorf("abort: %s", body)
	}
	c.user("@say half\n@cut")
	if _, body := c.post(); !strings.Contains(body, "half") || !strings.Contains(body, "[unexpected EOF]") {
		t.Errorf("cut: %s", body)
	}
	c.user("@call look {")
	if status, body := c.post(); status != 400 || !strings.Contains(body, "line 1: @call") {
		t.Errorf("a broken step: %d %s", status, body)
	}
}

func TestModelUsage(t *testing.T) {
	c := converse(t, ModelOptions{}, execTool)
	c.user("@usage 1000 200 30 4\n@drip 1ms\n@delay 1ms\n@say one two")
	r := c.ask()
	want := `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":200},"output_tokens":30,` +
		`"output_tokens_details":{"reasoning_tokens":4},"total_tokens":1030}`
	if got := r.Get("usage").Raw; got != want || said(r) != "one two" {
		t.Errorf("got  %s\nwant %s\nsaid %q", got, want, said(r))
	}
}

// A model that waits for an hour is closed at once, and so is its client.
func TestModelCloseAbandonsAnswers(t *testing.T) {
	m, err := StartModel(ModelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body := `{"input":[{"type":"message","role":"user","content":"@delay 1h"}]}`
	resp, err := http.Post(m.URL()+"/responses", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(resp.Body)
		read <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-read:
		if err == nil {
			t.Error("the answer ended as if it were whole")
		}
	case <-time.After(10 * time.Second):
		t.Error("the client still waits")
	}
}

func TestModelScript(t *testing.T) {
	script, err := ParseScript("# rules\n\nmatch (?i)tests?$\n@run make test\n@say tested\n\nmatch .\n@say anything\n")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	c := converse(t, ModelOptions{Script: script, Log: &log}, execTool)
	c.user("Run the TESTS")
	call := c.ask().Get("output.0")
	c.result(call, "ok")
	if got := said(c.ask()); got != "tested" {
		t.Errorf("first rule: said %q", got)
	}
	c.user("hello")
	if got := said(c.ask()); got != "anything" {
		t.Errorf("second rule: said %q", got)
	}
	c.user("@say my own")
	if got := said(c.ask()); got != "my own" {
		t.Errorf("steps of the prompt: said %q", got)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines in the log", len(lines))
	}
	second := gjson.Parse(lines[1])
	if second.Get("prompt").String() != "Run the TESTS" || second.Get("results").Int() != 1 ||
		second.Get("output").String() != "ok" || second.Get("tools.0").String() != "exec_command" || !second.Get("body.input").IsArray() {
		t.Errorf("log line: %s", lines[1])
	}
}

func TestParseScriptErrors(t *testing.T) {
	for text, want := range map[string]string{
		"@say x":               "stands before any match",
		"match (":              "rule at line 1",
		"match x\n@fail 200":   "no HTTP status of an error",
		"match x\n@fail 500 0": "no number of times",
		"match x\n@fail 500 {": "is not JSON",
		"match x\n@run":        "nothing follows",
		"match x\n@call":       "no tool is named",
		"match x\n@delay soon": "invalid duration",
		"match x\n@usage 1 2":  "2 of 4 numbers",
		"match x\n@abort":      "no error code",
		"match x\n@patch":      "neither",
	} {
		if _, err := ParseScript(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestModelsList(t *testing.T) {
	c := converse(t, ModelOptions{}, execTool)
	resp, err := http.Get(c.model.URL() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var list struct {
		Object string `json:"object"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil || list.Object != "list" {
		t.Errorf("list %+v, %v", list, err)
	}
}
