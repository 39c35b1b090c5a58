package openhands

import (
	"cmp"
	"context"
	"maps"

	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// driver makes sessions of internal/openhands.
type driver struct{ options *options }

// Session implements harness.Driver.
func (d driver) Session(ctx context.Context, c *harness.Command, j *harness.Job) (*wire.Outcome, error) {
	cfg, end := d.config(c, j)
	if end != nil {
		return nil, end
	}
	if d.options.DryRun {
		return openhands.DryRun(cfg)
	}
	return openhands.Run(ctx, cfg)
}

// BusyHint implements harness.Driver.
func (driver) BusyHint() string { return "begin a new conversation with --resume never" }

// Secrets implements harness.Driver.
func (d driver) Secrets(c *harness.Command) []string {
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		return nil // the session does not begin
	}
	return []string{d.server(c, s).Key, d.agent(c, s, nil).Key}
}

// config turns everything that was said into the configuration of one session.
func (d driver) config(c *harness.Command, j *harness.Job) (openhands.Config, *session.Ending) {
	o, ws := d.options, j.Place.Workspace
	plan, end := c.Plan(ws)
	if end != nil {
		return openhands.Config{}, end
	}
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		return openhands.Config{}, session.Failf(wire.CauseConfig, "%v", err)
	}
	server := d.server(c, s)
	if end := d.checkServer(s, server); end != nil {
		return openhands.Config{}, end
	}
	return openhands.Config{
		Place:        j.Place,
		Emitter:      j.Emitter,
		Plan:         plan,
		Limits:       c.Limits(c.Workflow.Codex.TurnTimeout),
		Budget:       c.Budget(),
		Route:        c.Route(ws, openhands.Harness),
		Server:       server,
		Agent:        d.agent(c, s, ws),
		Resume:       o.Resume,
		Approvals:    o.Approvals,
		ApprovalWait: o.ApprovalWait,
		Watch:        c.Watching(),
		Deltas:       o.Deltas,
		Grace:        o.Grace,
		Now:          c.Env.Now,
		Rand:         c.Env.Rand,
		Slept:        session.Slept(),
		Hurry:        c.Env.Hurry(),
		Trace:        j.Trace,
		Warn:         c.Env.Warnf,
	}, nil
}

// server says where the server is. A flag wins over the workflow as a whole: an address
// on the command line is not combined with a command of the file.
func (d driver) server(c *harness.Command, s *settings) openhands.Server {
	o := d.options
	out := openhands.Server{URL: s.url, Key: c.Env.Getenv(cmp.Or(o.apiKeyEnv, s.apiKeyEnv))}
	command := s.command
	switch {
	case o.server != "":
		out.URL, command = o.server, ""
	case o.spawn != "":
		out.URL, command = "", o.spawn
	}
	if command != "" {
		out.Spawn = d.spawn(c, command)
		return out
	}
	out.URL = cmp.Or(out.URL, defaultURL)
	return out
}

// checkServer refuses what cannot be meant.
func (d driver) checkServer(s *settings, server openhands.Server) *session.Ending {
	if d.options.server == "" && d.options.spawn == "" && s.url != "" && s.command != "" {
		return session.Failf(wire.CauseConfig, "openhands.%s is set although openhands.%s names a server that runs already", s.commandKey, s.urlKey)
	}
	if server.Spawn != nil {
		return nil
	}
	if err := openhands.CheckURL(server.URL, server.Key != ""); err != nil {
		return session.Failf(wire.CauseConfig, "%v", err)
	}
	return nil
}

func (d driver) agent(c *harness.Command, s *settings, ws *wire.Workspace) openhands.Agent {
	o := d.options
	llm := make(map[string]any)
	maps.Copy(llm, s.llm)
	if url := cmp.Or(o.llmBaseURL, c.Env.Getenv(s.baseURLEnv)); url != "" {
		llm["base_url"] = url
	}
	maps.Copy(llm, o.llm)
	a := openhands.Agent{
		Model: s.model, LLM: llm, Key: c.Env.Getenv(cmp.Or(o.llmKeyEnv, s.llmKeyEnv)), Tools: s.tools,
		MaxIterations: cmp.Or(o.maxIterations, s.maxIterations), Stuck: s.stuck,
		Confirm: cmp.Or(o.confirm, s.confirm), Reuse: cmp.Or(o.reuse, s.reuse), Condenser: s.condenser,
	}
	if ws == nil {
		return a
	}
	a.Model = cmp.Or(c.Model(ws), s.model)
	if effort := c.Effort(ws); effort != "" {
		llm["reasoning_effort"] = effort
	}
	return a
}

func (d driver) spawn(_ *harness.Command, command string) *openhands.Spawn {
	return &openhands.Spawn{Command: command}
}
