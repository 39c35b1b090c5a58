package harness

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// continuation is the prompt of every turn but the first where --continue is not
// given: the session has the instructions already.
const continuation = `Continue with the task. Its instructions and your earlier work are above in this conversation; do not start over. Look at the present state of the working folder first, then do what is still missing. If nothing is missing, check the result once more and say so.`

// limits returns the session's limits; turn is the workflow's for one turn.
func (c *Command) limits(turn time.Duration) session.Limits {
	o, agent := c.Options, c.Workflow.Agent
	return session.Limits{
		Total: o.Duration("timeout", o.Timeout, agent.RunTimeout),
		Turn:  o.Duration("turn-timeout", o.TurnTimeout, turn),
		Stall: o.Duration("stall", o.Stall, agent.StallTimeout),
	}
}

// budget returns what the run may use.
func (c *Command) budget() session.Budget {
	if c.Options.Given("max-tokens") {
		return session.Budget{Tokens: c.Options.MaxTokens}
	}
	return session.Budget{Tokens: c.Workflow.Budget.TokensPerRun}
}

// Config is what a session of j is given, by a harness of that name; turn is the
// workflow's limit for one turn.
func (c *Command) Config(j *Job, harness string, turn time.Duration) (session.Config, *session.Ending) {
	o, ws := c.Options, j.Place.Workspace
	plan, end := c.plan(ws)
	if end != nil {
		return session.Config{}, end
	}
	return session.Config{
		Place:        j.Place,
		Emitter:      j.Emitter,
		Plan:         plan,
		Limits:       c.limits(turn),
		Budget:       c.budget(),
		Route:        c.route(ws, harness),
		Resume:       o.Resume,
		Approvals:    o.Approvals,
		ApprovalWait: o.ApprovalWait,
		Watch:        watching(c.Env),
		Deltas:       o.Deltas,
		Grace:        o.Grace,
		Now:          c.Env.Now,
		Slept:        session.Slept(),
		Hurry:        c.Env.Hurry(),
		Trace:        j.Trace,
		Warn:         c.Env.Warnf,
	}, nil
}

// watching says how a mailbox is watched. OS_WATCH=off is for machines whose watchers
// are few or do not work.
func watching(env *cli.Env) watch.Options {
	return watch.Options{Forbid: env.Getenv("OS_WATCH") == "off"}
}

// plan says which turns are made with which texts. They are as the peer gets them: JSON
// has no bytes that are no UTF-8, and what we sent is looked for in the peer's history.
func (c *Command) plan(ws *wire.Workspace) (session.Plan, *session.Ending) {
	p, end := c.turns(ws)
	p.Full, p.Continue = valid(p.Full), valid(p.Continue)
	return p, end
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func (c *Command) turns(ws *wire.Workspace) (session.Plan, *session.Ending) {
	o := c.Options
	if fi, err := os.Stat(ws.Path); err != nil || !fi.IsDir() {
		return session.Plan{}, session.Failf(wire.CauseState, "workspace %q is missing", ws.Path)
	}
	p := session.Plan{MaxTurns: c.Workflow.Agent.MaxTurns, Continue: continuation, Again: o.Continue != "", Given: o.prompted}
	if o.Given("max-turns") {
		p.MaxTurns = o.MaxTurns
	}
	if o.Continue != "" {
		p.Continue = o.Continue
	}
	if o.Recheck != "" && ws.Issue != nil {
		p.Recheck = (&session.Recheck{
			Command: o.Recheck, Dir: c.Env.Dir, Env: c.HostEnv(), Stderr: file(c.Env.Stderr), Issue: ws.Issue,
		}).Run
	}
	if p.Full = string(ws.Prompt); p.Full != "" {
		return p, nil
	}
	var err error
	if p.Full, err = c.Workflow.Prompt.Render(promptVars(ws, p.MaxTurns)); err != nil {
		return p, session.Failf(wire.CausePrompt, "%v", err)
	}
	return p, nil
}

func promptVars(ws *wire.Workspace, maxTurns int) workflow.Vars {
	return workflow.Vars{
		Issue: ws.Issue, Attempt: ws.Attempt, Turn: 1, MaxTurns: int64(maxTurns),
		Workspace: &workflow.Folder{Key: ws.Key, Path: ws.Path, Created: ws.Created},
	}
}

func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}

// Model is the model that is asked for, "" where nobody has named one.
func (c *Command) Model(ws *wire.Workspace) string {
	switch {
	case c.Options.Model != "":
		return c.Options.Model
	case ws.Route != nil && ws.Route.Model != "":
		return string(ws.Route.Model)
	}
	return c.Workflow.Routing.Model
}

// Effort is the reasoning effort that is asked for, or "".
func (c *Command) Effort(ws *wire.Workspace) string {
	if c.Options.Effort == "" && ws.Route != nil {
		return string(ws.Route.Effort)
	}
	return c.Options.Effort
}

// route is the record's decision, or what the command line and the workflow make of
// it where nobody has decided before.
func (c *Command) route(ws *wire.Workspace, harness string) *wire.Route {
	r := wire.Route{Harness: harness, Source: "workflow"}
	if ws.Route != nil {
		r = *ws.Route
	}
	r.Model, r.Effort, r.DryRun = wire.Text(c.Model(ws)), wire.Text(c.Effort(ws)), c.Options.DryRun
	if c.Options.Model != "" {
		r.Source = "flag"
	}
	return &r
}

// AgentEnv is the environment of the agent and so of its commands.
func (c *Command) AgentEnv(place session.Place) []string {
	return c.PeerEnv(map[string]string{
		"TMPDIR":       state.TempDir(place.RunID),
		"OS_RUN_ID":    place.RunID,
		"OS_STATE_DIR": string(place.State),
		"OS_WORKSPACE": place.Workspace.Path,
	})
}

// PeerEnv is our environment without what no agent may know, with more over it. secrets
// are variables that this harness takes a key from; --env lets them through by name, as
// all others.
func (c *Command) PeerEnv(more map[string]string, secrets ...string) []string {
	allow, set := c.Options.splitEnv()
	names := session.Withheld(slices.Concat(c.Workflow.Tracker.Secrets, secrets), slices.Concat(allow, c.Workflow.Agent.Env))
	maps.Copy(set, more)
	names = append(names, "OS_WORKFLOW_DIR") // says how others are to read the workflow
	drop := func(name string) bool { return slices.Contains(names, name) || proc.GitLocation(name) }
	return proc.Environ(c.Env.Environ, drop, set)
}

// HostEnv is the environment of what runs beside the session, with the tracker's
// credentials.
func (c *Command) HostEnv() []string {
	set := make(map[string]string)
	if c.Workflow.Path != "" {
		set["OS_WORKFLOW"] = c.Workflow.Path
	}
	return proc.Environ(c.Env.Environ, func(name string) bool { return name == "OS_LOCK_FD" }, set)
}

// path is a path of the command line, made absolute.
func (c *Command) path(p string) string { return absolute(c.Env.Dir, p) }

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func ownedByUs(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
