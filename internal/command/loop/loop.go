// Package loop is the command os-loop: it turns flags and WORKFLOW.md into a
// scheduler of internal/loop, sees to it that there is only one on a state root and on
// a workspace root, and has the verbs that look at one or tell it something.
//
// It decides nothing about issues and starts no run by itself. It keeps no state; Main
// is called once for a process.
package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
	"ostoolkit/internal/workspace"
)

// Main runs os-loop and returns its exit status.
func Main(env *cli.Env) int { return cli.Main("os-loop", env, start) }

func start(ctx context.Context, env *cli.Env) error {
	if len(env.Args) > 0 {
		if verb, ok := verbs()[env.Args[0]]; ok {
			return verb(ctx, env, env.Args[0], env.Args[1:])
		}
	}
	o, err := parse(env.Args)
	if err != nil {
		return err
	}
	flow, err := open(o.workflow, env)
	if err != nil {
		return err
	}
	c, err := o.config(env, flow)
	if err != nil {
		return err
	}
	if o.plan {
		return plan(ctx, env, c)
	}
	held, err := own(ctx, env, flow, o.stateUnsafe)
	if err != nil {
		return err
	}
	defer func() {
		if err := held.release(); err != nil {
			env.Warnf("%v", err)
		}
	}()
	c.Root = held.root
	status, err := loop.Run(ctx, c)
	if err != nil {
		return err
	}
	return cli.Exit(status)
}

// open loads the workflow, which os-loop cannot do without.
func open(path string, env *cli.Env) (*workflow.Workflow, error) {
	flow, err := workflow.Open(path, env)
	if err != nil {
		return nil, err
	}
	if flow.Path == "" {
		return nil, cli.WithHint(cli.Errorf(cli.StatusNoInput, "there is no WORKFLOW.md in %q", env.Dir), "os-loop FILE")
	}
	if err := loop.Usable(flow); err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "workflow %q: %w", flow.Path, err)
	}
	return flow, nil
}

func (o *options) config(env *cli.Env, flow *workflow.Workflow) (loop.Config, error) {
	listen, token, err := o.listener(env, flow)
	return loop.Config{
		Workflow: flow,
		Load:     func() (*workflow.Workflow, error) { return workflow.Open(flow.Path, env) },
		Schedule: schedule.Config{
			Mode: o.mode, Starts: 2 * runtime.NumCPU(), Grace: o.grace, Detach: o.onExit == "detach", DryRun: o.dryRun,
		},
		Timeout: o.timeout,
		Listen:  listen,
		Token:   token,
		Reading: 30 * time.Second,
		Environ: environ(env, flow),
		Stdout:  env.Stdout,
		Warn:    env.Warnf,
		Now:     env.Now,
		Rand:    env.Rand,
		Hurry:   env.Hurry(),
		Reload:  env.CatchHangup(),
		PID:     os.Getpid(),
	}, err
}

// listener says where the HTTP API is wanted, and by which token. A token that is
// asked for and not there must not open the door.
func (o *options) listener(env *cli.Env, flow *workflow.Workflow) (address, token string, err error) {
	address = o.listen
	if address == "" && flow.Server.Port > 0 {
		address = strconv.Itoa(flow.Server.Port)
	}
	name := flow.Server.TokenEnv
	if address == "" || name == "" {
		return address, "", nil
	}
	if token = env.Getenv(name); token == "" {
		err = cli.Errorf(cli.StatusConfig, "workflow %q: server.token_env names %s, which is not set", flow.Path, name)
	}
	return address, token, err
}

// outer are the variables of a run that os-loop itself may be part of. They must not
// mark what it starts.
var outer = map[string]bool{"OS_RUN_ID": true, "OS_STATE_DIR": true, "OS_LOCK_FD": true, "OS_WORKSPACE": true}

// environ is that of the programs. They are found beside os-loop where PATH has none.
// What opens os-loop's own door is not theirs, nor their agents'.
func environ(env *cli.Env, flow *workflow.Workflow) []string {
	drop := func(name string) bool { return outer[name] || name == flow.Server.TokenEnv }
	return proc.Environ(env.Environ, drop, map[string]string{
		"PATH": proc.SearchPath(env.Getenv("PATH")), "OS_WORKFLOW": flow.Path,
	})
}

// held is what only one os-loop at a time may have.
type held struct {
	root  state.Root
	locks []*state.Lock
}

