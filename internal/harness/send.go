package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/run"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
	"ostoolkit/internal/workspace"
)

// sendUsage is the usage of the verb of the command with that name.
func sendUsage(command string) *cli.Usage {
	return &cli.Usage{
		Name:     command + " send",
		Synopsis: []string{"[flags] TARGET [TEXT | -]"},
		About: `
Puts a request into the mailbox of a session, waits for the reply and prints it as one
line of JSON. TARGET is an issue's identifier or key, as os-workspace show takes it; a
mailbox folder; or the folder that a session works in, such as ".". A request that was
not answered in time stays in the mailbox and may still be delivered.`,
		Examples: strings.ReplaceAll(`
COMMAND send ABC-1 'write the test first'
COMMAND send --kind queue . 'then update the changelog'
COMMAND send --kind interrupt ABC-1
COMMAND send --kind approve --request 1f0c2d3e-1 ABC-1`, "COMMAND", command),
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusState, cli.StatusTemporary, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:        "accepted or consumed; with --wait 0: sent",
			cli.StatusFailed:    "refused, invalid, expired or undelivered",
			cli.StatusNoInput:   "no such target",
			cli.StatusTemporary: "not answered in time, and still pending",
		},
	}
}

// letter is the parsed command line of send.
type letter struct {
	usage    *cli.Usage
	target   string
	workflow string
	wait     time.Duration
	expires  time.Duration
	text     string // "-" is standard input
	request  mailbox.Request
}

func parseSend(command string, args []string) (*letter, error) {
	l := &letter{usage: sendUsage(command)}
	fs := l.usage.Flags()
	fs.StringVar(&l.request.Kind, "kind", mailbox.Steer, "the `kind`: steer, queue, interrupt, stop, approve, decline, cancel, answer")
	fs.DurationVar(&l.wait, "wait", 30*time.Second, "wait `D` for the reply (0: do not)")
	fs.StringVar(&l.request.Request, "request", "", "the `ID` of the open approval or question that is answered")
	answers := fs.String("answers", "", "the `JSON` of an answer: an object by the questions' ids, or an array")
	fs.StringVar(&l.request.Reason, "reason", "", "why to interrupt or stop: operator, tracker, shutdown, or `words`")
	fs.DurationVar(&l.expires, "expires", 0, "do not deliver it any more after `D` (0: whenever)")
	fs.BoolVar(&l.request.Keep, "keep", false, "leave it in the mailbox for the next run if this one ends without having read it")
	fs.StringVar(&l.workflow, "workflow", "", "the workflow `FILE` whose state TARGET is looked up in (default $OS_WORKFLOW, else ./WORKFLOW.md)")
	rest, err := l.usage.Parse(fs, args)
	if err != nil {
		return nil, err
	}
	if *answers != "" {
		if !json.Valid([]byte(*answers)) {
			return nil, l.wrong("--answers %q is not JSON", *answers)
		}
		l.request.Answers = json.RawMessage(*answers)
	}
	return l, l.check(rest)
}

func (l *letter) check(rest []string) error {
	speaks := l.request.Kind == mailbox.Steer || l.request.Kind == mailbox.Queue
	switch {
	case len(rest) == 0 || rest[0] == "":
		return l.wrong("no TARGET given")
	case len(rest) > 2:
		return l.wrong("%d arguments after TARGET where one TEXT may stand: put it in quotes", len(rest)-1)
	case l.wait < 0, l.expires < 0:
		return l.wrong("a time is negative")
	case speaks && len(rest) < 2:
		return l.wrong("kind %s needs a TEXT", l.request.Kind)
	}
	if l.target = rest[0]; len(rest) == 2 {
		l.text = rest[1]
	}
	return nil
}

func (l *letter) wrong(format string, args ...any) error {
	return cli.WithHint(cli.Usagef(format, args...), "%s --help", l.usage.Name)
}

