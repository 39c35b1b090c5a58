package loop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/state"
	"ostoolkit/internal/workflow"
)

func checkUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop check",
		Synopsis: []string{"[flags]"},
		About: `Tells what would keep os-loop from working, one line each: the workflow (a setting
without effect is an error here), the tracker, the programs, the harnesses and their
agents with their logins, the hooks, the folders, the locks, the address to listen on, the
watches of files, the clock. It begins with ok, warn or FAIL; it makes nothing.`,
		Examples: `
os-loop check
env -i "$(command -v os-loop)" check --workflow "$PWD/WORKFLOW.md"   # as in a cron job`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusUnavailable,
			cli.StatusProtocol, cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:        "in order; there may be warnings",
			cli.StatusTemporary: "an os-loop runs on this root already",
		},
	}
}

// checker says one line about each thing and keeps the first status that is not 0.
type checker struct {
	env     *cli.Env
	flow    *workflow.Workflow
	environ []string // of the programs
	status  int
	err     error // of stdout
}

func (c *checker) say(what string, status int, format string, args ...any) {
	word := "ok"
	if status != cli.StatusOK {
		word = "FAIL"
		if c.status == cli.StatusOK {
			c.status = status
		}
	}
	c.line(word, what, format, args...)
}

func (c *checker) warn(what, format string, args ...any) { c.line("warn", what, format, args...) }

func (c *checker) line(word, what, format string, args ...any) {
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.env.Stdout, "%-4s  %-9s %s\n", word, what, fmt.Sprintf(format, args...))
	}
}

func check(ctx context.Context, env *cli.Env, _ string, args []string) error {
	u := checkUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	offline := fs.Bool("offline", false, "ask neither the tracker nor an agent")
	rest, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.Usagef("unexpected argument %q", rest[0])
	}
	c := &checker{env: env}
	if c.flow, err = open(t.workflow, env); err != nil {
		return err
	}
	c.environ = environ(env, c.flow)
	c.all(ctx, *offline)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.err != nil:
		return c.err
	}
	return cli.Exit(c.status)
}

func (c *checker) all(ctx context.Context, offline bool) {
	c.workflow()
	if !offline {
		c.tracker(ctx)
	}
	if c.programs() {
		c.pass(ctx, "workspace", "os-workspace")
	}
	c.harnesses(ctx, offline)
	c.hooks(ctx)
	c.folders()
	c.listener(ctx)
	c.watches()
	c.clock()
}

func (c *checker) workflow() {
	if w := c.flow.Warnings; len(w) > 0 {
		c.say("workflow", cli.StatusConfig, "%s", w[0])
		return
	}
	c.say("workflow", cli.StatusOK, "%s", c.flow.Path)
}

func (c *checker) tracker(ctx context.Context) {
	said, err := loop.Ask(ctx, c.environ, c.flow, askLimit, "os-poll", "check", "--workflow", c.flow.Path)
	if err != nil {
		c.say("tracker", cli.StatusUnavailable, "%v", err)
		return
	}
	if said.Status != cli.StatusOK {
		c.say("tracker", said.Status, "%s", said.Reason)
		return
	}
	c.say("tracker", cli.StatusOK, "%s", c.flow.Tracker.Kind)
}

// folders looks at the workspace root, the state root and the locks.
func (c *checker) folders() {
	c.writable("root", c.flow.Workspace.Root)
	root, there, err := stateRoot(c.env, c.flow)
	switch {
	case err != nil:
		c.say("state", cli.Status(err), "%v", err)
		return
	case !there:
		if root != "" {
			c.writable("state", string(root))
		}
		return
	}
	c.writable("state", string(root))
	if kind := state.NetworkFS(string(root)); kind != "" {
		c.say("state", cli.StatusState, "it lies on %s, whose locks may not hold: --state-unsafe allows it", kind)
	}
	if p := owner(root); p != nil {
		c.say("lock", cli.StatusTemporary, "process %d (%s) is an os-loop on this root", p.Pid, p.Name)
		return
	}
	c.say("lock", cli.StatusOK, "no os-loop runs on this root")
}

// writable tells whether a folder, or the nearest one above it that is there, can be
// written in.
func (c *checker) writable(what, dir string) {
	at := dir
	for {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".os-loop-check-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		c.say(what, cli.StatusState, "%v", err)
		return
	}
	c.say(what, cli.StatusOK, "%s", dir)
}
