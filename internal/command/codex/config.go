package codex

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// continuation is the prompt of every turn but the first where --continue is not
// given: the thread has the instructions already.
const continuation = `Continue with the task. Its instructions and your earlier work are above in this conversation; do not start over. Look at the present state of the working folder first, then do what is still missing. If nothing is missing, check the result once more and say so.`

// config turns everything that was said into the configuration of one session.
func (c *command) config(place session.Place, em *session.Emitter) (codex.Config, *session.Ending) {
	o, w, ws := c.options, c.workflow, place.Workspace
	if fi, err := os.Stat(ws.Path); err != nil || !fi.IsDir() {
		return codex.Config{}, session.Failf(wire.CauseState, "workspace %q is missing", ws.Path)
	}
	plan, err := c.plan(ws)
	if err != nil {
		return codex.Config{}, session.Failf(wire.CausePrompt, "%v", err)
	}
	launch := c.launch(c.agentEnv(place))
	return codex.Config{
		Place:   place,
		Emitter: em,
		Plan:    plan,
		Limits: session.Limits{
			Total: o.duration("timeout", o.timeout, w.Agent.RunTimeout),
			Turn:  o.duration("turn-timeout", o.turnTimeout, w.Codex.TurnTimeout),
			Stall: o.duration("stall", o.stall, w.Agent.StallTimeout),
		},
		Budget:       session.Budget{Tokens: c.maxTokens()},
		Goal:         o.goal,
		GoalWait:     o.goalWait,
		Route:        c.route(ws),
		Launch:       launch,
		Schema:       c.checkSchema(launch),
		Thread:       c.thread(place),
		Resume:       o.resume,
		Approvals:    o.approvals,
		ApprovalWait: o.approvalWait,
		InputWait:    o.inputWait,
		Watch:        watching(c.env),
		Deltas:       o.deltas,
		StartTimeout: codex.StartTimeout(w.Codex.ReadTimeout),
		ReadTimeout:  w.Codex.ReadTimeout,
		Grace:        o.grace,
		Now:          c.env.Now,
		Slept:        session.Slept(),
		Hurry:        c.env.Hurry(),
		Warn:         c.env.Warnf,
		Sweep: func(ctx context.Context) {
			if _, err := proc.KillDescendants(ctx); err != nil {
				c.env.Warnf("end what the session left: %v", err)
			}
		},
	}, nil
}

func (c *command) maxTokens() int64 {
	if c.options.given["max-tokens"] {
		return c.options.maxTokens
	}
	return c.workflow.Budget.TokensPerRun
}

// watching says how a mailbox is watched. OS_WATCH=off is for machines whose watchers
// are few or do not work.
func watching(env *cli.Env) watch.Options {
	return watch.Options{Forbid: env.Getenv("OS_WATCH") == "off"}
}

// plan says which turns are made with which texts.
func (c *command) plan(ws *wire.Workspace) (session.Plan, error) {
	o := c.options
	p := session.Plan{MaxTurns: c.workflow.Agent.MaxTurns, Continue: continuation, Again: o.again != "", Given: o.prompted}
	if o.given["max-turns"] {
		p.MaxTurns = o.maxTurns
	}
	if o.again != "" {
		p.Continue = o.again
	}
	if o.recheck != "" && ws.Issue != nil {
		p.Recheck = (&session.Recheck{
			Command: o.recheck, Dir: c.env.Dir, Env: c.hostEnv(), Stderr: file(c.env.Stderr), Issue: ws.Issue,
		}).Run
	}
	if p.Full = string(ws.Prompt); p.Full != "" {
		return p, nil
	}
	vars := workflow.Vars{
		Issue: ws.Issue, Attempt: ws.Attempt, Turn: 1, MaxTurns: int64(p.MaxTurns),
		Workspace: &workflow.Folder{Key: ws.Key, Path: ws.Path, Created: ws.Created},
	}
	var err error
	p.Full, err = c.workflow.Prompt.Render(vars)
	return p, err
}

func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}

func (c *command) model(ws *wire.Workspace) string {
	switch {
	case c.options.model != "":
		return c.options.model
	case ws.Route != nil && ws.Route.Model != "":
		return string(ws.Route.Model)
	}
	return c.workflow.Routing.Model
}

func (c *command) effort(ws *wire.Workspace) string {
	if c.options.effort == "" && ws.Route != nil {
		return string(ws.Route.Effort)
	}
	return c.options.effort
}

