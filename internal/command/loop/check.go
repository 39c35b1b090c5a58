package loop

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/shlex"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/workflow"
)

func checkUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop check",
		Synopsis: []string{"[flags]"},
		About: `Tells what would keep os-loop from working, one line each: the workflow (a setting
without effect is an error here), the tracker, the harnesses, the folders, the locks.
It makes nothing.`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusUnavailable,
			cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:        "in order",
			cli.StatusTemporary: "an os-loop runs on this root already",
		},
	}
}

// checker says one line about each thing and keeps the first status that is not 0.
type checker struct {
	env    *cli.Env
	flow   *workflow.Workflow
	status int
	err    error // of stdout
}

func (c *checker) say(what string, status int, format string, args ...any) {
	word := "ok"
	if status != cli.StatusOK {
		word = "FAIL"
		if c.status == cli.StatusOK {
			c.status = status
		}
	}
	if c.err == nil {
		_, c.err = fmt.Fprintf(c.env.Stdout, "%-4s  %-9s %s\n", word, what, fmt.Sprintf(format, args...))
	}
}

func check(ctx context.Context, env *cli.Env, _ string, args []string) error {
	u := checkUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	offline := fs.Bool("offline", false, "do not ask the tracker")
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
	c.workflow()
	if !*offline {
		c.tracker(ctx)
	}
	c.programs()
	c.folders()
	if c.err != nil {
		return c.err
	}
	return cli.Exit(c.status)
}

func (c *checker) workflow() {
	if w := c.flow.Warnings; len(w) > 0 {
		c.say("workflow", cli.StatusConfig, "%s", w[0])
		return
	}
	c.say("workflow", cli.StatusOK, "%s", c.flow.Path)
}

func (c *checker) tracker(ctx context.Context) {
	status, text, err := loop.Ask(ctx, environ(c.env, c.flow), c.flow, time.Minute, "os-poll", "check", "--workflow", c.flow.Path)
	if err != nil {
		c.say("tracker", cli.StatusUnavailable, "%v", err)
		return
	}
	if status != cli.StatusOK {
		c.say("tracker", status, "%s", text)
		return
	}
	c.say("tracker", cli.StatusOK, "%s", c.flow.Tracker.Kind)
}

// programs looks for what a run needs.
func (c *checker) programs() {
	list := environ(c.env, c.flow)
	getenv := func(name string) string { return (&cli.Env{Environ: list}).Getenv(name) }
	find := func(what, name string) {
		path, err := proc.LookPath(name, c.flow.Dir, getenv)
		if err != nil {
			c.say(what, cli.StatusUnavailable, "%v", err)
			return
		}
		c.say(what, cli.StatusOK, "%s", path)
	}
	find("program", "os-poll")
	find("program", "os-workspace")
	used := harnesses(c.flow)
	for _, name := range used {
		command := loop.HarnessCommand(c.flow, name)
		argv, err := shlex.Split(command)
		if err != nil || len(argv) == 0 {
			c.say("harness", cli.StatusConfig, "%s: %q is no command", name, command)
			continue
		}
		find("harness", argv[0])
	}
	if slices.Contains(used, "codex") && c.flow.Routing.Commands["codex"] == "" {
		if argv, err := shlex.Split(c.flow.Codex.Command); err == nil && len(argv) > 0 && !strings.ContainsAny(c.flow.Codex.Command, "|&;<>$`") {
			find("agent", argv[0])
		}
	}
}

// harnesses are those that the workflow can route an issue to.
func harnesses(flow *workflow.Workflow) []string {
	used := map[string]bool{flow.Routing.Harness: true}
	for _, r := range flow.Routing.Rules {
		if r.Harness != "" {
			used[r.Harness] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
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
