package loop

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/shlex"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/proc"
)

// askLimit bounds each program that is asked.
const askLimit = time.Minute

// find looks for a program as a run would, and says where it is.
func (c *checker) find(what, name string) bool {
	getenv := (&cli.Env{Environ: c.environ}).Getenv
	path, err := proc.LookPath(name, c.flow.Dir, getenv)
	if err != nil {
		c.say(what, cli.StatusUnavailable, "%v", err)
		return false
	}
	c.say(what, cli.StatusOK, "%s", path)
	return true
}

// programs looks for what every run needs.
func (c *checker) programs() bool {
	poll, workspace := c.find("program", "os-poll"), c.find("program", "os-workspace")
	return poll && workspace
}

// pass asks a program of ours to check its own part, and passes on what it finds
// wrong. Its lines are "ok|warning|error NAME: text".
func (c *checker) pass(ctx context.Context, what, program string) {
	said, err := loop.Ask(ctx, c.environ, c.flow, askLimit, program, "check", "--workflow", c.flow.Path)
	if err != nil {
		c.say(what, cli.StatusUnavailable, "%v", err)
		return
	}
	told := false
	for _, line := range said.Lines {
		word, text, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(text, "workflow: "): // we have said so ourselves
		case word == "warning":
			c.warn(what, "%s", text)
		case word == "error":
			told = true
			c.say(what, said.Status, "%s", text)
		}
	}
	switch {
	case told:
	case said.Status != cli.StatusOK:
		c.say(what, said.Status, "%s check: %s", program, said.Reason)
	default:
		c.say(what, cli.StatusOK, "%s check", program)
	}
}

// harnesses looks for those that an issue can be routed to, and asks ours about their
// agents.
func (c *checker) harnesses(ctx context.Context, offline bool) {
	for _, name := range c.routed() {
		command := loop.HarnessCommand(c.flow, name)
		argv, err := shlex.Split(command)
		if err != nil || len(argv) == 0 {
			c.say("harness", cli.StatusConfig, "%s: %q is no command", name, command)
			continue
		}
		if !c.find("harness", argv[0]) || c.flow.Routing.Commands[name] != "" {
			continue
		}
		if !offline {
			c.pass(ctx, "agent", argv[0])
		} else if name == "codex" {
			c.agent()
		}
	}
}

// agent looks for Codex without starting it. A command that a shell is to read is not
// taken apart.
func (c *checker) agent() {
	command := c.flow.Codex.Command
	if argv, err := shlex.Split(command); err == nil && len(argv) > 0 && !strings.ContainsAny(command, "|&;<>$`") {
		c.find("agent", argv[0])
	}
}

// routed are the harnesses that the workflow can route an issue to.
func (c *checker) routed() []string {
	used := map[string]bool{c.flow.Routing.Harness: true}
	for _, r := range c.flow.Routing.Rules {
		if r.Harness != "" {
			used[r.Harness] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// hooks has sh read each hook without running it, and looks for the first program of
// each.
func (c *checker) hooks(ctx context.Context) {
	h := &c.flow.Hooks
	for _, hook := range []struct{ name, text string }{
		{"after_create", h.AfterCreate}, {"before_run", h.BeforeRun}, {"after_run", h.AfterRun}, {"before_remove", h.BeforeRemove},
	} {
		if hook.text != "" {
			c.hook(ctx, hook.name, hook.text)
		}
	}
}

func (c *checker) hook(ctx context.Context, name, text string) {
	if strings.HasPrefix(text, "#!") {
		c.warn("hook", "%s: hooks are run by sh, whatever their first line says", name)
	}
	said, err := loop.Ask(ctx, c.environ, c.flow, askLimit, "sh", "-n", "-c", text)
	if err != nil {
		c.say("hook", cli.StatusUnavailable, "%s: %v", name, err)
		return
	}
	if said.Status != cli.StatusOK {
		c.say("hook", cli.StatusConfig, "%s: sh cannot read it: %s", name, said.Reason)
		return
	}
	program := firstProgram(text)
	if program == "" {
		c.say("hook", cli.StatusOK, "%s", name)
		return
	}
	if said, err = loop.Ask(ctx, c.environ, c.flow, askLimit, "sh", "-c", `command -v "$1"`, "sh", program); err != nil || said.Status != cli.StatusOK {
		c.say("hook", cli.StatusUnavailable, "%s: %q is not to be found", name, program)
		return
	}
	c.say("hook", cli.StatusOK, "%s: %s", name, program)
}

// programName is a word that names a program, or a builtin of the shell, and nothing
// else. A relative path is one below the workspace, which is not there yet.
var programName = regexp.MustCompile(`^(/[\w./+-]+|[\w.+-]+)$`)

// firstProgram returns the word that a hook begins with, or "" where that is none.
func firstProgram(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, _, _ := strings.Cut(line, " ")
		word = strings.TrimRight(word, ";")
		if !programName.MatchString(word) {
			return ""
		}
		return word
	}
	return ""
}
