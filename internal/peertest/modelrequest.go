package peertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// request is what the model reads of POST /v1/responses. A request of another API is
// brought into this form.
type request struct {
	Model    string     `json:"model"`
	Input    []item     `json:"input"`
	Tools    []toolSpec `json:"tools"`
	CacheKey string     `json:"prompt_cache_key"` // Codex: the thread's id
	Stream   bool       `json:"stream"`

	raw json.RawMessage
}

type toolSpec struct {
	Type string `json:"type"` // function, custom, …
	Name string `json:"name"`
}

// item is one entry of the conversation so far.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`

	joined bool // a user text behind another one, with no answer between them
}

func readRequest(r *http.Request) (*request, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	req := &request{raw: body}
	if err := json.Unmarshal(body, req); err != nil {
		return nil, fmt.Errorf("decode request: %w", err)
	}
	if len(req.Input) == 0 {
		return nil, errors.New("request has no input")
	}
	return req, nil
}

func readBody(r *http.Request) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" {
		return nil, fmt.Errorf("content encoding %q is not understood", enc)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return body, nil
}

// tools returns the type of each tool that the client offers, by name.
func (r *request) tools() map[string]string {
	types := map[string]string{}
	for _, t := range r.Tools {
		if t.Name != "" {
			types[t.Name] = t.Type
		}
	}
	return types
}

// turn is where a conversation stands.
type turn struct {
	number  int      // prompts so far
	prompt  string   // the text whose steps are followed
	steered []string // user texts since then
	results int      // tool results since then
	output  string   // the newest of them
}

// turn finds the newest prompt. A user text that comes while the model works, that
// is behind a tool call and before an answer, was steered into the turn: it is a
// prompt of its own only if it has steps, by itself or by a rule.
func (r *request) turn(script *Script) turn {
	var t turn
	working := false
	for i := range r.Input {
		it := &r.Input[i]
		switch it.Type {
		case "message", "":
			if it.Role == "assistant" {
				working = false
			}
			if it.Role != "user" {
				continue
			}
			text := plain(it.Content)
			switch {
			case strings.HasPrefix(strings.TrimSpace(text), "<turn_aborted>"):
				working = false
			case !spoken(text):
			case (working || it.joined) && !script.hasSteps(text):
				t.steered = append(t.steered, text)
			default:
				t = turn{number: t.number + 1, prompt: text}
			}
		case "function_call", "custom_tool_call", "local_shell_call":
			working = true
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
			working = true
			t.results++
			t.output = plain(it.Output)
		}
	}
	return t
}

// hasSteps reports whether text brings steps of its own or a rule has some for it. It
// is true for broken steps too, so that their author hears of them.
func (s *Script) hasSteps(text string) bool {
	steps, err := s.steps(text)
	return err != nil || len(steps) > 0
}

// spoken reports whether a user text is from the user, and not one of those with
// which a client describes the surroundings.
func spoken(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && !strings.HasPrefix(text, "<environment_context>") &&
		!strings.HasPrefix(text, "<user_instructions>") && !strings.HasPrefix(text, "# AGENTS.md instructions")
}

// plain returns the text of a content: a string, or a list of parts with a text
// each.
func plain(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
