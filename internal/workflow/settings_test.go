package workflow

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// dig returns a field of w by its path, "Agent.MaxTurns".
func dig(w *Workflow, path string) any {
	v := reflect.ValueOf(w).Elem()
	for name := range strings.SplitSeq(path, ".") {
		v = v.FieldByName(name)
	}
	return v.Interface()
}

// yamlFor writes "a.b: value" as nested flow maps.
func yamlFor(key, value string) string {
	parts := strings.Split(key, ".")
	out := parts[len(parts)-1] + ": " + value
	for i := len(parts) - 2; i >= 0; i-- {
		out = parts[i] + ": {" + out + "}"
	}
	return out
}

const (
	ms   = time.Millisecond
	soon = 1500 * time.Millisecond
)

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key, value, field string
		want              any
	}{
		{"tracker.kind", "linear", "Tracker.Kind", "linear"},
		{"tracker.required_labels", `[" Agent ", agent, ""]`, "Tracker.RequiredLabels", []string{"agent", ""}},
		{"tracker.active_states", "[Todo, ' In Progress ', Todo]", "Tracker.ActiveStates", []string{"Todo", "In Progress"}},
		{"tracker.terminal_states", "[Done]", "Tracker.TerminalStates", []string{"Done"}},
		{"tracker.terminal_states", "[]", "Tracker.TerminalStates", []string{}},
		{"polling.interval_ms", "1500", "Polling.Interval", soon},
		{"polling.interval_ms", `"1500"`, "Polling.Interval", soon},
		{"workspace.root", "/srv//ws/", "Workspace.Root", "/srv/ws"},
		{"workspace.root", "~/ws", "Workspace.Root", "/home/ada/ws"},
		{"workspace.root", "$ROOT", "Workspace.Root", "/srv/ws"},
		{"workspace.root", `"${ROOT}"`, "Workspace.Root", "/srv/ws"},
		{"workspace.state_root", "'~'", "Workspace.StateRoot", "/home/ada"},
		{"workspace.remove_terminal", "true", "Workspace.RemoveTerminal", true},
		{"workspace.remove_terminal", "$YES", "Workspace.RemoveTerminal", true},
		{"hooks.after_create", "git init", "Hooks.AfterCreate", "git init"},
		{"hooks.after_create", "''", "Hooks.AfterCreate", ""},
		{"hooks.before_run", "git pull", "Hooks.BeforeRun", "git pull"},
		{"hooks.after_run", "git push", "Hooks.AfterRun", "git push"},
		{"hooks.before_remove", "echo $TOKEN", "Hooks.BeforeRemove", "echo $TOKEN"},
		{"hooks.timeout_ms", "1500", "Hooks.Timeout", soon},
		{"hooks.timeout_ms", "0", "Hooks.Timeout", time.Minute},
		{"hooks.timeout_ms", "-1", "Hooks.Timeout", time.Minute},
		{"hooks.env", "[SSH_AUTH_SOCK]", "Hooks.Env", []string{"SSH_AUTH_SOCK"}},
		{"hooks.locks", "{after_create: clone, before_run: clone}", "Hooks.Locks", map[string]string{"after_create": "clone", "before_run": "clone"}},
		{"hooks.locks", "{after_create: null}", "Hooks.Locks", map[string]string(nil)},
		{"agent.max_concurrent_agents", "3", "Agent.MaxConcurrent", 3},
		{"agent.max_turns", "'7'", "Agent.MaxTurns", 7},
		{"agent.max_turns", "$FIVE", "Agent.MaxTurns", 5},
		{"agent.max_retry_backoff_ms", "1500", "Agent.MaxRetryBackoff", soon},
		{"agent.max_concurrent_agents_by_state", "{In Progress: 2, todo: '1'}", "Agent.MaxConcurrentByState", map[string]int{"in progress": 2, "todo": 1}},
		{"agent.stall_timeout_ms", "1500", "Agent.StallTimeout", soon},
		{"agent.stall_timeout_ms", "0", "Agent.StallTimeout", 0 * ms},
		{"agent.stall_timeout_ms", "-5", "Agent.StallTimeout", 0 * ms},
		{"agent.run_timeout_ms", "1500", "Agent.RunTimeout", soon},
		{"agent.launch_timeout_ms", "1500", "Agent.LaunchTimeout", soon},
		{"agent.terminal_grace_ms", "0", "Agent.TerminalGrace", 0 * ms},
		{"agent.interrupt_when", "[{from: A, to: B}]", "Agent.InterruptWhen", []Transition{{"A", "B"}}},
		{"agent.interrupt_when", "[]", "Agent.InterruptWhen", []Transition{}},
		{"agent.env", "[GOPATH]", "Agent.Env", []string{"GOPATH"}},
		{"codex.command", "codex app-server -c x=1", "Codex.Command", "codex app-server -c x=1"},
		{"codex.approval_policy", "on-request", "Codex.ApprovalPolicy", "on-request"},
		{"codex.approval_policy", "{granular: {rules: true}}", "Codex.ApprovalPolicy", map[string]any{"granular": map[string]any{"rules": true}}},
		{"codex.thread_sandbox", "read-only", "Codex.ThreadSandbox", "read-only"},
		{"codex.turn_sandbox_policy", "{type: readOnly}", "Codex.TurnSandboxPolicy", map[string]any{"type": "readOnly"}},
		{"codex.turn_timeout_ms", "1500", "Codex.TurnTimeout", soon},
		{"codex.read_timeout_ms", "1500", "Codex.ReadTimeout", soon},
		{"routing.harness", "openhands", "Routing.Harness", "openhands"},
		{"routing.harness", "openhands", "Routing.HarnessSource", "workflow"},
		{"routing.model", "gpt-x", "Routing.Model", "gpt-x"},
		{"routing.model", "gpt-x", "Routing.ModelSource", "workflow"},
		{"routing.model_profile", "fast", "Routing.ModelProfile", "fast"},
		{"routing.model_profile", "fast", "Routing.ModelProfileSource", "workflow"},
		{"routing.rules", "[{label: ' Big ', model: m}, {state: Todo, harness: codex}]", "Routing.Rules", []Rule{{Label: "big", Model: "m"}, {State: "Todo", Harness: "codex"}}},
		{"routing.harnesses.mine.command", "my-agent --x", "Routing.Commands", map[string]string{"mine": "my-agent --x"}},
		{"budget.tokens_per_run", "9000000000", "Budget.TokensPerRun", int64(9000000000)},
		{"budget.tokens_per_issue", "0", "Budget.TokensPerIssue", int64(0)},
		{"budget.runs_per_issue", "1", "Budget.RunsPerIssue", 1},
		{"budget.no_progress_runs", "8", "Budget.NoProgressRuns", 8},
		{"tools.commands", "[a, 'b c']", "Tools.Commands", []string{"a", "b c"}},
		{"tools.commands", "[]", "Tools.Commands", []string{}},
		{"memory.endpoint", "http://127.0.0.1:9", "Memory.Endpoint", "http://127.0.0.1:9"},
		{"memory.project", "p", "Memory.Project", "p"},
		{"memory.execution_repo", "r", "Memory.ExecutionRepo", "r"},
		{"memory.token_env", "MEMORY_TOKEN", "Memory.TokenEnv", "MEMORY_TOKEN"},
		{"server.port", "8080", "Server.Port", 8080},
		{"server.token_env", "HTTP_TOKEN", "Server.TokenEnv", "HTTP_TOKEN"},
		{"openhands.llm", "{model: m, n: 1}", "OpenHands", map[string]any{"llm": map[string]any{"model": "m", "n": int64(1)}}},
		{"openhands.server.url", "$EMPTY", "OpenHands", map[string]any{"server": map[string]any{"url": "$EMPTY"}}},
	} {
		w := mustLoad(t, yamlFor(c.key, c.value))
		if got := dig(w, c.field); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s: got %#v, want %#v", c.key, c.value, got, c.want)
		}
	}
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{"tracker", "[]", "a list is not a map"},
		{"tracker.kind", "5", "5 is not a string, put it in quotes"},
		{"tracker.kind", "' '", "the value is blank"},
		{"tracker.kind", "$NOPE", "the variable NOPE is not set or empty"},
		{"tracker.kind", "$EMPTY", "the variable EMPTY is not set or empty"},
		{"tracker.kind", "'${BLANK}'", "the variable BLANK is not set or empty"},
		{"tracker.provider", "word", `"word" is not a map`},
		{"tracker.provider.assignee", "$NOPE", "the variable NOPE is not set or empty"},
		{"tracker.provider.path", "~bob/x", "the home folder of another user is not looked up"},
		{"tracker.required_labels", "agent", `"agent" is not a list`},
		{"tracker.required_labels", "[1]", "1 is not a string"},
		{"tracker.active_states", "[]", "the list names no state"},
		{"tracker.active_states", "[{}]", "a map is not a string"},
		{"tracker.active_states", "Todo", `"Todo" is not a list`},
		{"tracker.terminal_states", "['']", "the value is blank"},
		{"polling.interval_ms", "0", "0 is not a whole number of at least 1"},
		{"polling.interval_ms", "1.5", "1.5 is not a whole number of at least 1"},
		{"polling.interval_ms", "30s", `"30s" is not a whole number of at least 1`},
		{"polling.interval_ms", "9223372036854775807", "9223372036854775807 is not a whole number from 1 to 9223372036854"},
		{"workspace.root", "[]", "a list is not a string"},
		{"workspace.state_root", "7", "7 is not a string, put it in quotes"},
		{"workspace.remove_terminal", "'true'", `"true" is not true or false`},
		{"workspace.remove_terminal", "1", "1 is not true or false"},
		{"hooks.after_create", "[a]", "a list is not a string"},
		{"hooks.timeout_ms", "soon", `"soon" is not a whole number`},
		{"hooks.env", "[$TOKEN]", `"$TOKEN" is not the name of an environment variable`},
		{"hooks.env", "PATH", `"PATH" is not a list`},
		{"hooks.locks", "clone", `"clone" is not a map`},
		{"hooks.locks.after_create", "a/b", `"a/b" is not a name of at most 64`},
		{"hooks.locks.after_create", "..", `".." is not a name of at most 64`},
		{"hooks.locks.after_create", "5", "5 is not a string, put it in quotes"},
		{"agent.max_concurrent_agents", "0", "0 is not a whole number of at least 1"},
		{"agent.max_turns", "x", `"x" is not a whole number of at least 1`},
		{"agent.max_turns", "$WORD", "the value of $WORD is not a whole number of at least 1"},
		{"agent.max_turns", "99999999999", "99999999999 is not a whole number from 1 to 2147483647"},
		{"agent.max_turns", "99999999999999999999", `"99999999999999999999" is not a whole number of at least 1`},
		{"agent.max_turns", "true", "true is not a whole number of at least 1"},
		{"agent.max_retry_backoff_ms", "-1", "-1 is not a whole number of at least 1"},
		{"agent.max_concurrent_agents_by_state.Todo", "0", "0 is not a whole number of at least 1"},
		{"agent.max_concurrent_agents_by_state", "{Todo: 1, todo: 2}", ".todo: the state is named twice, upper and lower case are the same"},
		{"agent.stall_timeout_ms", "x", `"x" is not a whole number`},
		{"agent.run_timeout_ms", "0", "0 is not a whole number of at least 1"},
		{"agent.launch_timeout_ms", "{}", "a map is not a whole number of at least 1"},
		{"agent.terminal_grace_ms", "-1", "-1 is not a whole number of at least 0"},
		{"agent.interrupt_when", "[{from: A}]", "a transition needs from and to"},
		{"agent.interrupt_when", "[A]", `"A" is not a map`},
		{"agent.env", "['A-B']", `"A-B" is not the name of an environment variable`},
		{"codex.command", "''", "the value is blank"},
		{"codex.approval_policy", "[never]", "a list is not a string"},
		{"codex.approval_policy", "true", "true is not a string, put it in quotes"},
		{"codex.thread_sandbox", "none", `"none" is not one of read-only, workspace-write, danger-full-access`},
		{"codex.turn_sandbox_policy", "readOnly", `"readOnly" is not a map`},
		{"codex.turn_timeout_ms", "0", "0 is not a whole number of at least 1"},
		{"codex.read_timeout_ms", "0", "0 is not a whole number of at least 1"},
		{"codex.stall_timeout_ms", "x", `"x" is not a whole number`},
		{"openhands", "[]", "a list is not a map"},
		{"routing.harness", "rust_native", `"rust_native" is not a harness: codex, openhands, or one named under routing.harnesses`},
		{"routing.model", "4", "4 is not a string, put it in quotes"},
		{"routing.model_profile", "[]", "a list is not a string"},
		{"routing.model_env", "$TOKEN", `"$TOKEN" is not the name of an environment variable`},
		{"routing.rules", "{}", "a map is not a list"},
		{"routing.rules", "[{model: m}]", "a rule needs a label or a state"},
		{"routing.rules", "[{label: l}]", "a rule needs a harness or a model"},
		{"routing.rules", "[l]", `"l" is not a map`},
		{"routing.harnesses.mine", "{}", "a harness needs a command"},
		{"budget.tokens_per_run", "-1", "-1 is not a whole number of at least 0"},
		{"budget.tokens_per_issue", "2.0", "2.0 is not a whole number of at least 0"},
		{"budget.runs_per_issue", "0", "0 is not a whole number of at least 1"},
		{"budget.no_progress_runs", "0", "0 is not a whole number of at least 1"},
		{"tools.commands", "os-poll tool", `"os-poll tool" is not a list`},
		{"tools.commands", "[5]", "5 is not a string, put it in quotes"},
		{"memory.endpoint", "1", "1 is not a string, put it in quotes"},
		{"memory.token_env", "a b", `"a b" is not the name of an environment variable`},
		{"server.port", "65536", "65536 is not a whole number from 0 to 65535"},
		{"server.token_env", "$TOKEN", `"$TOKEN" is not the name of an environment variable`},
	} {
		_, _, err := load(t, yamlFor(c.key, c.value))
		want := "WORKFLOW.md:2: " + c.key
		if !strings.HasPrefix(c.want, ".") { // else about a key below
			want += ": "
		}
		want += c.want
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %s:\n got %v\nwant %s", c.key, c.value, err, want)
		}
	}
}

