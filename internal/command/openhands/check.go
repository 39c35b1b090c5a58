package openhands

import (
	"context"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands"
)

var checkUsage = cli.Usage{
	Name:     "os-openhands check",
	Synopsis: []string{"[flags]"},
	About: `
Asks the agent-server, without a conversation, and tells what would keep a session from
working, one line each, "ok|warning|error NAME: text": the workflow (a setting without
effect is an error here), the server and its version, the session key, the agent's tools,
the key of the model's provider.`,
	Examples: `
os-openhands check
os-openhands check --server http://127.0.0.1:8000 --api-key-env KEY`,
	Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusNoInput, cli.StatusUnavailable, cli.StatusProtocol, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusOK:          "no error; there may be warnings",
		cli.StatusUnavailable: "the agent-server cannot be reached",
		cli.StatusProtocol:    "the agent-server does not speak the protocol",
		cli.StatusAuth:        "the agent-server does not take the session key",
		cli.StatusConfig:      "the workflow is wrong, or the agent-server too old",
	},
}

// check is the verb.
func check(ctx context.Context, env *cli.Env, args []string) error {
	o := &options{Options: harness.NewOptions(&checkUsage)}
	fs := o.CheckFlags()
	fs.StringVar(&o.server, "server", "", "the `URL` of the agent-server (default openhands.server.url, else http://127.0.0.1:8000)")
	fs.StringVar(&o.apiKeyEnv, "api-key-env", "", "the `VARIABLE` with the session key of the agent-server")
	return harness.Check(ctx, env, o.Options, fs, args, func(c *harness.Command, r *harness.Report) {
		if o.server == "" && fs.Changed("server") {
			r.Error(cli.StatusUsage, "server", "--server is empty")
			return
		}
		driver{options: o}.check(ctx, c, r)
	})
}

func (d driver) check(ctx context.Context, c *harness.Command, r *harness.Report) {
	r.Workflow(c.Workflow)
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		r.Error(cli.StatusConfig, "openhands", "%v", err)
		return
	}
	for _, key := range s.unused {
		r.Error(cli.StatusConfig, "openhands", "openhands.%s has no effect", key)
	}
	server, command := d.server(c, s)
	if end := d.checkServer(s, server, command); end != nil {
		r.Failure("server", end)
		return
	}
	if command != "" {
		d.checkProgram(c, r, command)
		return
	}
	d.checkPeer(ctx, c, r, s, server)
}

// checkProgram tells of a server that is started when a session wants it, which takes
// too long for a check.
func (d driver) checkProgram(c *harness.Command, r *harness.Report, command string) {
	argv, end := d.program(c, command)
	if end != nil {
		r.Failure("server", end)
		return
	}
	r.OK("server", "%s is started by the first session that wants it", argv[0])
}

func (d driver) checkPeer(ctx context.Context, c *harness.Command, r *harness.Report, s *settings, server openhands.Server) {
	facts, err := openhands.Probe(ctx, server)
	if err != nil {
		r.Failure("server", err)
		return
	}
	r.OK("server", "%s, version %s", server.URL, facts.Version)
	if err := openhands.CheckVersion(facts.Version); err != nil {
		r.Error(cli.StatusConfig, "version", "%v", err)
	}
	if name := d.keyVariable(s); name != "" && server.Key == "" {
		r.Warning("login", "%s, which is to have the session key, is not set", name)
	}
	if facts.Locked != nil {
		r.Failure("login", facts.Locked)
	} else {
		r.OK("login", "the session key is taken")
	}
	for _, tool := range facts.Missing(s.tools) {
		r.Error(cli.StatusConfig, "tools", "agent-server has no tool %q", tool)
	}
	if agent := d.agent(c, s, nil); agent.Key == "" {
		r.Warning("model", "%s: no key of its provider is set in %s", agent.Model, s.llmKeyEnv)
	} else {
		r.OK("model", "%s", agent.Model)
	}
	r.Warning("sandbox", "agent-server runs the agent's commands as itself, and confines them only where it is in a container")
}
