package loop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/state"
	"ostoolkit/internal/workflow"
)

// verbs are what os-loop does besides being a scheduler. Each parses its own flags.
func verbs() map[string]verb {
	all := map[string]verb{"status": status, "events": events, "check": check, "send": send}
	for name := range orders {
		all[name] = order
	}
	return all
}

// verbLines are the verbs in the order of the help.
var verbLines = [][2]string{
	{"status", "show what runs, waits and is parked"},
	{"events", "print what was decided, and go on with what is"},
	{"send", "send a text to the running session of an issue"},
	{"stop", "stop the run of an issue and park it"},
	{"retry", "let an issue that waits or is parked go on now"},
	{"release", "forget why an issue waits or is parked"},
	{"hold", "start nothing on a backend until it is cleared"},
	{"clear", "end the hold of a backend"},
	{"pause", "start nothing until resumed"},
	{"resume", "start again"},
	{"refresh", "poll now"},
	{"drain", "start nothing, and end when nothing runs"},
	{"shutdown", "stop the runs and end"},
	{"check", "tell what would keep os-loop from working"},
}

// orders are the verbs that the control mailbox takes, with the operand that each
// needs.
var orders = map[string]string{
	"stop": "ISSUE", "retry": "ISSUE", "release": "ISSUE", "hold": "BACKEND", "clear": "BACKEND",
	"pause": "", "resume": "", "refresh": "", "drain": "", "shutdown": "",
}

// target is what a verb speaks to: the state root of a workflow.
type target struct {
	workflow string
	wait     time.Duration
}

func (t *target) add(fs *pflag.FlagSet) {
	fs.StringVar(&t.workflow, "workflow", "", "the workflow `FILE` of the os-loop that is meant (default $OS_WORKFLOW, then ./WORKFLOW.md)")
}

func (t *target) addWait(fs *pflag.FlagSet) {
	fs.DurationVar(&t.wait, "wait", 30*time.Second, "how long to wait for the answer (0: not at all)")
}

// root returns the state root, where there must be one.
func (t *target) root(env *cli.Env) (state.Root, *workflow.Workflow, error) {
	flow, err := open(t.workflow, env)
	if err != nil {
		return "", nil, err
	}
	root, there, err := stateRoot(env, flow)
	if err == nil && !there {
		err = cli.WithHint(cli.Errorf(cli.StatusNoInput, "no os-loop has worked with %q yet", flow.Path), "os-loop %s", flow.Path)
	}
	return root, flow, err
}

func orderUsage(name, operand string) *cli.Usage {
	about := ""
	for _, v := range verbLines {
		if v[0] == name {
			about = v[1]
		}
	}
	return &cli.Usage{
		Name:     "os-loop " + name,
		Synopsis: []string{"[flags] " + operand},
		About:    fmt.Sprintf("Tells the running os-loop to %s.\nPrints its answer.", about),
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusUnavailable, cli.StatusTemporary, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusFailed:      "it was refused",
			cli.StatusUnavailable: "no os-loop runs here",
			cli.StatusTemporary:   "there was no answer in time; the request stays",
		},
	}
}

// order puts one request into os-loop's own mailbox.
func order(ctx context.Context, env *cli.Env, name string, args []string) error {
	operand := orders[name]
	u := orderUsage(name, operand)
	fs := u.Flags()
	var t target
	t.add(fs)
	t.addWait(fs)
	rest, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	r := mailbox.Request{Kind: name}
	switch {
	case operand == "" && len(rest) > 0:
		return cli.Usagef("unexpected argument %q", rest[0])
	case operand != "" && len(rest) != 1:
		return cli.WithHint(cli.Usagef("%s wants one %s", name, operand), "os-loop %s --help", name)
	case operand == "ISSUE":
		r.Issue = rest[0]
	case operand == "BACKEND":
		r.Backend = rest[0]
	}
	root, _, err := t.root(env)
	if err != nil {
		return err
	}
	if owner(root) == nil {
		return cli.WithHint(cli.Errorf(cli.StatusUnavailable, "no os-loop runs on %q", root), "os-loop status")
	}
	return t.deliver(ctx, env, loop.ControlBox(root), r, mailbox.LoopKinds)
}

// deliver sends a request and prints the answer.
func (t *target) deliver(ctx context.Context, env *cli.Env, box string, r mailbox.Request, kinds mailbox.Kinds) error {
	reply, err := mailbox.Send(ctx, box, r, mailbox.SendOptions{Wait: t.wait, Kinds: kinds, Now: env.Now, Rand: env.Rand})
	var invalid *mailbox.InvalidError
	var late *mailbox.UnansweredError
	var rejected *mailbox.RejectedError
	switch {
	case errors.As(err, &invalid):
		return cli.Usagef("%w", err)
	case errors.As(err, &late):
		return cli.Errorf(cli.StatusTemporary, "%w", err)
	case errors.As(err, &rejected):
		return fmt.Errorf("%s", rejected.Reply.Message)
	case errors.Is(err, mailbox.ErrNoMailbox):
		return cli.Errorf(cli.StatusNoInput, "%w", err)
	case err != nil:
		return err
	}
	answer := string(reply.Message)
	if answer == "" {
		answer = "sent as " + reply.ID
		if reply.Accepted {
			answer = string(reply.State)
		}
	}
	_, err = io.WriteString(env.Stdout, answer+"\n")
	return err
}

func sendUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop send",
		Synopsis: []string{"[flags] ISSUE TEXT"},
		About: `Puts a text into the mailbox of an issue. It goes into the running turn; where none
runs, it is held until one does.`,
		Examples: `os-loop send ABC-1 'write the test first'`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusTemporary, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusFailed:    "it was refused",
			cli.StatusNoInput:   "there is no such issue, or no WORKFLOW.md",
			cli.StatusTemporary: "there was no answer in time; the text stays",
		},
	}
}

// send steers the session of one issue, whoever started it.
func send(ctx context.Context, env *cli.Env, _ string, args []string) error {
	u := sendUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	t.addWait(fs)
	rest, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) != 2 {
		return cli.WithHint(cli.Usagef("send wants an ISSUE and a TEXT in quotes"), "os-loop send --help")
	}
	_, flow, err := t.root(env)
	if err != nil {
		return err
	}
	store, err := openStore(env, flow, true)
	if err != nil {
		return cli.Errorf(cli.StatusState, "%w", err)
	}
	entry, err := store.Find(rest[0])
	if err != nil {
		return cli.WithHint(cli.Errorf(cli.StatusNoInput, "%w", err), "os-loop status")
	}
	return t.deliver(ctx, env, entry.Dir.Mailbox(), mailbox.Request{Text: rest[1]}, mailbox.SessionKinds)
}
