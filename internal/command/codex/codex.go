// Package codex is the command os-codex: it turns flags, WORKFLOW.md and workspace
// records into sessions of internal/codex, and their outcomes into an exit status. Its
// verb send puts a request into the mailbox of such a session, check tells what would
// keep one from working.
//
// The protocol is in internal/codex, runs and locks are in internal/run.
package codex

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex/rehearse"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Main runs os-codex and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-codex", env, start) }

func start(ctx context.Context, env *cli.Env) error {
	if len(env.Args) > 0 && env.Args[0] == "rehearse" {
		return rehearse.Run(ctx, env, env.Args[1:])
	}
	if len(env.Args) > 0 && env.Args[0] == "send" {
		return send(ctx, env, env.Args[1:])
	}
	if len(env.Args) > 0 && env.Args[0] == "check" {
		return check(ctx, env, env.Args[1:])
	}
	o, err := parse(env.Args)
	if err != nil {
		return err
	}
	if !o.prompted && isTerminal(env.Stdin) {
		return wrong("no PROMPT, and standard input is a terminal where workspace records are read")
	}
	supervised := o.supervised(env)
	if supervised && o.prompt == "-" {
		return wrong("under os-workspace run standard input is the workspace record, not the PROMPT")
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
	c := &command{env: env, options: o, workflow: w, supervised: supervised}
	if o.prompted {
		return c.direct(ctx)
	}
	return c.records(ctx)
}

// command is one call of os-codex.
type command struct {
	env        *cli.Env
	options    *options
	workflow   *workflow.Workflow
	supervised bool // there is a PROMPT, for a run that somebody else leads
}

// open loads the workflow. A PROMPT stands for itself: a WORKFLOW.md that happens to
// lie in the folder has no say then. A supervisor names the one of its run.
func (o *options) open(env *cli.Env, supervised bool) (*workflow.Workflow, error) {
	if !o.prompted || o.workflow != "" || supervised {
		return workflow.Open(o.workflow, env)
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
func (c *command) direct(ctx context.Context) error {
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
func (c *command) prompt(ctx context.Context) (string, error) {
	text, from := c.options.prompt, "the PROMPT"
	switch {
	case c.options.promptFile != "":
		from = c.options.promptFile
		b, err := os.ReadFile(c.path(from))
		if err != nil {
			return "", cli.Errorf(cli.StatusNoInput, "read the prompt: %w", err)
		}
		text = string(b)
	case text == "-":
		from = "standard input"
		b, err := readAll(ctx, c.env.Stdin)
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
func (c *command) records(ctx context.Context) error {
	var first error
	bad := false
	out := wire.NewWriter(c.env.Stdout)
	for in := range wire.Records(ctx, c.env.Stdin, "workspace") {
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
			c.env.Warnf("standard input, line %d: %v", in.Number, err)
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
func (c *command) tell(err error) {
	var exit *cli.ExitError
	if !errors.As(err, &exit) || exit.Err != nil {
		c.env.Errorf("%v", err)
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}
