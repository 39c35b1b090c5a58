package codex

import (
	"context"
	"fmt"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
	"ostoolkit/internal/codex/schema"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/proc"
)

var checkUsage = cli.Usage{
	Name:     "os-codex check",
	Synopsis: []string{"[flags]"},
	About: `
Starts the app-server without a thread and tells what would keep a session from working,
one line each, "ok|warning|error NAME: text": the workflow (a setting without effect is an
error here), the program, its version and configuration, whether it understands our
requests, the login, the sandbox.`,
	Examples: `
os-codex check
os-codex check --command '/opt/codex/bin/codex app-server'`,
	Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusNoInput, cli.StatusUnavailable, cli.StatusProtocol, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusOK:          "no error; there may be warnings",
		cli.StatusUnavailable: "the app-server's program is missing",
		cli.StatusProtocol:    "the app-server does not speak the protocol",
		cli.StatusAuth:        "not logged in",
		cli.StatusConfig:      "the workflow or Codex's configuration is wrong",
	},
}

// check is the verb.
func check(ctx context.Context, env *cli.Env, args []string) error {
	o := &options{Options: harness.NewOptions(&checkUsage)}
	fs := o.CheckFlags()
	o.addLaunch(fs)
	// The npm wrapper may die before the program that it has started.
	if err := proc.Subreap(); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return harness.Check(ctx, env, o.Options, fs, args, func(c *harness.Command, r *harness.Report) {
		driver{o}.check(ctx, c, report{r})
	})
}

// report is a harness.Report that knows what an app-server tells.
type report struct{ *harness.Report }

func (d driver) check(ctx context.Context, c *harness.Command, r report) {
	r.Workflow(c.Workflow)
	launch := d.launch(c, c.PeerEnv(nil))
	argv, err := launch.Resolve()
	if err != nil {
		r.Failure("binary", err)
		return
	}
	r.OK("binary", "%s", argv[0])
	facts, err := codex.Probe(ctx, launch, c.Env.Dir, codex.StartTimeout(c.Workflow.Codex.ReadTimeout), schema.Preview)
	if _, err := proc.KillDescendants(ctx); err != nil {
		c.Env.Warnf("end what the app-server left: %v", err)
	}
	if err != nil {
		r.Failure("version", err)
		return
	}
	r.OK("version", "%s", facts.Version)
	r.config(facts.Warnings)
	d.reportSchema(ctx, c.Env, r, launch, facts.Version)
	r.login(facts.Login)
	r.sandbox(c.Workflow.Codex.ThreadSandbox)
}

// config tells of Codex's own warnings. One about a file means that the file does not
// count as it stands.
func (r report) config(warnings []codex.Warning) {
	for _, w := range warnings {
		text := schema.Preview([]byte(w.Text))
		if w.Path != "" {
			r.Error(cli.StatusConfig, "config", "%s", text)
		} else {
			r.Warning("config", "%s", text)
		}
	}
}

func (r report) login(l codex.Login) {
	switch {
	case !l.Known:
		r.Warning("login", "this version does not tell")
	case l.Missing:
		r.Error(cli.StatusAuth, "login", "not logged in; run codex login")
	case l.Account == "":
		r.OK("login", "none is needed")
	default:
		r.OK("login", "%s", l.Account)
	}
}

func (r report) sandbox(name string) {
	switch name {
	case "danger-full-access":
		r.Warning("sandbox", "%s does not confine the agent", name)
	case "workspace-write":
		r.OK("sandbox", "%s: the workspace and a TMPDIR of its own, neither /tmp nor the network", name)
	default:
		r.OK("sandbox", "%s", name)
	}
}
