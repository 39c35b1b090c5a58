package loop

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

func eventsUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop events",
		Synopsis: []string{"[flags] [ISSUE…]"},
		About: `Prints the log of os-loop, loop/events.ndjson: its loop records and the outcome of each
run, one a line, as they were printed. With ISSUEs only what is about them.`,
		Examples: `os-loop events --since 24h | jq -r 'select(.type=="outcome") | [.identifier, .outcome] | @tsv'
os-loop events -f --since 0s         # only what comes from now on`,
		Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusNoInput, cli.StatusState, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:      "done; also after a signal or a closed stdout that ends --follow",
			cli.StatusNoInput: "no os-loop has worked here yet, or there is no WORKFLOW.md",
		},
	}
}

func events(ctx context.Context, env *cli.Env, _ string, args []string) error {
	u := eventsUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	follow := fs.BoolP("follow", "f", false, "go on with what is added, also by the next os-loop, until a signal")
	since := fs.String("since", "", "only what is not older than `TIME`: a duration such as 30m, or RFC 3339")
	issues, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	o := loop.EventsOptions{Issues: issues}
	if o.Since, err = sinceWhen(*since, env.Now()); err != nil {
		return err
	}
	root, _, err := t.root(env)
	if err != nil {
		return err
	}
	if *follow {
		changes, err := watchLoop(env, root.Loop())
		if err != nil {
			return err
		}
		defer changes.Close()
		o.More = changes.C()
		o.Idle = func() error {
			if cli.ReaderGone(env.Stdout) {
				return cli.ErrStdoutClosed
			}
			return nil
		}
	}
	out := wire.NewWriter(env.Stdout)
	damaged, err := loop.Events(ctx, root, o, out.WriteLine)
	if damaged > 0 {
		env.Warnf("damaged lines in the log that were passed over: %d", damaged)
	}
	return err
}

// watchLoop watches os-loop's own folder, which is there once one has worked.
func watchLoop(env *cli.Env, dir string) (*watch.Watcher, error) {
	w, err := watch.Open([]string{dir}, watch.Options{Warn: env.Warnf})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Errorf(cli.StatusNoInput, "no os-loop has worked in %q yet", dir)
	case err != nil:
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	return w, nil
}

// sinceWhen reads --since. A duration is counted back from now.
func sinceWhen(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		// Records have milliseconds: what comes right now is not older than now.
		return now.Add(-d).Truncate(time.Millisecond), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, wrong("--since %q is neither a duration nor a time as 2026-01-31T12:00:00Z", text)
	}
	return at, nil
}
