// Package rehearse is a stand-in for `codex app-server` that asks no model: for each
// turn it runs a command of the operator's choice, and tells of it in the frames of
// the real server. It serves to try a workflow, and to test, without an account.
//
// It speaks the part of the protocol that a session needs, in the order and the
// shapes measured on Codex 0.171.0: threads that a later process can resume, turns,
// steering, interruption, dynamic tools and usage, which counts words. It does not
// sandbox, asks for no approvals, and has no goals, reviews or forks.
//
// One goroutine owns all state of a server; see server.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"ostoolkit/internal/cli"
)

// defaultCommand is a small piece of work that leaves something to see.
const defaultCommand = `{ echo '## The task'; echo; head -n 20; echo; } >>NOTES.md && echo 'noted the task in NOTES.md'`

var usage = cli.Usage{
	Name:     "os-codex rehearse",
	Synopsis: []string{"[--run CMD]", "tool NAME [JSON]"},
	About: `
A stand-in for "codex app-server" on stdin and stdout that asks no model. Each turn
runs CMD with sh -c in the thread's working directory, the prompt on its stdin. CMD's
output is shown as that of a command of the agent; the last line of its stdout becomes
the agent's answer. Exit 0 completes the turn, anything else fails it. Words are
counted as tokens.

There is NO SANDBOX: CMD may do whatever you may do, whichever sandbox and approval
policy the client asks for.

CMD finds in its environment:
  OS_TOOL        a command: "$OS_TOOL" NAME JSON calls a tool of the client, prints
                 the result and exits 0 or 1 (it is the verb tool, with its socket)
  OS_STEER_FILE  a file to which each text that steers the turn is appended

Threads are kept in $CODEX_HOME/rehearse, else in $XDG_STATE_HOME/os-rehearse, and can
be resumed. The end of stdin, or a signal, ends CMD and then the server.`,
	Verbs: [][2]string{{"tool", "call a tool of the client; for CMD, by way of OS_TOOL"}},
	Examples: `
os-codex --command 'os-codex rehearse' 'write it down'
os-codex --command "os-codex rehearse --run 'make test'" 'does it pass?'
`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage},
	Notes: map[int]string{
		cli.StatusOK:     "stdin ended, or a signal came; tool: the tool succeeded",
		cli.StatusFailed: "the state folder cannot be used; tool: the tool did not succeed",
	},
}

// Run runs `os-codex rehearse` with the arguments that follow that word. It returns
// when stdin ends or ctx does, once the commands of all turns are gone; both are no
// errors.
func Run(ctx context.Context, env *cli.Env, args []string) error {
	if len(args) > 0 && args[0] == "tool" {
		return runTool(ctx, env, args[1:])
	}
	fs := usage.Flags()
	command := fs.String("run", defaultCommand, "the `CMD` that does the work of each turn")
	fs.Lookup("run").DefValue = "" // a script would spoil the table; the manual shows it
	rest, err := usage.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.WithHint(cli.Usagef("unexpected argument %q", rest[0]), "%s --help", usage.Name)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's own file: %v", err)
	}
	home, err := threadDir(env)
	if err != nil {
		return err
	}
	return newServer(env, *command, self, home).serve(ctx)
}

// threadDir makes the folder that keeps the threads and returns its path.
func threadDir(env *cli.Env) (string, error) {
	dir := ""
	if home := env.Getenv("CODEX_HOME"); home != "" {
		dir = filepath.Join(home, "rehearse")
	} else if state := env.Getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		dir = filepath.Join(state, "os-rehearse")
	} else {
		home, err := homeDir(env)
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state", "os-rehearse")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of threads: %v", err)
	}
	return dir, nil
}

// homeDir is HOME, or the home of the passwd entry where cron has set none.
func homeDir(env *cli.Env) (string, error) {
	if home := env.Getenv("HOME"); home != "" {
		return home, nil
	}
	u, err := user.Current()
	if err != nil || u.HomeDir == "" {
		return "", errors.New("no folder for threads: set CODEX_HOME, XDG_STATE_HOME or HOME")
	}
	return u.HomeDir, nil
}
