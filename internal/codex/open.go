package codex

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// The methods that we call.
const (
	methodInitialize   = "initialize"
	methodThreadStart  = "thread/start"
	methodThreadResume = "thread/resume"
	methodTurnStart    = "turn/start"
	methodTurnSteer    = "turn/steer"
	methodInterrupt    = "turn/interrupt"
	methodItemsList    = "thread/items/list"
	methodThreadRead   = "thread/read"
	methodAccountRead  = "account/read"
)

// open shakes hands and opens the thread.
func (d *driver) open() error {
	hello, err := d.call(methodInitialize, helloParams(), d.cfg.StartTimeout)
	if err != nil {
		return refusedStart(err)
	}
	d.agent.Version = serverVersion(hello.Get("userAgent").Str)
	if err := d.peer.conn.send(notification{"initialized"}); err != nil {
		d.fade(err.Error())
	}
	return d.openThread()
}

func helloParams() map[string]any {
	return map[string]any{
		"clientInfo":   map[string]string{"name": "os-codex", "version": cli.Version()},
		"capabilities": map[string]bool{"experimentalApi": true}, // dynamicTools needs it
	}
}

// serverVersion finds the version in "client/0.171.0 (Debian …)".
func serverVersion(userAgent string) wire.Text {
	_, rest, _ := strings.Cut(userAgent, "/")
	version, _, _ := strings.Cut(rest, " ")
	return wire.Text(version)
}

// openThread resumes the thread that the run is to go on with, or starts one.
func (d *driver) openThread() error {
	old, damage := session.LoadConversation(d.cfg.Place.State)
	id, reason := d.cfg.candidate(old)
	if damage != nil {
		d.Warn("conversation", damage.Error())
		reason = damage.Error()
	}
	if id == "" {
		return d.start(reason)
	}
	result, err := d.resume(id)
	if lost := lostContext(err); lost != "" {
		d.em.Emit(wire.EventContextLost, &wire.Session{Cwd: d.cfg.Place.Workspace.Path, Peer: &d.agent, Reason: wire.Text(lost)}, nil)
		return d.start(lost)
	}
	if err != nil {
		return refusedStart(err)
	}
	if d.conv = old; old == nil || string(old.SessionID) != id {
		d.conv = d.NewConversation(Harness, contract, session.ReusePerIssue, reason)
	}
	d.resumed = true
	d.ResumeConversation(d.conv)
	d.meter.Resumed(d.conv.Usage)
	return d.opened(id, result, wire.EventSessionResumed, "")
}

// candidate returns the thread to resume, or "" and why there is none.
func (c *Config) candidate(old *session.Conversation) (id, reason string) {
	switch {
	case c.Resume == session.ResumeNever:
		return "", "a fresh thread was asked for"
	case c.Resume != session.ResumeAuto:
		return c.Resume, "the thread was named"
	case old == nil:
		return "", ""
	}
	if why := old.Mismatch(Harness, contract, c.Place); why != "" {
		return "", why
	}
	return string(old.SessionID), ""
}

func (d *driver) start(reason string) error {
	result, err := d.call(methodThreadStart, d.startParams(), d.cfg.StartTimeout)
	if err != nil {
		return refusedStart(err)
	}
	d.conv = d.NewConversation(Harness, contract, session.ReusePerIssue, reason)
	d.meter.Fresh()
	return d.opened(result.Get("thread.id").Str, result, wire.EventSessionStarted, reason)
}

func (d *driver) resume(id string) (gjson.Result, error) {
	d.thread = id // its notifications may come before the answer
	result, err := d.call(methodThreadResume, d.cfg.resumeParams(id), d.cfg.StartTimeout)
	if err != nil {
		d.thread = ""
	}
	return result, err
}

func (d *driver) startParams() map[string]any {
	params := d.cfg.threadParams()
	if specs := d.toolSpecs(); len(specs) > 0 {
		params["dynamicTools"] = specs
	}
	return params
}