func TestOldSpellings(t *testing.T) {
	w := mustLoad(t, `
tracker: {kind: linear, api_key: $TOKEN, project_slug: web, endpoint: "https://x", assignee: me}
codex: {stall_timeout_ms: 1500}
routing: {harness: openhands_agent_server, harnesses: {codex_app_server: {command: c}}}
logging: {level: info}
observability: {dashboard_enabled: false}`)
	want := map[string]any{"api_key": "s3cret-value", "project_slug": "web", "endpoint": "https://x", "assignee": "me"}
	if !reflect.DeepEqual(w.Tracker.Provider, want) {
		t.Errorf("provider %v", w.Tracker.Provider)
	}
	if w.Agent.StallTimeout != soon || w.Routing.Harness != "openhands" || w.Routing.Commands["codex"] != "c" || w.Memory.Project != "web" {
		t.Errorf("got %+v", w)
	}
}

func TestNewSpellingWins(t *testing.T) {
	w := mustLoad(t, `
tracker: {kind: linear, project_slug: old, endpoint: o, provider: {project_slug: new}}
codex: {stall_timeout_ms: 9}
agent: {stall_timeout_ms: 1500}`)
	if got := w.Tracker.Provider; got["project_slug"] != "new" || got["endpoint"] != "o" {
		t.Errorf("provider %v", got)
	}
	if w.Agent.StallTimeout != soon {
		t.Errorf("stall %v", w.Agent.StallTimeout)
	}
}

