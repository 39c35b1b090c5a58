package workflow

import (
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// workflow reads all settings below root over their defaults.
func (r *reader) workflow(root *node) *Workflow {
	w := &Workflow{Path: r.file, Dir: r.dir}
	top := r.section("", root)
	r.readTracker(top, &w.Tracker)
	r.readPolling(top.table("polling"), &w.Polling)
	r.readWorkspace(top.table("workspace"), &w.Workspace)
	r.readHooks(top.table("hooks"), &w.Hooks)
	codex := top.table("codex")
	r.readAgent(top.table("agent"), codex, &w.Agent)
	r.readCodex(codex, &w.Codex)
	w.OpenHands = r.readOpenHands(top)
	r.readRouting(top.table("routing"), &w.Routing, w.OpenHands != nil)
	r.readBudget(top.table("budget"), &w.Budget)
	r.readTools(top.table("tools"), &w.Tools)
	r.readMemory(top.table("memory"), &w.Memory, &w.Tracker)
	r.readServer(top.table("server"), &w.Server)
	top.ignore("logging", "observability")
	top.inert("worker", "agents run on this machine")
	top.done()
	return w
}

func (r *reader) readPolling(s *section, p *Polling) {
	p.Interval = 30 * time.Second
	s.millis("interval_ms", &p.Interval, 1)
	s.done()
}

func (r *reader) readWorkspace(s *section, w *Workspace) {
	w.Root = filepath.Join(r.opts.Temp, "symphony_workspaces")
	s.path("root", &w.Root)
	s.path("state_root", &w.StateRoot)
	s.flag("remove_terminal", &w.RemoveTerminal)
	s.done()
}

func (r *reader) readHooks(s *section, h *Hooks) {
	h.Timeout = time.Minute
	s.script("after_create", &h.AfterCreate)
	s.script("before_run", &h.BeforeRun)
	s.script("after_run", &h.AfterRun)
	s.script("before_remove", &h.BeforeRemove)
	s.millisOr("timeout_ms", &h.Timeout, time.Minute)
	s.names("env", &h.Env)
	r.readLocks(s.table("locks"), h)
	s.done()
}

// readLocks takes the names of locks, which become names of files.
func (r *reader) readLocks(s *section, h *Hooks) {
	for _, hook := range []string{"after_create", "before_run", "after_run", "before_remove"} {
		n := s.value(hook)
		if n == nil {
			continue
		}
		name, ok := r.text(s.key(hook), n)
		switch {
		case !ok:
		case !isLockName(name):
			r.refuse(s.key(hook), n, "a name of at most 64 of A-Z a-z 0-9 . _ - that begins with none of . and -")
		case h.Locks == nil:
			h.Locks = map[string]string{hook: name}
		default:
			h.Locks[hook] = name
		}
	}
	s.done()
}

func isLockName(name string) bool {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
	return len(name) <= 64 && strings.Trim(name, plain) == "" && name[0] != '.' && name[0] != '-'
}

// readAgent takes codex.stall_timeout_ms too, the old place of agent.stall_timeout_ms.
func (r *reader) readAgent(s, codex *section, a *Agent) {
	*a = Agent{
		MaxConcurrent:        10,
		MaxConcurrentByState: map[string]int{},
		MaxTurns:             20,
		MaxRetryBackoff:      5 * time.Minute,
		StallTimeout:         5 * time.Minute,
		RunTimeout:           6 * time.Hour,
		LaunchTimeout:        2 * time.Minute,
		TerminalGrace:        time.Minute,
		InterruptWhen:        []Transition{{From: "Human Review", To: "Merging"}},
	}
	s.number("max_concurrent_agents", &a.MaxConcurrent, 1)
	s.number("max_turns", &a.MaxTurns, 1)
	s.millis("max_retry_backoff_ms", &a.MaxRetryBackoff, 1)
	codex.millisOr("stall_timeout_ms", &a.StallTimeout, 0)
	s.millisOr("stall_timeout_ms", &a.StallTimeout, 0)
	s.millis("run_timeout_ms", &a.RunTimeout, 1)
	s.millis("launch_timeout_ms", &a.LaunchTimeout, 1)
	s.millis("terminal_grace_ms", &a.TerminalGrace, 0)
	s.names("env", &a.Env)
	r.readSlots(s.table("max_concurrent_agents_by_state"), a.MaxConcurrentByState)
	r.readTransitions(s, &a.InterruptWhen)
	s.done()
}

func (r *reader) readSlots(s *section, slots map[string]int) {
	for _, e := range s.entries {
		state, limit := strings.ToLower(strings.TrimSpace(e.key)), 0
		s.number(e.key, &limit, 1)
		if _, twice := slots[state]; twice {
			r.fault(s.key(e.key), e.node, "the state is named twice, upper and lower case are the same")
		}
		if limit > 0 {
			slots[state] = limit
		}
	}
}

func (r *reader) readTransitions(s *section, dst *[]Transition) {
	items, ok := s.items("interrupt_when")
	if !ok {
		return
	}
	list := []Transition{}
	for _, item := range items {
		var t Transition
		one := r.section(s.key("interrupt_when"), item)
		one.text("from", &t.From)
		one.text("to", &t.To)
		if one.isMap && (!one.has("from") || !one.has("to")) {
			r.fault(one.name, item, "a transition needs from and to")
		}
		one.done()
		list = append(list, t)
	}
	*dst = list
}

func (r *reader) readCodex(s *section, c *Codex) {
	*c = Codex{
		Command:        "codex app-server",
		ApprovalPolicy: "never",
		ThreadSandbox:  "workspace-write",
		TurnTimeout:    time.Hour,
		ReadTimeout:    30 * time.Second,
	}
	s.command("command", &c.Command)
	s.word("thread_sandbox", &c.ThreadSandbox, "read-only", "workspace-write", "danger-full-access")
	s.millis("turn_timeout_ms", &c.TurnTimeout, 1)
	s.millis("read_timeout_ms", &c.ReadTimeout, 1)
	if n := s.value("approval_policy"); n != nil {
		if _, ok := n.value.([]entry); ok {
			c.ApprovalPolicy = n.plain()
		} else if v, ok := r.text(s.key("approval_policy"), n); ok {
			c.ApprovalPolicy = v
		}
	}
	if n := s.value("turn_sandbox_policy"); n != nil {
		policy, ok := n.plain().(map[string]any)
		if !ok {
			r.refuse(s.key("turn_sandbox_policy"), n, "a map")
		}
		c.TurnSandboxPolicy = policy
	}
	s.done()
}

// readOpenHands returns the section as it stands, or nil where there is none.
func (r *reader) readOpenHands(top *section) map[string]any {
	n := top.take("openhands")
	if n == nil {
		return nil
	}
	raw, ok := n.plain().(map[string]any)
	if !ok {
		r.refuse("openhands", n, "a map")
	}
	return raw
}

func (r *reader) readBudget(s *section, b *Budget) {
	*b = Budget{RunsPerIssue: 50, NoProgressRuns: 3}
	s.count("tokens_per_run", &b.TokensPerRun, 0)
	s.count("tokens_per_issue", &b.TokensPerIssue, 0)
	s.number("runs_per_issue", &b.RunsPerIssue, 1)
	s.number("no_progress_runs", &b.NoProgressRuns, 1)
	s.done()
}

func (r *reader) readTools(s *section, t *Tools) {
	t.Commands = []string{"os-poll tool"}
	s.texts("commands", &t.Commands)
	for i, c := range t.Commands {
		t.Commands[i] = r.absoluteCommand(c)
	}
	s.done()
}

func (r *reader) readMemory(s *section, m *Memory, t *Tracker) {
	m.Project, _ = t.Provider["project_slug"].(string)
	m.ExecutionRepo = r.dir
	s.text("endpoint", &m.Endpoint)
	s.text("project", &m.Project)
	s.text("execution_repo", &m.ExecutionRepo)
	s.variable("token_env", &m.TokenEnv)
	s.done()
}

func (r *reader) readServer(s *section, v *Server) {
	if n := s.value("port"); n != nil {
		if port, ok := r.whole(s.key("port"), n, 0, 65535); ok {
			v.Port = int(port)
		}
	}
	s.variable("token_env", &v.TokenEnv)
	s.inert("host", "the listener is on loopback unless --listen says otherwise")
	s.done()
}

// oldTrackerKeys are provider keys that used to stand in the tracker section itself.
var oldTrackerKeys = []string{"api_key", "project_slug", "endpoint", "assignee"}

func (r *reader) readTracker(top *section, t *Tracker) {
	n := top.take("tracker")
	s := r.section("tracker", n)
	t.Kind, t.Secrets = "folder", []string{}
	if n != nil {
		t.Secrets = n.references()
	}
	s.text("kind", &t.Kind)
	r.readProvider(s, t)
	r.readLabels(s, t)
	s.texts("active_states", &t.ActiveStates)
	s.texts("terminal_states", &t.TerminalStates)
	if t.ActiveStates != nil && len(t.ActiveStates) == 0 {
		r.fault(s.key("active_states"), s.take("active_states"), "the list names no state")
	}
	t.ActiveStates = slices.DeleteFunc(t.ActiveStates, func(state string) bool {
		return slices.ContainsFunc(t.TerminalStates, func(end string) bool { return strings.EqualFold(state, end) })
	})
	s.done()
}

// readLabels keeps a blank label, which matches nothing, so that nothing is run
// where a label was left out by mistake.
func (r *reader) readLabels(s *section, t *Tracker) {
	items, _ := s.items("required_labels")
	for _, item := range items {
		label, ok := item.value.(string)
		if !ok {
			r.refuse(s.key("required_labels"), item, "a string")
		}
		label = strings.ToLower(strings.TrimSpace(label))
		if !slices.Contains(t.RequiredLabels, label) {
			t.RequiredLabels = append(t.RequiredLabels, label)
		}
	}
}

func (r *reader) readProvider(s *section, t *Tracker) {
	t.Provider, t.Missing = map[string]any{}, map[string]string{}
	provider := s.table("provider")
	for _, e := range provider.entries {
		r.readProviderKey(provider.key(e.key), e.key, e.node, t)
	}
	for _, key := range oldTrackerKeys {
		if n := s.take(key); n != nil && !provider.has(key) {
			r.readProviderKey(s.key(key), key, n, t)
		}
	}
	if t.Kind == "folder" && !provider.has("path") {
		t.Provider["path"] = filepath.Join(r.dir, "issues")
	}
}

func (r *reader) readProviderKey(full, key string, n *node, t *Tracker) {
	n, ok := r.resolve(n)
	if !ok && isSecret(key) {
		t.Missing[key], _ = n.reference()
		return
	}
	value := r.providerValue(full, n)
	text, isText := value.(string)
	switch {
	case key == "path" && isText && strings.TrimSpace(text) != "":
		abs, err := r.absolutePath(text)
		if err != nil {
			r.fault(full, n, "%v", err)
		}
		value = abs
	case key == "command" && isText:
		value = r.absoluteCommand(text)
	}
	t.Provider[key] = value
}

// isSecret tells by the name of a provider key whether its value is one.
func isSecret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"api_key", "apikey", "token", "secret", "password", "pat"} {
		if key == word || strings.HasSuffix(key, "_"+word) {
			return true
		}
	}
	return false
}

// providerValue is plain with each $NAME below n resolved.
func (r *reader) providerValue(key string, n *node) any {
	switch v := n.value.(type) {
	case []*node:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = r.providerValue(key, item)
		}
		return list
	case []entry:
		m := make(map[string]any, len(v))
		for _, e := range v {
			full := key + "." + e.key
			if _, ok := r.resolve(e.node); !ok && isSecret(e.key) {
				continue
			}
			m[e.key] = r.providerValue(full, e.node)
		}
		return m
	}
	if n.env == "" {
		n, _ = r.resolveOrFault(key, n)
	}
	return n.value
}