func (c *Config) resumeParams(id string) map[string]any {
	params := c.threadParams()
	params["threadId"], params["excludeTurns"] = id, true
	return params
}

// threadParams is what thread/start and thread/resume have in common.
func (c *Config) threadParams() map[string]any {
	t := c.Thread
	params := map[string]any{"cwd": c.Place.Workspace.Path}
	config := maps.Clone(t.Overrides)
	if t.Sandbox == sandboxWorkspaceWrite {
		if config == nil {
			config = make(map[string]any)
		}
		maps.DeleteFunc(config, func(key string, _ any) bool { return strings.HasPrefix(key, sandboxPrefix) })
		write := t.workspaceWrite()
		config["sandbox_workspace_write"] = write
		// A resumed thread would keep the roots of its earlier runs besides.
		params["runtimeWorkspaceRoots"] = append([]string{c.Place.Workspace.Path}, write.WritableRoots...)
	}
	for name, v := range map[string]string{"model": t.Model, "sandbox": t.Sandbox} {
		if v != "" {
			params[name] = v
		}
	}
	if t.ApprovalPolicy != nil {
		params["approvalPolicy"] = t.ApprovalPolicy
	}
	if len(config) > 0 {
		params["config"] = config
	}
	return params
}

// opened takes over the thread that the server has opened.
func (d *driver) opened(id string, result gjson.Result, event, reason string) error {
	if strings.TrimSpace(id) == "" {
		return session.Failf(wire.CauseProtocol, "app-server opened a thread without an id")
	}
	d.thread = id
	d.em.Session(id)
	d.model.Observed = wire.Text(result.Get("model").Str)
	confined, err := d.cfg.Thread.check(result.Get("sandbox"))
	if err != nil {
		return err
	}
	said := d.cfg.planned()
	said.Model, said.Peer, said.Reason = d.model.Observed, &d.agent, wire.Text(reason)
	said.PromptKind = wire.Text(d.cfg.Plan.First(d.conv.Seeded).Kind)
	d.em.Emit(event, said, nil)
	if !confined {
		d.Warn("sandbox", "app-server does not say which sandbox it uses")
	}
	now := wire.At(d.cfg.Now())
	d.conv.SessionID, d.conv.Status, d.conv.AttachedAt = wire.Text(id), session.StatusActive, now
	d.conv.Route = d.cfg.Route
	if err := d.SaveConversation(d.conv); err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	d.checkSchema()
	return nil
}

// The server refuses everything with one code, so its known texts have to decide.
// Each is one that the measured versions print.

// lostContext returns why a thread cannot be resumed though nothing is wrong but the
// thread itself, or "".
func lostContext(err error) string {
	var refused *rpcError
	if !errors.As(err, &refused) {
		return ""
	}
	for _, text := range []string{"no rollout found", "invalid session id", "invalid thread id", "thread not found", "rollout is empty"} {
		if strings.Contains(refused.message, text) {
			return refused.message
		}
	}
	return ""
}

// refusedStart is the ending of a session that the server would not begin.
func refusedStart(err error) error {
	var refused *rpcError
	if !errors.As(err, &refused) {
		return err
	}
	category := wire.CauseProtocol
	switch text := strings.ToLower(refused.message); {
	case strings.Contains(text, "already has an active writer"):
		category = wire.CauseBusy
	case strings.Contains(text, "configuration"), strings.Contains(text, "config.toml"),
		strings.Contains(text, "unknown variant"), strings.Contains(text, "invalid value"):
		category = wire.CauseConfig
	}
	return session.Failf(category, "%v", refused)
}

// startLimit is the least that start-up requests get: a cold machine is slow.
const startLimit = time.Minute

// StartTimeout returns the limit of start-up requests for a limit of requests.
func StartTimeout(read time.Duration) time.Duration { return max(read, startLimit) }