func TestStateInBothListsIsTerminal(t *testing.T) {
	w := mustLoad(t, "tracker: {active_states: [Todo, Done, Doing], terminal_states: [done]}")
	if want := []string{"Todo", "Doing"}; !reflect.DeepEqual(w.Tracker.ActiveStates, want) {
		t.Errorf("active %v", w.Tracker.ActiveStates)
	}
}

func TestTrackerVariables(t *testing.T) {
	w := mustLoad(t, `
tracker:
  kind: jira
  active_states: [$TEAM, Todo]
  provider:
    api_token: ${NOPE}
    password: $EMPTY
    project_key: $TEAM
    note: costs $TEAM
    nested: {token: $NOPE, list: [$FIVE, 3, 2.5, true, ~]}
    path: ./board`)
	if want := []string{"EMPTY", "FIVE", "NOPE", "TEAM"}; !reflect.DeepEqual(w.Tracker.Secrets, want) {
		t.Errorf("secrets %v", w.Tracker.Secrets)
	}
	if want := map[string]string{"api_token": "NOPE", "password": "EMPTY"}; !reflect.DeepEqual(w.Tracker.Missing, want) {
		t.Errorf("missing %v", w.Tracker.Missing)
	}
	want := map[string]any{
		"project_key": "core", "note": "costs $TEAM", "path": filepath.Join(w.Dir, "board"),
		"nested": map[string]any{"list": []any{"5", int64(3), 2.5, true, nil}},
	}
	if !reflect.DeepEqual(w.Tracker.Provider, want) {
		t.Errorf("provider %#v", w.Tracker.Provider)
	}
	if want := []string{"core", "Todo"}; !reflect.DeepEqual(w.Tracker.ActiveStates, want) {
		t.Errorf("active %v", w.Tracker.ActiveStates)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for _, front := range []string{
		"agent: {max_turns: $TOKEN}", "codex: {thread_sandbox: $TOKEN}", "codex: {turn_sandbox_policy: $TOKEN}",
		"workspace: {remove_terminal: $TOKEN}", "routing: {harness: $TOKEN}",
	} {
		_, _, err := load(t, front)
		if err == nil || strings.Contains(fmt.Sprintf("%v %#v", err, err), testEnv["TOKEN"]) {
			t.Errorf("%s: %v", front, err)
		}
	}
}

func TestRelativeToTheFile(t *testing.T) {
	w := mustLoad(t, `
workspace: {root: ws, state_root: ../state}
tracker: {kind: exec, provider: {command: ./poll.sh --all, path: board}}
codex: {command: "./fake server ./x"}
tools: {commands: [../tool.sh, sub/tool.sh]}
routing: {harnesses: {mine: {command: "./agent.sh;true"}}}`)
	at := func(path string) string { return filepath.Join(w.Dir, path) }
	for field, want := range map[string]any{
		"Workspace.Root":      at("ws"),
		"Workspace.StateRoot": at("../state"),
		"Codex.Command":       at("fake") + " server ./x",
		"Tools.Commands":      []string{at("../tool.sh"), "sub/tool.sh"},
		"Routing.Commands":    map[string]string{"mine": at("agent.sh") + ";true"},
		"Tracker.Provider":    map[string]any{"command": at("poll.sh") + " --all", "path": at("board")},
	} {
		if got := dig(w, field); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, want %#v", field, got, want)
		}
	}
}

