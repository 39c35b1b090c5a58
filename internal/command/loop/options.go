package loop

import (
	"context"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/schedule"
)

// options is the parsed command line of a scheduler.
type options struct {
	workflow    string
	mode        schedule.Mode
	plan        bool
	dryRun      bool
	onExit      string
	grace       time.Duration
	timeout     time.Duration
	listen      string
	stateUnsafe bool
}

type verb = func(ctx context.Context, env *cli.Env, name string, args []string) error

func usage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop",
		Synopsis: []string{"[flags] [WORKFLOW.md]", "VERB [flags]"},
		About: `
Works on a whole board: polls the tracker, runs an agent for each issue that is ready,
tries again what failed and stops what is not wanted any more. It prints what it
decides and the outcome of each run, one JSON record a line. Runs are processes of
their own: when os-loop dies they go on, and the next os-loop takes them up.`,
		Verbs: verbLines,
		Examples: `
os-loop --plan                       # what would be done, and why not
os-loop --until-idle                 # work until the board is done
os-loop | jq -r 'select(.event=="ended") | [.identifier, .outcome] | @tsv'`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusInputRequired, cli.StatusUsage, cli.StatusNoInput,
			cli.StatusUnavailable, cli.StatusState, cli.StatusTemporary, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:            "stopped politely, or all is done",
			cli.StatusFailed:        "something fails, or the time is over (--once, --until-idle)",
			cli.StatusInputRequired: "nothing fails, but something is parked until somebody looks (--once, --until-idle)",
			cli.StatusNoInput:       "the workflow is missing",
			cli.StatusTemporary:     "another os-loop works on this root",
		},
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	u := usage()
	fs := u.Flags()
	once := fs.Bool("once", false, "poll once, give each issue that is ready one run, and end")
	idle := fs.Bool("until-idle", false, "end when nothing runs, nothing is due and nothing can start")
	fs.DurationVar(&o.timeout, "timeout", 0, "stop after `D` (0: never)")
	fs.BoolVar(&o.plan, "plan", false, "print what would be decided now, and touch nothing")
	fs.BoolVar(&o.dryRun, "dry-run", false, "run each issue once with the harness's --dry-run: workspaces are made, agents are not started")
	fs.StringVar(&o.onExit, "on-exit", "stop", "what a signal does with the runs: `stop|detach`")
	fs.DurationVar(&o.grace, "grace", 10*time.Second, "how long a run may take to stop politely")
	fs.StringVar(&o.listen, "listen", "", "serve the status page and the JSON API on `ADDRESS`: a port of loopback, or HOST:PORT (default server.port)")
	fs.BoolVar(&o.stateUnsafe, "state-unsafe", false, "allow state on a network file system, whose locks may not hold")
	rest, err := u.Parse(fs, args)
	if err != nil {
		return nil, err
	}
	switch {
	case *once && *idle, *once && o.plan, *idle && o.plan:
		return nil, wrong("--once, --until-idle and --plan exclude each other")
	case o.plan && o.dryRun:
		return nil, wrong("--plan and --dry-run exclude each other")
	case o.onExit != "stop" && o.onExit != "detach":
		return nil, wrong("--on-exit %q is neither stop nor detach", o.onExit)
	case o.grace < 0 || o.timeout < 0:
		return nil, wrong("--grace and --timeout cannot be negative")
	case len(rest) > 1:
		return nil, wrong("unexpected argument %q", rest[1])
	case len(rest) == 1:
		o.workflow = rest[0]
	}
	switch {
	case *once:
		o.mode = schedule.Once
	case *idle || o.dryRun:
		o.mode = schedule.UntilIdle
	}
	return o, nil
}

func wrong(format string, args ...any) error {
	return cli.WithHint(cli.Usagef(format, args...), "os-loop --help")
}