func (h *held) release() error {
	var errs []error
	for _, l := range h.locks {
		errs = append(errs, l.Release())
	}
	return errors.Join(errs...)
}

// own takes the workspace root and the state root. Whoever is in the way is named.
func own(ctx context.Context, env *cli.Env, flow *workflow.Workflow, unsafe bool) (*held, error) {
	store, err := openStore(env, flow, unsafe)
	if err != nil {
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	h := &held{root: store.State()}
	if err := state.MakeDir(h.root.Loop()); err != nil {
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	for _, take := range []struct {
		acquire func(context.Context, string) (*state.Lock, error)
		path    string
	}{{state.AcquireDir, store.Root()}, {state.Acquire, lockFile(h.root)}} {
		lock, err := take.acquire(ctx, take.path)
		if err != nil {
			return nil, errors.Join(refused(ctx, take.path, err), h.release())
		}
		h.locks = append(h.locks, lock)
	}
	return h, nil
}

func lockFile(root state.Root) string { return filepath.Join(root.Loop(), "lock") }

// refused is the error of a lock that was not to be had.
func refused(ctx context.Context, path string, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !errors.Is(err, state.ErrBusy):
		return cli.Errorf(cli.StatusState, "%w", err)
	}
	who := "another os-loop"
	if holders, err := proc.Holders(path); err == nil && len(holders) > 0 && holders[0].Pid != 0 {
		who = fmt.Sprintf("process %d (%s)", holders[0].Pid, holders[0].Name)
	}
	return cli.WithHint(cli.Errorf(cli.StatusTemporary, "%s has %q", who, path), "os-loop status")
}

func openStore(env *cli.Env, flow *workflow.Workflow, unsafe bool) (*workspace.Store, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("ask for this machine's name: %v", err)
	}
	home, err := env.Home()
	if err != nil {
		return nil, err
	}
	return workspace.Open(workspace.Config{
		Root: flow.Workspace.Root, StateRoot: flow.Workspace.StateRoot,
		StateHome: env.Getenv("XDG_STATE_HOME"), Home: home, Host: host, UID: os.Getuid(), Unsafe: unsafe,
		Hooks: flow.Hooks, Workflow: flow.Path, Environ: env.Environ, Now: env.Now,
	})
}

// stateRoot returns where the state lies, and whether anything does. It makes nothing.
func stateRoot(env *cli.Env, flow *workflow.Workflow) (root state.Root, there bool, err error) {
	home, err := env.Home()
	if err != nil {
		return "", false, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	dir, err := filepath.EvalSymlinks(flow.Workspace.Root)
	if err != nil {
		return "", false, nil // nobody made it yet
	}
	root = state.Root(flow.Workspace.StateRoot)
	if root == "" {
		root = state.DefaultRoot(dir, env.Getenv("XDG_STATE_HOME"), home)
	}
	if _, err := os.Stat(filepath.Join(dir, state.OwnerFile)); err != nil {
		return root, false, nil
	}
	_, err = os.Stat(string(root))
	return root, err == nil, nil
}

// plan prints what would be decided, and touches nothing.
func plan(ctx context.Context, env *cli.Env, c loop.Config) error {
	root, there, err := stateRoot(env, c.Workflow)
	if err != nil {
		return err
	}
	c.Root, c.Stdout = root, discard{}
	decisions, status, err := loop.Plan(ctx, c, there)
	if err != nil {
		return err
	}
	out := wire.NewWriter(env.Stdout)
	for _, d := range decisions {
		if err := out.Write(planned(env, d)); err != nil {
			return err
		}
	}
	return cli.Exit(status)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// planned is a decision as a loop record: dispatched or skipped, with the route in its
// detail.
func planned(env *cli.Env, d schedule.Decision) *wire.Loop {
	l := &wire.Loop{
		Time: wire.At(env.Now()), Event: "skipped", IssueID: wire.Text(d.IssueID), Identifier: wire.Text(d.Identifier),
		Reason: wire.Text(d.Reason), Attempt: d.Attempt, DueAt: d.DueAt,
	}
	detail := struct {
		Plan  schedule.Code `json:"plan"`
		Route *wire.Route   `json:"route,omitempty"`
	}{Plan: d.Code}
	if d.Route.Harness != "" {
		detail.Route = &d.Route
	}
	if d.Code == schedule.CodeStart {
		l.Event = "dispatched"
	}
	if b, err := wire.Encode(detail); err == nil {
		l.Detail = b
	}
	return l
}
