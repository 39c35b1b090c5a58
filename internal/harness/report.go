package harness

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Report prints what the verb check finds, one line about each thing, "ok|warning|error
// NAME: text", and keeps the status of the first error.
type Report struct {
	env    *cli.Env
	status int
	err    error // of stdout
}

func (r *Report) line(word, name, text string) {
	if r.err == nil {
		_, r.err = fmt.Fprintf(r.env.Stdout, "%s %s: %s\n", word, name, text)
	}
}

// OK tells of a thing that is as it should be.
func (r *Report) OK(name, format string, args ...any) {
	r.line("ok", name, fmt.Sprintf(format, args...))
}

// Warning tells of a thing that a session can live with.
func (r *Report) Warning(name, format string, args ...any) {
	r.line("warning", name, fmt.Sprintf(format, args...))
}

// Error tells of a thing that keeps a session from working, which ends with status.
func (r *Report) Error(status int, name, format string, args ...any) {
	if r.status == cli.StatusOK {
		r.status = status
	}
	r.line("error", name, fmt.Sprintf(format, args...))
}

// Failure tells why the agent could not be asked.
func (r *Report) Failure(name string, err error) {
	end := session.EndingOf(err)
	status := (&wire.Outcome{Outcome: end.Outcome, Error: &wire.OutcomeError{Category: end.Category}}).ExitStatus()
	text := end.Message
	if end.Detail != "" {
		text += ": " + end.Detail
	}
	r.Error(status, name, "%s", text)
}

// Workflow tells of the workflow: a setting without effect is an error.
func (r *Report) Workflow(w *workflow.Workflow) {
	switch {
	case len(w.Warnings) > 0:
		r.Error(cli.StatusConfig, "workflow", "%s", w.Warnings[0])
	case w.Path != "":
		r.OK("workflow", "%s", w.Path)
	}
}

// end returns the error that carries the status.
func (r *Report) end() error {
	if r.err != nil {
		return r.err
	}
	return cli.Exit(r.status)
}

// CheckFlags returns the flags of the verb check that all harnesses have.
func (o *Options) CheckFlags() *pflag.FlagSet {
	fs := o.usage.Flags()
	fs.StringVar(&o.Workflow, "workflow", "", "the workflow `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md if it is there)")
	return fs
}

// Check is the verb check: it reads args with the flags of fs, lets look report what would
// keep a session from working, and returns the exit status for that.
func Check(ctx context.Context, env *cli.Env, o *Options, fs *pflag.FlagSet, args []string, look func(*Command, *Report)) error {
	rest, err := o.usage.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return o.Wrong("unexpected argument %q", rest[0])
	}
	w, err := workflow.Open(o.Workflow, env)
	if err != nil {
		return err
	}
	r := &Report{env: env}
	look(&Command{Env: env, Options: o, Workflow: w}, r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return r.end()
}
