package openhands

import (
	"cmp"
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/shlex"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands"
	"ostoolkit/internal/openhands/spawn"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// spawnGrace is what a polite stop takes with a server of our own: first the turn, then
// the server.
const spawnGrace = 20 * time.Second

// driver makes sessions of internal/openhands. Between two records it keeps the servers
// of our own that their sessions use: each takes long to start.
type driver struct {
	options *options
	kept    map[string]*spawn.Server // by Config.Dir; nil: none is kept
}

// Session implements harness.Driver.
func (d driver) Session(ctx context.Context, c *harness.Command, j *harness.Job) (*wire.Outcome, error) {
	cfg, end := d.config(c, j)
	if end != nil {
		return nil, end
	}
	if d.options.DryRun {
		return openhands.DryRun(cfg)
	}
	if cfg.Tools, end = c.OpenTools(ctx, j.Place); end != nil {
		return nil, end
	}
	if end := d.keepServer(ctx, cfg.Server.Spawn); end != nil {
		return nil, end
	}
	return openhands.Run(ctx, cfg)
}

func (d driver) keepServer(ctx context.Context, c *spawn.Config) *session.Ending {
	if c == nil || d.kept == nil || d.kept[c.Dir] != nil {
		return nil
	}
	s, err := spawn.Join(ctx, *c)
	if err != nil {
		return session.Failf(wire.CauseState, "%v", err)
	}
	d.kept[c.Dir] = s
	return nil
}

// leaveServers ends the servers that were kept, unless others use them.
func (d driver) leaveServers(env *cli.Env) {
	for _, s := range d.kept {
		if err := s.CloseWithin(spawnGrace/2, env.Hurry()); err != nil {
			env.Warnf("%v", err)
		}
	}
}

// BusyHint implements harness.Driver.
func (driver) BusyHint() string { return "begin a new conversation with --resume never" }

// Secrets implements harness.Driver.
func (d driver) Secrets(c *harness.Command) []string {
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		return nil // the session does not begin
	}
	server, _ := d.server(c, s)
	return []string{server.Key, d.agent(c, s, nil).Key}
}

// config turns everything that was said into the configuration of one session.
func (d driver) config(c *harness.Command, j *harness.Job) (openhands.Config, *session.Ending) {
	base, end := c.Config(j, openhands.Harness, c.Workflow.Codex.TurnTimeout)
	if end != nil {
		return openhands.Config{}, end
	}
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		return openhands.Config{}, openhands.Misconfigured("%v", err)
	}
	for _, key := range s.unused {
		c.Env.Warnf("openhands.%s has no effect", key)
	}
	server, command := d.server(c, s)
	if end := d.checkServer(s, server, command); end != nil {
		return openhands.Config{}, end
	}
	if name := d.keyVariable(s); command == "" && name != "" && server.Key == "" {
		c.Env.Warnf("%s, which is to have the session key of the agent-server, is not set", name)
	}
	if command != "" {
		argv, end := d.program(c, command)
		if end != nil {
			return openhands.Config{}, end
		}
		server.Spawn = d.spawn(c, s, j.Place, argv)
		base.Grace = d.options.Duration("grace", base.Grace, spawnGrace)
	}
	return openhands.Config{
		Config: base,
		Server: server,
		Agent:  d.agent(c, s, j.Place.Workspace),
		Rand:   c.Env.Rand,
		Notes:  c.Notes(j.Place.Workspace),
	}, nil
}

// server says where the server is. A flag wins over the workflow as a whole: an address
// on the command line is not combined with a command of the file. With a command there is
// no address yet.
func (d driver) server(c *harness.Command, s *settings) (out openhands.Server, command string) {
	o := d.options
	out.URL, out.KeyEnv = s.url, d.keyVariable(s)
	out.Key = c.Env.Getenv(out.KeyEnv)
	command = s.command
	switch {
	case o.server != "":
		out.URL, command = o.server, ""
	case o.spawn != "":
		out.URL, command = "", o.spawn
	}
	if command == "" {
		out.URL = cmp.Or(out.URL, defaultURL)
	}
	return out, command
}

// keyVariable names the variable with the session key, "" where none is named.
func (d driver) keyVariable(s *settings) string { return cmp.Or(d.options.apiKeyEnv, s.apiKeyEnv) }

// checkServer refuses what cannot be meant.
func (d driver) checkServer(s *settings, server openhands.Server, command string) *session.Ending {
	if d.options.server == "" && d.options.spawn == "" && s.url != "" && s.command != "" {
		return openhands.Misconfigured("openhands.%s is set although openhands.%s names a server that runs already", s.commandKey, s.urlKey)
	}
	if command != "" {
		return nil
	}
	if err := openhands.CheckURL(server.URL, server.Key != ""); err != nil {
		return openhands.Misconfigured("%v", err)
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
	keyEnv := cmp.Or(o.llmKeyEnv, s.llmKeyEnv)
	a := openhands.Agent{
		Model: s.model, LLM: llm, Key: c.Env.Getenv(keyEnv), KeyEnv: keyEnv, Tools: s.tools,
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

// program makes argv of the command that starts a server. One of the workflow is found
// beside its file.
func (d driver) program(c *harness.Command, command string) ([]string, *session.Ending) {
	argv, err := shlex.Split(command)
	if err != nil || len(argv) == 0 {
		return nil, openhands.Misconfigured("the command %q of the agent-server is no list of words", command)
	}
	dir := c.Env.Dir
	if d.options.spawn == "" {
		dir = c.Workflow.Dir
	}
	if argv[0], err = proc.LookPath(argv[0], dir, c.Env.Getenv); err != nil {
		return nil, session.Failf(wire.CauseUnavailable, "start the agent-server: %v", err)
	}
	return argv, nil
}

// spawn says how a server is started, which all sessions of the state root share. It gets
// no variable of this run, and not those with the keys, which we hand over ourselves: the
// agents of all see what it has.
func (d driver) spawn(c *harness.Command, s *settings, place session.Place, argv []string) *spawn.Config {
	return &spawn.Config{
		Dir: place.State.Root().Shared(spawn.Name), Keeper: keeper(), Command: argv,
		Env:   c.PeerEnv(nil, d.options.apiKeyEnv, d.options.llmKeyEnv, s.apiKeyEnv, s.llmKeyEnv),
		Limit: openhands.ReadyLimit, Rand: c.Env.Rand,
	}
}

// keeper is the command line of the server's keeper: ourselves, or, where we run as a
// part of another program, the one of our name on PATH.
func keeper() []string {
	if self, err := os.Executable(); err == nil && filepath.Base(self) == usage.Name {
		return []string{self, keepVerb}
	}
	return []string{usage.Name, keepVerb}
}
