package codex

import (
	"context"
	"fmt"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
	"ostoolkit/internal/codex/schema"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
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

// report prints one line about each thing and keeps the status of the first error.
type report struct {
	env    *cli.Env
	status int
	err    error // of stdout
}

func (r *report) line(word, name, text string) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.env.Stdout, "%s %s: %s\n", word, name, text)
	}
}

func (r *report) ok(name, format string, args ...any) {
	r.line("ok", name, fmt.Sprintf(format, args...))
}

func (r *report) warning(name, format string, args ...any) {
	r.line("warning", name, fmt.Sprintf(format, args...))
}

func (r *report) error(status int, name, format string, args ...any) {
	if r.status == cli.StatusOK {
		r.status = status
	}
	r.line("error", name, fmt.Sprintf(format, args...))
}

func (r *report) end() error {
	if r.err != nil {
		return r.err
	}
	return cli.Exit(r.status)
}

// check is the verb.
func check(ctx context.Context, env *cli.Env, args []string) error {
	o := &options{cwd: "."}
	fs := checkUsage.Flags()
	fs.StringVar(&o.workflow, "workflow", "", "the workflow `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md if it is there)")
	fs.StringVar(&o.command, "command", "", "the `COMMAND` that starts the app-server (default \"codex app-server\")")
	fs.BoolVar(&o.noSchema, "no-schema", false, "do not compare our requests with the app-server's schema")
	rest, err := checkUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.WithHint(cli.Usagef("unexpected argument %q", rest[0]), "%s --help", checkUsage.Name)
	}
	w, err := workflow.Open(o.workflow, env)
	if err != nil {
		return err
	}
	// The npm wrapper may die before the program that it has started.
	if err := proc.Subreap(); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	r := &report{env: env}
	(&command{env: env, options: o, workflow: w}).check(ctx, r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.end()
}

func (c *command) check(ctx context.Context, r *report) {
	switch w := c.workflow; {
	case len(w.Warnings) > 0:
		r.error(cli.StatusConfig, "workflow", "%s", w.Warnings[0])
	case w.Path != "":
		r.ok("workflow", "%s", w.Path)
	}
	launch := c.launch(c.peerEnv(nil))
	argv, err := launch.Resolve()
	if err != nil {
		r.failure("binary", err)
		return
	}
	r.ok("binary", "%s", argv[0])
	facts, err := codex.Probe(ctx, launch, c.env.Dir, codex.StartTimeout(c.workflow.Codex.ReadTimeout), schema.Preview)
	if _, err := proc.KillDescendants(ctx); err != nil {
		c.env.Warnf("end what the app-server left: %v", err)
	}
	if err != nil {
		r.failure("version", err)
		return
	}
	r.ok("version", "%s", facts.Version)
	r.config(facts.Warnings)
	c.reportSchema(ctx, r, launch, facts.Version)
	r.login(facts.Login)
	r.sandbox(c.workflow.Codex.ThreadSandbox)
}

// failure tells why the app-server could not be asked.
func (r *report) failure(name string, err error) {
	end := session.EndingOf(err)
	status := (&wire.Outcome{Outcome: end.Outcome, Error: &wire.OutcomeError{Category: end.Category}}).ExitStatus()
	text := end.Message
	if end.Detail != "" {
		text += ": " + end.Detail
	}
	r.error(status, name, "%s", text)
}

// config tells of Codex's own warnings. One about a file means that the file does not
// count as it stands.
func (r *report) config(warnings []codex.Warning) {
	for _, w := range warnings {
		text := schema.Preview([]byte(w.Text))
		if w.Path != "" {
			r.error(cli.StatusConfig, "config", "%s", text)
		} else {
			r.warning("config", "%s", text)
		}
	}
}

func (r *report) login(l codex.Login) {
	switch {
	case !l.Known:
		r.warning("login", "this version does not tell")
	case l.Missing:
		r.error(cli.StatusAuth, "login", "not logged in; run codex login")
	case l.Account == "":
		r.ok("login", "none is needed")
	default:
		r.ok("login", "%s", l.Account)
	}
}

func (r *report) sandbox(name string) {
	switch name {
	case "danger-full-access":
		r.warning("sandbox", "%s does not confine the agent", name)
	case "workspace-write":
		r.ok("sandbox", "%s: the workspace and a TMPDIR of its own, neither /tmp nor the network", name)
	default:
		r.ok("sandbox", "%s", name)
	}
}
