package codex

import (
	"context"
	"maps"
	"slices"

	"ostoolkit/internal/codex"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// driver makes sessions of internal/codex.
type driver struct{ options *options }

// Session implements harness.Driver.
func (d driver) Session(ctx context.Context, c *harness.Command, j *harness.Job) (*wire.Outcome, error) {
	cfg, end := d.config(c, j)
	if end != nil {
		return nil, end
	}
	if d.options.DryRun {
		return codex.DryRun(cfg)
	}
	if cfg.Tools, end = c.OpenTools(ctx, j.Place); end != nil {
		return nil, end
	}
	return codex.Run(ctx, cfg)
}

// Secrets implements harness.Driver. Codex keeps its own to itself.
func (driver) Secrets(*harness.Command) []string { return nil }

// BusyHint implements harness.Driver.
func (driver) BusyHint() string {
	return "end the Codex that has the thread open, or begin a new one with --resume never"
}

// config turns everything that was said into the configuration of one session.
func (d driver) config(c *harness.Command, j *harness.Job) (codex.Config, *session.Ending) {
	o, w := d.options, c.Workflow.Codex
	base, end := c.Config(j, codex.Harness, w.TurnTimeout)
	if end != nil {
		return codex.Config{}, end
	}
	launch := d.launch(c, c.AgentEnv(j.Place))
	return codex.Config{
		Config:       base,
		Goal:         o.goal,
		GoalWait:     o.goalWait,
		Launch:       launch,
		Schema:       d.checkSchema(c.Env, launch),
		Thread:       d.thread(c, j.Place),
		InputWait:    o.InputWait,
		StartTimeout: codex.StartTimeout(w.ReadTimeout),
		ReadTimeout:  w.ReadTimeout,
		Sweep:        c.Sweep,
	}, nil
}

func (d driver) thread(c *harness.Command, place session.Place) codex.Thread {
	o, w := d.options, c.Workflow.Codex
	git := codex.WorktreeRoots(place.Workspace.Path)
	if o.gitWrite {
		git = codex.RepositoryRoots(place.Workspace.Path)
	}
	t := codex.Thread{
		Model: c.Model(place.Workspace), Effort: c.Effort(place.Workspace),
		ApprovalPolicy: w.ApprovalPolicy, Sandbox: w.ThreadSandbox,
		WritableRoots: append([]string{state.TempDir(place.RunID)}, git...),
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

func (d driver) launch(c *harness.Command, environ []string) codex.Launch {
	l := codex.Launch{
		Command: c.Workflow.Codex.Command,
		Program: c.Env.Getenv("OPENSYMPHONY_CODEX_BIN"),
		Base:    c.Workflow.Dir,
		Env:     environ,
	}
	if d.options.command != "" {
		l.Command, l.Base = d.options.command, c.Env.Dir
	}
	return l
}
