package loop

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

func statusUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop status",
		Synopsis: []string{"[flags]"},
		About: `Shows what runs, waits, is parked or is passed over, and why. On a terminal lines are
cut to its width, and coloured unless NO_COLOR is set. It reads files only: a busy os-loop
is not disturbed, and of one that has ended the last state is shown.`,
		Examples: `os-loop status
os-loop status --watch
os-loop status --json | jq -r '.running[].identifier'`,
		Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusNoInput, cli.StatusState, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:      "done; also after a signal that ends --watch",
			cli.StatusNoInput: "no os-loop has worked here yet, or there is no WORKFLOW.md",
		},
	}
}

// owner returns who holds the lock of a state root, or nil.
func owner(root state.Root) *proc.Process {
	holders, err := proc.Holders(lockFile(root))
	if err != nil || len(holders) == 0 {
		return nil
	}
	return &holders[0]
}

func status(ctx context.Context, env *cli.Env, _ string, args []string) error {
	u := statusUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	asJSON := fs.Bool("json", false, "print one JSON object")
	follow := fs.Bool("watch", false, "show each change until a signal: in place on a terminal, else a JSON object a line")
	rest, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.Usagef("unexpected argument %q", rest[0])
	}
	root, _, err := t.root(env)
	if err != nil {
		return err
	}
	s := screenOf(env)
	switch {
	case *follow && s.terminal && !*asJSON:
		return watchStatus(ctx, env, root, func(v *loop.View) string { return s.frame(v, env.Now()) })
	case *follow:
		return watchStatus(ctx, env, root, jsonLine)
	}
	v, err := look(root)
	if err != nil {
		return err
	}
	text := jsonLine(v)
	if !*asJSON {
		text = s.report(v, env.Now())
	}
	_, err = io.WriteString(env.Stdout, text)
	return err
}

func look(root state.Root) (*loop.View, error) {
	v, err := loop.Look(root, owner(root) != nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Errorf(cli.StatusNoInput, "no os-loop has worked on %q yet", root)
	case err != nil:
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	return v, nil
}

// jsonLine is a view as one line.
func jsonLine(v *loop.View) string {
	b, err := wire.Encode(v)
	if err != nil {
		return "" // it holds nothing that cannot be encoded
	}
	return string(b) + "\n"
}