// Send is the verb send of the command with that name: it puts a request into the
// mailbox of a session.
func Send(ctx context.Context, env *cli.Env, command string, args []string) error {
	l, err := parseSend(command, args)
	if err != nil {
		return err
	}
	if l.request.Text = l.text; l.text == "-" {
		text, err := readAll(ctx, env.Stdin)
		if err != nil {
			return err
		}
		l.request.Text = string(text)
	}
	if l.expires > 0 {
		l.request.ExpiresAt = wire.At(env.Now().Add(l.expires))
	}
	dir, err := l.mailbox(env)
	if err != nil {
		return err
	}
	reply, err := mailbox.Send(ctx, dir, l.request, mailbox.SendOptions{
		Wait: l.wait, Kinds: mailbox.SessionKinds, Now: env.Now, Rand: env.Rand, Watch: watching(env),
	})
	if reply != nil {
		if printErr := printReply(env, reply); printErr != nil {
			return printErr
		}
	}
	return sendError(err)
}

func printReply(env *cli.Env, reply *mailbox.Reply) error {
	line, err := wire.Encode(reply)
	if err != nil {
		return fmt.Errorf("encode the reply: %v", err)
	}
	if _, err := env.Stdout.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("print the reply: %w", err)
	}
	return nil
}

// sendError gives an error of Send its exit status.
func sendError(err error) error {
	var invalid *mailbox.InvalidError
	var unanswered *mailbox.UnansweredError
	switch {
	case errors.As(err, &invalid):
		return cli.Errorf(cli.StatusUsage, "%w", err)
	case errors.As(err, &unanswered):
		return cli.Errorf(cli.StatusTemporary, "%w", err)
	case errors.Is(err, mailbox.ErrNoMailbox):
		return cli.Errorf(cli.StatusNoInput, "%w", err)
	}
	return err
}

// mailbox finds the folder that TARGET means.
func (l *letter) mailbox(env *cli.Env) (string, error) {
	if l.target != "." && l.target != ".." && !strings.ContainsRune(l.target, filepath.Separator) {
		return l.lookUp(env)
	}
	path := l.target
	if !filepath.IsAbs(path) {
		path = filepath.Join(env.Dir, path)
	}
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return "", cli.Errorf(cli.StatusNoInput, "%w: %q", mailbox.ErrNoMailbox, l.target)
	}
	if filepath.Base(path) == filepath.Base(state.Dir("").Mailbox()) {
		return path, nil
	}
	home, err := env.Home()
	if err != nil {
		return "", cli.Errorf(cli.StatusConfig, "%w", err)
	}
	rec, err := run.Direct(path, env.Getenv("XDG_STATE_HOME"), home)
	if err != nil {
		return "", cli.Errorf(cli.StatusState, "%w", err)
	}
	return state.Dir(rec.StateDir).Mailbox(), nil
}

// lookUp finds the mailbox of an issue in the workflow's state.
func (l *letter) lookUp(env *cli.Env) (string, error) {
	flow, err := workflow.Open(l.workflow, env)
	if err != nil {
		return "", err
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("ask for this machine's name: %v", err)
	}
	home, err := env.Home()
	if err != nil {
		return "", cli.Errorf(cli.StatusConfig, "%w", err)
	}
	store, err := workspace.Open(workspace.Config{
		Root: flow.Workspace.Root, StateRoot: flow.Workspace.StateRoot, StateHome: env.Getenv("XDG_STATE_HOME"), Home: home,
		Host: host, UID: os.Getuid(), Now: env.Now,
	})
	if err != nil {
		return "", cli.Errorf(cli.StatusState, "%w", err)
	}
	entry, err := store.Find(l.target)
	if errors.Is(err, workspace.ErrNotFound) {
		return "", cli.WithHint(cli.Errorf(cli.StatusNoInput, "%w", err), "os-workspace list")
	}
	if err != nil {
		return "", cli.Errorf(cli.StatusState, "%w", err)
	}
	return entry.Dir.Mailbox(), nil
}