// route is the record's decision, or what the command line and the workflow make of
// it where nobody has decided before.
func (c *command) route(ws *wire.Workspace) *wire.Route {
	r := wire.Route{Harness: codex.Harness, Source: "workflow"}
	if ws.Route != nil {
		r = *ws.Route
	}
	r.Model, r.Effort, r.DryRun = wire.Text(c.model(ws)), wire.Text(c.effort(ws)), c.options.dryRun
	if c.options.model != "" {
		r.Source = "flag"
	}
	return &r
}

func (c *command) thread(place session.Place) codex.Thread {
	o, w := c.options, c.workflow.Codex
	t := codex.Thread{
		Model: c.model(place.Workspace), Effort: c.effort(place.Workspace),
		ApprovalPolicy: w.ApprovalPolicy, Sandbox: w.ThreadSandbox,
		WritableRoots: append([]string{state.TempDir(place.RunID)}, codex.WorktreeRoots(place.Workspace.Path)...),
		Overrides:     o.overrides,
	}
	if o.approvalPolicy != nil {
		t.ApprovalPolicy = o.approvalPolicy
	}
	if o.sandbox != "" {
		t.Sandbox = o.sandbox
		return t // the workflow's policy of turns belongs to its own sandbox
	}
	t.TurnPolicy = turnPolicy(w.TurnSandboxPolicy, t.WritableRoots)
	return t
}

// turnPolicy adds the session's own roots to a workspaceWrite policy, which replaces
// the thread's.
func turnPolicy(policy map[string]any, roots []string) map[string]any {
	if policy["type"] != "workspaceWrite" {
		return policy
	}
	policy = maps.Clone(policy)
	all, _ := policy["writableRoots"].([]any)
	all = slices.Clone(all)
	for _, r := range roots {
		all = append(all, r)
	}
	policy["writableRoots"] = all
	return policy
}

func (c *command) launch(environ []string) codex.Launch {
	l := codex.Launch{
		Command: c.workflow.Codex.Command,
		Program: c.env.Getenv("OPENSYMPHONY_CODEX_BIN"),
		Base:    c.workflow.Dir,
		Env:     environ,
	}
	if c.options.command != "" {
		l.Command, l.Base = c.options.command, c.env.Dir
	}
	return l
}

// agentEnv is the environment of the app-server and so of the agent's commands.
func (c *command) agentEnv(place session.Place) []string {
	return c.peerEnv(map[string]string{
		"TMPDIR":       state.TempDir(place.RunID),
		"OS_RUN_ID":    place.RunID,
		"OS_STATE_DIR": string(place.State),
		"OS_WORKSPACE": place.Workspace.Path,
	})
}

// peerEnv is our environment without what no agent may know, with more over it.
func (c *command) peerEnv(more map[string]string) []string {
	allow, set := c.options.splitEnv()
	names := session.Withheld(c.workflow.Tracker.Secrets, slices.Concat(allow, c.workflow.Agent.Env))
	maps.Copy(set, more)
	names = append(names, "OS_WORKFLOW_DIR") // says how others are to read the workflow
	drop := func(name string) bool { return slices.Contains(names, name) || proc.GitLocation(name) }
	return proc.Environ(c.env.Environ, drop, set)
}

// hostEnv is the environment of what runs beside the session, with the tracker's
// credentials.
func (c *command) hostEnv() []string {
	set := make(map[string]string)
	if c.workflow.Path != "" {
		set["OS_WORKFLOW"] = c.workflow.Path
	}
	return proc.Environ(c.env.Environ, func(name string) bool { return name == "OS_LOCK_FD" }, set)
}

// openTools lists the host-side tools.
func (c *command) openTools(ctx context.Context, place session.Place) (*toolbox.Box, *session.Ending) {
	commands := c.workflow.Tools.Commands
	dir := c.workflow.Dir
	if c.options.given["tools"] {
		commands, dir = c.options.tools, c.env.Dir
	}
	if dir == "" {
		dir = c.env.Dir
	}
	box, err := toolbox.Open(ctx, commands, toolbox.Options{
		Dir: dir, Env: c.hostEnv(), IssueFile: place.Run.Record(), Workspace: place.Workspace.Path, Warn: c.env.Warnf,
	})
	var stop *cli.Interrupted
	switch {
	case err == nil:
		return box, nil
	case errors.As(context.Cause(ctx), &stop):
		return nil, session.Cancelled(wire.CauseShutdown, "the session was told to stop")
	case errors.Is(err, fs.ErrNotExist):
		return nil, session.Failf(wire.CauseConfig, "%v", err)
	}
	return nil, session.Failf(wire.CauseInternal, "%v", err)
}

// path is a path of the command line, made absolute.
func (c *command) path(p string) string { return absolute(c.env.Dir, p) }

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
