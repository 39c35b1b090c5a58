// Package workspace is the command os-workspace: per-issue folders and the runs in
// them. It parses, opens the store, loops over standard input and prints; what a
// folder and a run are is decided in internal/workspace and internal/run.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/run"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
	"ostoolkit/internal/workspace"
)

// Main runs the command and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-workspace", env, execute) }

func execute(ctx context.Context, env *cli.Env) error {
	c, err := parse(env.Args)
	if err != nil {
		return err
	}
	flow, err := workflow.Open(c.workflow, env)
	if err != nil {
		return err
	}
	places, err := c.places(flow, env)
	if err != nil {
		return stateError(err)
	}
	cmd := &command{config: c, env: env, flow: flow, out: wire.NewWriter(env.Stdout)}
	if c.verb == "check" {
		return cmd.check(places)
	}
	if cmd.store, err = workspace.Open(places); err != nil {
		return stateError(err)
	}
	switch c.verb {
	case "show":
		return cmd.show(ctx)
	case "list":
		return cmd.list(ctx)
	case "remove":
		return cmd.remove(ctx)
	case "sweep":
		return cmd.sweep(ctx)
	case "ensure":
		return cmd.each(ctx, cmd.ensure)
	case "begin":
		return cmd.each(ctx, cmd.begin)
	case "end":
		return cmd.each(ctx, cmd.end)
	default:
		return cmd.each(ctx, cmd.run)
	}
}

// command is one call of os-workspace.
type command struct {
	config
	env   *cli.Env
	flow  *workflow.Workflow
	store *workspace.Store
	out   *wire.Writer

	follower *follower // of the present run; nil: none

	told bool // an outcome was printed: it decides the status, also after a signal
}

// places says where the roots lie and how hooks are run there.
func (c *config) places(flow *workflow.Workflow, env *cli.Env) (workspace.Config, error) {
	host, err := os.Hostname()
	if err != nil {
		return workspace.Config{}, fmt.Errorf("ask for this machine's name: %v", err)
	}
	home, err := env.Home()
	if err != nil {
		return workspace.Config{}, err
	}
	config := workspace.Config{
		Root: flow.Workspace.Root, StateRoot: flow.Workspace.StateRoot,
		StateHome: env.Getenv("XDG_STATE_HOME"), Home: home,
		Host: host, UID: os.Getuid(), Unsafe: c.stateUnsafe,
		Hooks: flow.Hooks, Workflow: flow.Name, Environ: env.Environ, Now: env.Now,
		Waits: func(p workspace.Place, hook, lock string) {
			env.Warnf("issue %q: %s waits for the lock %q%s", p.Issue.Identifier, hook, filepath.Base(lock), holder(lock))
		},
	}
	if c.root != "" {
		config.Root = absolute(env.Dir, c.root)
	}
	if c.stateRoot != "" {
		config.StateRoot = absolute(env.Dir, c.stateRoot)
	}
	return config, nil
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// stateError gives an error of files and folders its exit status, and lets one that
// has a status already be.
func stateError(err error) error {
	var exit *cli.ExitError
	switch {
	case err == nil, errors.As(err, &exit):
		return err
	case errors.Is(err, cli.ErrStdoutClosed):
		return err // the fault is not that of a file
	case errors.Is(err, state.ErrBusy), errors.Is(err, run.ErrSuperseded):
		return &cli.ExitError{Status: cli.StatusTemporary, Err: err}
	}
	var hook *workspace.HookError
	if errors.As(err, &hook) {
		return err
	}
	return &cli.ExitError{Status: cli.StatusState, Err: err}
}

// issue returns the workspace record that rec stands for: an issue record becomes a
// new one. Records that are neither are passed on or left out.
func (c *command) issue(rec wire.Record) (*wire.Workspace, error) {
	switch r := rec.(type) {
	case *wire.Workspace:
		if r.Issue == nil {
			return nil, cli.Errorf(cli.StatusData, "workspace record of key %q has no issue", r.Key)
		}
		return r, c.complete(r.Issue)
	case *wire.Issue:
		return &wire.Workspace{Issue: r}, c.complete(r)
	case *wire.Unknown:
		return nil, c.out.Write(r)
	}
	return nil, nil
}

// complete fills in what a hand-written issue record may leave out, or what a
// manifest does not keep.
func (c *command) complete(issue *wire.Issue) error {
	if issue.Identifier == "" {
		return cli.Errorf(cli.StatusData, "issue record has no identifier")
	}
	for member, instead := range map[*string]string{
		&issue.ID:        issue.Identifier,
		&issue.Title:     issue.Identifier,
		&issue.Category:  c.category(issue.State),
		&issue.StateKind: "unknown",
		&issue.Tracker:   c.flow.Tracker.Kind,
	} {
		if *member == "" {
			*member = instead
		}
	}
	return nil
}

// place returns where the work of rec's issue happens, checked but untouched. What
// rec already says of routing and prompt is kept.
func (c *command) place(rec *wire.Workspace) (workspace.Place, *wire.Workspace, error) {
	p, err := c.store.Place(rec.Issue)
	if err != nil {
		return p, nil, cli.Errorf(cli.StatusData, "issue record: %v", err)
	}
	out := p.Record()
	out.Attempt, out.Route, out.Prompt = rec.Attempt, rec.Route, rec.Prompt
	return p, out, stateError(c.store.Check(p))
}

// life returns the Life of a place.
func (c *command) life(p workspace.Place, rec *wire.Workspace) *run.Life {
	hooks := func(ctx context.Context, name, log string, facts map[string]string) *workspace.HookResult {
		ctx, release := c.unhurried(ctx)
		defer release()
		return c.store.RunHook(ctx, p, name, log, facts)
	}
	fingerprint := func(ctx context.Context) (string, error) {
		ctx, release := c.unhurried(ctx)
		defer release()
		return c.store.Fingerprint(ctx, p)
	}
	return &run.Life{Workspace: rec, Hooks: hooks, Fingerprint: fingerprint, Now: c.env.Now, Rand: c.env.Rand}
}

// unhurried returns a context that ends with ctx, and when a second signal says that
// everything is to stop now, also after_run. release ends it and what watches over it.
func (c *command) unhurried(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-c.env.Hurry():
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watch.Wait()
	}
}

// holder tells people who holds a lock, as far as that can be seen.
func holder(lock string) string {
	holders, err := proc.Holders(lock)
	if err != nil || len(holders) == 0 {
		return ""
	}
	return fmt.Sprintf(": process %d (%s) holds its lock", holders[0].Pid, holders[0].Name)
}

// locked does something under the issue's lock.
func (c *command) locked(ctx context.Context, p workspace.Place, do func(*state.Lock) error) error {
	lock, err := lockOf(ctx, p.Dir)
	if errors.Is(err, state.ErrBusy) {
		return stateError(fmt.Errorf("issue %q is %w%s", p.Issue.Identifier, state.ErrBusy, holder(p.Dir.Lock())))
	}
	if err != nil {
		return stateError(fmt.Errorf("issue %q: %w", p.Issue.Identifier, err))
	}
	err = p.Dir.Tidy()
	if err == nil {
		err = do(lock)
	}
	return errors.Join(stateError(err), stateError(lock.Release()))
}

// lockOf takes the lock of an issue, whose folder is made where it is missing. A remove
// may take that away before we have the lock.
func lockOf(ctx context.Context, dir state.Dir) (lock *state.Lock, err error) {
	for range 3 {
		if err := dir.Make(); err != nil {
			return nil, err
		}
		if lock, err = state.Acquire(ctx, dir.Lock()); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return lock, err
}