func TestCommandInAFolderWithSpaces(t *testing.T) {
	r := newReader("/home/ada's work/WORKFLOW.md", fileName, Options{})
	if got, want := r.absoluteCommand("./a.sh -v"), `'/home/ada'\''s work/'a.sh -v`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHomeIsNotGuessed(t *testing.T) {
	dir := write(t, "---\nworkspace: {root: ~/ws}\n---\n")
	_, _, err := Load(fileName, Options{Dir: dir})
	if want := "WORKFLOW.md:2: workspace.root: the home folder that ~ stands for is not known"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestRoutingDefaults(t *testing.T) {
	for front, want := range map[string]string{
		"{}":                                 "codex",
		"openhands: {}":                      "openhands",
		"openhands: {}\nrouting: {model: m}": "openhands",
		"openhands: {}\nrouting: {harness: codex}":                  "codex",
		"routing: {harness: mine, harnesses: {mine: {command: m}}}": "mine",
	} {
		if got := mustLoad(t, front).Routing.Harness; got != want {
			t.Errorf("%s: %s", front, got)
		}
	}
}

func TestRoutingEnvironment(t *testing.T) {
	dir := write(t, "---\nrouting: {harness: codex, model: m, model_env: MY_MODEL}\n---\n")
	w, warnings, err := loadIn(dir, map[string]string{
		"OPENSYMPHONY_HARNESS": "openhands_agent_server", "MY_MODEL": "big", "OPENSYMPHONY_MODEL": "ignored", "OPENSYMPHONY_MODEL_PROFILE": " ",
	})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := Routing{
		Harness: "openhands", HarnessSource: "env", Model: "big", ModelSource: "env", ModelProfileSource: "default",
		Commands: map[string]string{},
	}
	if !reflect.DeepEqual(w.Routing, want) {
		t.Errorf("got %+v", w.Routing)
	}
	_, _, err = loadIn(dir, map[string]string{"OPENSYMPHONY_HARNESS": "rust_native"})
	if want := "WORKFLOW.md:2: routing.harness: the value of $OPENSYMPHONY_HARNESS is not a harness"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

func TestWarnings(t *testing.T) {
	_, warnings, err := load(t, `
agents: {}
agent:
  max_turn: 5
  something_else: 1
tracker:
  provider: {anything: 1}
  active_state: []
worker: {ssh_hosts: [a]}
server: {host: 0.0.0.0}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`WORKFLOW.md:3: unknown key "agents", did you mean "agent"?`,
		`WORKFLOW.md:5: unknown key "agent.max_turn", did you mean "agent.max_turns"?`,
		`WORKFLOW.md:6: unknown key "agent.something_else"`,
		`WORKFLOW.md:9: unknown key "tracker.active_state", did you mean "tracker.active_states"?`,
		`WORKFLOW.md:10: worker has no effect: agents run on this machine`,
		`WORKFLOW.md:11: server.host has no effect: the listener is on loopback unless --listen says otherwise`,
	}
	var got []string
	for _, w := range warnings {
		got = append(got, w.String())
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
