package openhands

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ostoolkit/internal/openhands"
	"ostoolkit/internal/session"
)

// settings is the section openhands of a workflow. Each key has one or two older
// spellings.
type settings struct {
	url, command, apiKeyEnv      string
	model, baseURLEnv, llmKeyEnv string
	llm                          map[string]any
	maxIterations                int
	stuck                        bool
	confirm, reuse               string
	tools                        []string
	condenser                    map[string]any

	urlKey, commandKey string   // as the user spelled them
	unused             []string // keys without effect
}

// Defaults of keys that the section does not have.
const (
	defaultModel         = "openai/gpt-5.4"
	defaultMaxIterations = 500
	defaultURL           = "http://127.0.0.1:8000"
)

// section reads a map and remembers what went wrong first.
type section struct {
	all  map[string]any
	err  error
	used map[string]bool
}

// find returns the value of the first of the keys that is there.
func (s *section) find(keys ...string) (any, string) {
	for _, key := range keys {
		if v, ok := lookUp(s.all, key); ok {
			s.used[key] = true
			return v, key
		}
	}
	return nil, ""
}

// unused returns the keys below m that nobody has asked for.
func (s *section) unused(prefix string, m map[string]any) []string {
	var keys []string
	for name, v := range m {
		key := prefix + name
		inner, isMap := v.(map[string]any)
		switch {
		case s.used[key] || v == nil:
		case isMap:
			keys = append(keys, s.unused(key+".", inner)...)
		default:
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func lookUp(m map[string]any, key string) (any, bool) {
	head, rest, more := strings.Cut(key, ".")
	v, ok := m[head]
	if !ok || !more {
		return v, ok && v != nil
	}
	inner, ok := v.(map[string]any)
	if !ok {
		return nil, false
	}
	return lookUp(inner, rest)
}

func (s *section) fail(key string, v any, want string) {
	if s.err == nil {
		s.err = fmt.Errorf("openhands.%s: %v is not %s", key, v, want)
	}
}

func (s *section) text(to *string, keys ...string) (key string) {
	v, key := s.find(keys...)
	switch v := v.(type) {
	case nil:
	case string:
		*to = v
	default:
		s.fail(key, v, "a text")
	}
	return key
}

func (s *section) word(to *string, words []string, keys ...string) {
	if key := s.text(to, keys...); key != "" && !slices.Contains(words, *to) {
		s.fail(key, strconv.Quote(*to), "one of "+strings.Join(words, ", "))
	}
}

func (s *section) count(to *int, keys ...string) {
	switch v, key := s.find(keys...); v := v.(type) {
	case nil:
	case int64:
		if *to = int(v); v < 1 || v > 1<<31 {
			s.fail(key, v, "a number from 1 on")
		}
	case string:
		n, err := strconv.Atoi(v)
		if *to = n; err != nil || n < 1 {
			s.fail(key, strconv.Quote(v), "a number from 1 on")
		}
	default:
		s.fail(key, v, "a number")
	}
}

func (s *section) yes(to *bool, keys ...string) {
	switch v, key := s.find(keys...); v := v.(type) {
	case nil:
	case bool:
		*to = v
	default:
		s.fail(key, v, "true or false")
	}
}

// readSettings reads the section as the workflow has it, nil for none.
func readSettings(raw map[string]any) (*settings, error) {
	s := &section{all: raw, used: make(map[string]bool)}
	out := &settings{
		model: defaultModel, baseURLEnv: "LLM_BASE_URL", llmKeyEnv: "LLM_API_KEY", maxIterations: defaultMaxIterations,
		stuck: true, confirm: openhands.ConfirmNever, reuse: session.ReusePerIssue, tools: []string{"terminal", "file_editor"},
	}
	out.urlKey = s.text(&out.url, "server.url", "transport.base_url")
	out.commandKey = s.text(&out.command, "server.command", "local_server.command")
	s.text(&out.apiKeyEnv, "server.api_key_env", "transport.session_api_key_env")
	s.text(&out.model, "llm.model", "conversation.agent.llm.model")
	s.text(&out.baseURLEnv, "llm.base_url_env", "conversation.agent.llm.base_url_env")
	s.text(&out.llmKeyEnv, "llm.api_key_env", "conversation.agent.llm.api_key_env")
	s.count(&out.maxIterations, "conversation.max_iterations")
	s.yes(&out.stuck, "conversation.stuck_detection")
	s.word(&out.reuse, reuseWords, "conversation.reuse_policy")
	out.readConfirm(s)
	out.readTools(s)
	out.readLLM(s)
	out.readCondenser(s)
	out.unused = s.unused("", raw)
	return out, s.err
}

func (out *settings) readConfirm(s *section) {
	s.word(&out.confirm, confirmWords, "conversation.confirm")
	kind := ""
	if key := s.text(&kind, "conversation.confirmation_policy.kind"); key != "" {
		words := map[string]string{"NeverConfirm": openhands.ConfirmNever, "AlwaysConfirm": openhands.ConfirmAlways, "ConfirmRisky": openhands.ConfirmRisky}
		if out.confirm = words[kind]; out.confirm == "" {
			s.fail(key, strconv.Quote(kind), "one of "+strings.Join(slices.Sorted(maps.Keys(words)), ", "))
		}
	}
}

func (out *settings) readTools(s *section) {
	v, key := s.find("conversation.tools", "conversation.agent.tools")
	if v == nil {
		return
	}
	list, ok := v.([]any)
	if !ok {
		s.fail(key, v, "a list")
		return
	}
	out.tools = nil
	for _, item := range list {
		name, ok := item.(string)
		if m, isMap := item.(map[string]any); isMap {
			name, ok = m["name"].(string)
		}
		if !ok {
			s.fail(key, item, "a tool's name")
		}
		out.tools = append(out.tools, name)
	}
}

// readLLM takes what the section says of the model besides what has a key of its own.
func (out *settings) readLLM(s *section) {
	v, key := s.find("llm.options")
	if v == nil {
		return
	}
	options, ok := v.(map[string]any)
	if !ok {
		s.fail(key, v, "a map")
		return
	}
	for name := range options {
		if isSecret(name) {
			s.fail(key+"."+name, "a secret in the file", "allowed: name its variable in openhands.llm.api_key_env")
		}
	}
	out.llm = options
}

func (out *settings) readCondenser(s *section) {
	on, size, first := true, 240, 2
	s.yes(&on, "conversation.condenser.enabled", "conversation.agent.condenser.enabled")
	s.count(&size, "conversation.condenser.max_size", "conversation.agent.condenser.max_size")
	s.count(&first, "conversation.condenser.keep_first", "conversation.agent.condenser.keep_first")
	if on {
		out.condenser = map[string]any{"max_size": size, "keep_first": first}
	}
}
