// Package harness is what the commands os-codex and os-openhands have in common: the
// flags that both know, the three ways to be called (a PROMPT, workspace records, a
// PROMPT for a run that somebody else leads), the run around each session, the verb
// send and the lines of the verb check.
//
// It speaks to no agent: a Driver does. Runs and locks are in internal/run, what
// happens in a session is in internal/session. A Command belongs to one goroutine.
package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Driver makes the sessions of one kind of agent.
type Driver interface {
	// Session makes one session and returns its outcome, which it has written. Without
	// an outcome the error is an *session.Ending, which is written here, unless the
	// session is somebody else's.
	Session(ctx context.Context, c *Command, j *Job) (*wire.Outcome, error)
	// Secrets returns values that no summary may show, besides those of the tracker.
	Secrets(c *Command) []string
	// BusyHint says what to type where the session is somebody else's.
	BusyHint() string
}

// Command is one call of a harness.
type Command struct {
	Env      *cli.Env
	Options  *Options
	Workflow *workflow.Workflow

	driver     Driver
	supervised bool // there is a PROMPT, for a run that somebody else leads
}

// Job is one session that is to be made.
type Job struct {
	Place   session.Place
	Emitter *session.Emitter
	Trace   io.Writer // nil: none
}

// Run makes the sessions that the command line asks for.
func Run(ctx context.Context, env *cli.Env, o *Options, d Driver) error {
	if !o.prompted && isTerminal(env.Stdin) {
		return o.Wrong("no PROMPT, and standard input is a terminal where workspace records are read")
	}
	supervised := o.supervised(env)
	if supervised && o.prompt == "-" {
		return o.Wrong("under os-workspace run standard input is the workspace record, not the PROMPT")
	}
	w, err := o.open(env, supervised)
	if err != nil {
		return err
	}
	// An agent may start children in sessions of their own; they become ours when their
	// parents end, and are ended with the session.
	if err := proc.Subreap(); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	c := &Command{Env: env, Options: o, Workflow: w, driver: d, supervised: supervised}
	if o.prompted {
		return c.direct(ctx)
	}
	return c.records(ctx)
}

// open loads the workflow. A PROMPT stands for itself: a WORKFLOW.md that happens to
// lie in the folder has no say then. A supervisor names the one of its run.
func (o *Options) open(env *cli.Env, supervised bool) (*workflow.Workflow, error) {
	if !o.prompted || o.Workflow != "" || supervised {
		return workflow.Open(o.Workflow, env)
	}
	home, err := env.Home()
	if err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	w := workflow.Defaults(workflow.Options{LookupEnv: env.LookupEnv, Home: home, Dir: env.Dir}, env.Dir)
	w.Tools.Commands = nil // there is no tracker
	return w, nil
}

// direct makes one session with the PROMPT.
func (c *Command) direct(ctx context.Context) error {
	prompt, err := c.prompt(ctx)
	if err != nil {
		return err
	}
	rec, err := c.workspace()
	if err != nil {
		return err
	}
	rec.Prompt = wire.Text(prompt)
	return c.session(ctx, rec)
}

// prompt returns the text of PROMPT, of standard input or of --prompt-file.
func (c *Command) prompt(ctx context.Context) (string, error) {
	text, from := c.Options.prompt, "the PROMPT"
	switch {
	case c.Options.PromptFile != "":
		from = c.Options.PromptFile
		b, err := os.ReadFile(c.path(from))
		if err != nil {
			return "", cli.Errorf(cli.StatusNoInput, "read the prompt: %w", err)
		}
		text = string(b)
	case text == "-":
		from = "standard input"
		b, err := readAll(ctx, c.Env.Stdin)
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	if strings.TrimSpace(text) == "" {
		return "", cli.Errorf(cli.StatusNoInput, "%s is empty", from)
	}
	return text, nil
}

// readAll reads r to its end unless ctx ends first. The goroutine ends with the read
// that is under way, at the latest with the process.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, wire.MaxRecord))
		done <- result{b, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return nil, fmt.Errorf("read standard input: %w", got.err)
		}
		return got.text, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// records makes a session for each workspace record on standard input. Outcomes, and
// records of types that are not ours, pass through. The first status that is not 0
// is the command's, unless only input lines were bad.
func (c *Command) records(ctx context.Context) error {
	var first error
	bad := false
	out := wire.NewWriter(c.Env.Stdout)
	for in := range wire.Records(ctx, c.Env.Stdin, "workspace") {
		err := in.Err
		switch rec := in.Record.(type) {
		case nil:
		case *wire.Workspace:
			if err := c.session(ctx, rec); err != nil && first == nil {
				first = err
			} else if err != nil {
				c.tell(err)
			}
		case *wire.Unknown, *wire.Outcome:
			if err := out.Write(rec); err != nil {
				return fmt.Errorf("pass a record on: %w", err)
			}
		default:
			err = errors.New("a workspace record is expected")
		}
		if err != nil {
			c.Env.Warnf("standard input, line %d: %v", in.Number, err)
			bad = true
		}
		if ctx.Err() != nil {
			break
		}
	}
	switch {
	case first != nil:
		return first
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bad:
		return cli.Exit(cli.StatusData)
	}
	return nil
}

// tell prints the error of a session that does not decide the exit status.
func (c *Command) tell(err error) {
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Err != nil {
		c.Env.Errorf("%v", err)
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Sweep ends what a session has left behind.
func (c *Command) Sweep(ctx context.Context) {
	if _, err := proc.KillDescendants(ctx); err != nil {
		c.Env.Warnf("end what the session left: %v", err)
	}
}
