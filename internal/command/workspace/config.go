package workspace

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
)

// config is the parsed command line.
type config struct {
	verb        string
	workflow    string
	root        string // relative to the working directory, as typed
	stateRoot   string
	stateUnsafe bool
	grace       time.Duration // run
	followed    bool          // run: print the events too
	argv        []string      // run: the harness
	ref         string        // show: which workspace
	field       string        // show: path, mailbox, state, run or "" for the record
	refs        []string      // remove: which workspaces; none: those on standard input
	force       bool          // remove
	du          bool          // list: add the sizes up
	dirty       bool          // list: look into git trees
	olderThan   age           // sweep: what is younger is kept
	keepDirty   bool          // sweep
	dryRun      bool          // sweep
	logsOlder   age           // sweep: prune what was put aside before; 0: nothing
}

var commonStatuses = []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusData, cli.StatusNoInput, cli.StatusState, cli.StatusTemporary, cli.StatusConfig}

var topUsage = cli.Usage{
	Name:     "os-workspace",
	Synopsis: []string{"VERB [flags]"},
	About: `Prepares, supervises, finds and removes the folders in which agents work, one for
each issue. Issue records come on standard input, workspace or outcome records go to
standard output.`,
	Verbs: [][2]string{
		{"run", "do everything for each issue on stdin: folder, lock, hooks, harness, outcome"},
		{"ensure", "make the folder of each issue on stdin and run after_create once"},
		{"begin", "begin a run of each workspace on stdin: settle, before_run"},
		{"end", "end the run of each outcome on stdin: after_run"},
		{"show", "print one workspace, or one of its paths"},
		{"list", "print every workspace"},
		{"remove", "delete folders in which no work would be lost, and put their state aside"},
		{"sweep", "do so for the ended issues among those on stdin, and tell what became of each"},
		{"check", "tell whether the roots are in order"},
	},
	Examples: `os-poll --ready | os-workspace run -- os-codex
os-poll --ready --limit 1 | os-workspace ensure | os-workspace begin | os-codex | os-workspace end
cd "$(os-workspace show ABC-1 --path)"`,
	Statuses: commonStatuses,
}

var verbUsage = map[string]*cli.Usage{
	"run": {
		Name:     "os-workspace run",
		Synopsis: []string{"[flags] -- CMD [ARG...]"},
		About: `Runs CMD once for each issue on standard input, one after the other, and prints
each outcome. A run takes the issue's lock, ends what an earlier run left, makes the
folder, runs the hooks, and starts CMD in the folder with the workspace record on its
stdin and the run's event log as its stdout. CMD inherits the lock (OS_LOCK_FD), so it
goes on, still locked, when this command is killed; whoever comes next settles the run.

CMD is told of a stop by SIGTERM. If it prints no outcome record of its run, exit 0
counts as succeeded, a signal as interrupted, anything else as failed.`,
		Examples: `os-poll --ready | os-workspace run -- os-codex
echo '{"identifier":"TRY-1","title":"Say hello"}' | os-workspace run -- sh -c 'echo hello > hello.txt'`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusInputRequired, cli.StatusStalled, cli.StatusTimedOut, cli.StatusBudgetExceeded, cli.StatusCancelled,
			cli.StatusUsage, cli.StatusData, cli.StatusNoInput, cli.StatusUnavailable, cli.StatusProtocol, cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:     "every run succeeded",
			cli.StatusFailed: "a run failed; with several runs the first status that is not 0 counts",
		},
	},
	"ensure": {
		Name:     "os-workspace ensure",
		Synopsis: []string{"[flags]"},
		About: `Makes the folder of each issue on standard input, unless it is there, and runs the
after_create hook until it has succeeded once. Prints a workspace record for each.`,
		Examples: `os-poll --ready | os-workspace ensure | jq -r .path`,
		Statuses: commonStatuses,
		Notes:    map[int]string{cli.StatusFailed: "a hook failed"},
	},
	"begin": {
		Name:     "os-workspace begin",
		Synopsis: []string{"[flags]"},
		About: `Begins a run of each workspace on standard input: settles what an earlier run left,
gives the run its id and runs the before_run hook. Prints the workspace record with
the run in it, or an outcome record where before_run failed.`,
		Examples: `os-poll --ready --limit 1 | os-workspace ensure | os-workspace begin | os-codex | os-workspace end`,
		Statuses: commonStatuses,
		Notes:    map[int]string{cli.StatusFailed: "a hook failed"},
	},
	"end": {
		Name:     "os-workspace end",
		Synopsis: []string{"[flags]"},
		About: `Ends the run of each outcome record on standard input: runs after_run and writes the
outcome down. Prints the outcome records; events on standard input are not passed on.
The exit status is that of the outcomes, so that a pipeline ends with it.`,
		Examples: `os-poll --ready --limit 1 | os-workspace ensure | os-workspace begin | os-codex | os-workspace end`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusInputRequired, cli.StatusStalled, cli.StatusTimedOut, cli.StatusBudgetExceeded, cli.StatusCancelled,
			cli.StatusUsage, cli.StatusData, cli.StatusNoInput, cli.StatusUnavailable, cli.StatusProtocol, cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	},
	"show": {
		Name:     "os-workspace show",
		Synopsis: []string{"ISSUE [--path | --mailbox | --state | --run]"},
		About: `Prints the workspace record of one issue, named by its identifier in any letter
case, its id or its key, or one of its paths.`,
		Examples: `cd "$(os-workspace show ABC-1 --path)"
tail -f "$(os-workspace show ABC-1 --run)/events.ndjson"`,
		Statuses: commonStatuses,
		Notes:    map[int]string{cli.StatusNoInput: "no such workspace, or an input file is missing"},
	},
	"list": {
		Name:     "os-workspace list",
		Synopsis: []string{"[flags]"},
		About: `Prints a workspace record for every workspace, with its newest run, its session and
whether its lock is held. A workspace that cannot be read is one message.`,
		Examples: `os-workspace list | jq -r 'select(.locked) | .issue.identifier'`,
		Statuses: commonStatuses,
		Notes:    map[int]string{cli.StatusState: "a workspace cannot be read; the others were printed"},
	},
	"sweep": {
		Name:     "os-workspace sweep",
		Synopsis: []string{"[flags]"},
		About: `Removes the workspaces of the ended issues on standard input, as remove does, and
prints a workspace record for each that has one: what became of it and why. Issues that
are not in a terminal state are passed over. A run in flight and, unless told otherwise,
work that would be lost keep a workspace; that is no error.

A DURATION is like 36h, 90m or 14d.`,
		Examples: `os-poll --terminal | os-workspace sweep --older-than 14d --logs-older-than 90d
os-poll --terminal | os-workspace sweep --dry-run | jq -r '[.issue.identifier,.action,.bytes]|@tsv'`,
		Statuses: commonStatuses,
		Notes: map[int]string{
			cli.StatusOK:    "done; what was kept for a reason is in the records",
			cli.StatusState: "a workspace or state file cannot be used; the others were swept",
		},
	},
	"check": {
		Name:     "os-workspace check",
		Synopsis: []string{"[flags]"},
		About: `Tells what can be known of the workspace root and the state root, one line each,
"ok|warning|error NAME: text": whether they can be written, whose they are, on what file
system they lie and what is free there, manifests that are broken, runs without an owner,
locks that are held, and what killed processes have left. It makes nothing and changes
nothing. A setting of the workflow without effect is an error here.`,
		Examples: `os-workspace check
os-workspace check | grep -v ^ok`,
		Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput, cli.StatusState, cli.StatusConfig},
		Notes: map[int]string{
			cli.StatusOK:    "no error; there may be warnings",
			cli.StatusState: "a root cannot be used, or a manifest is broken",
		},
	},
	"remove": {
		Name:     "os-workspace remove",
		Synopsis: []string{"[--force] [ISSUE...]"},
		About: `Deletes the folder of each issue, named by its identifier in any letter case, its id
or its key, or else of each record on standard input that has one. Before that it
settles the last run and runs the before_remove hook; after it, state and logs are put
aside under removed/ in the state root.

A folder whose git tree has changes, files that git does not know, or commits that
are nowhere else stays, unless --force is given. A run in flight is never disturbed.`,
		Examples: `os-workspace remove ABC-1
os-poll --terminal | os-workspace remove`,
		Statuses: commonStatuses,
		Notes: map[int]string{
			cli.StatusNoInput:   "no such workspace, or an input file is missing",
			cli.StatusState:     "work would be lost, or a workspace or state file cannot be used",
			cli.StatusTemporary: "busy: a run is in flight",
		},
	},
}

// age is a duration that may also be given in days.
type age time.Duration

// Set implements pflag.Value.
func (a *age) Set(text string) error {
	unit := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		text, unit = days+"h", 24
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > math.MaxInt64/unit {
		return errors.New("it is no duration such as 36h or 14d")
	}
	*a = age(d * unit)
	return nil
}

func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type implements pflag.Value.
func (a *age) Type() string { return "duration" }

// parse turns the arguments into a config. It reads nothing but them.
func parse(args []string) (config, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		if _, err := topUsage.Parse(topUsage.Flags(), args); err != nil {
			return config{}, err
		}
		return config{}, cli.WithHint(cli.Usagef("no verb given"), "os-workspace --help")
	}
	usage, ok := verbUsage[args[0]]
	if !ok {
		return config{}, cli.WithHint(cli.Usagef("unknown verb %q", args[0]), "os-workspace --help")
	}
	c := config{verb: args[0]}
	fs := c.flags(usage)
	rest, err := usage.Parse(fs, args[1:])
	if err == nil {
		err = c.pickField(fs)
	}
	if err != nil {
		return config{}, err
	}
	return c, c.operands(rest)
}

func (c *config) flags(usage *cli.Usage) *pflag.FlagSet {
	fs := usage.Flags()
	fs.StringVar(&c.workflow, "workflow", "", "read the workflow from `FILE` (default $OS_WORKFLOW, then ./WORKFLOW.md if it is there)")
	fs.StringVar(&c.root, "root", "", "keep workspaces in `DIR`, whatever the workflow says")
	fs.StringVar(&c.stateRoot, "state-root", "", "keep state in `DIR`, whatever the workflow says")
	fs.BoolVar(&c.stateUnsafe, "state-unsafe", false, "allow state on a network file system, whose locks may not hold")
	switch c.verb {
	case "run":
		fs.SetInterspersed(false)
		fs.BoolVar(&c.followed, "follow", false, "print the events of each run too, as they come")
		fs.DurationVar(&c.grace, "grace", 10*time.Second, "how long CMD may take to stop; 2s later it is killed")
	case "remove":
		fs.BoolVar(&c.force, "force", false, "delete also what would be lost")
	case "list":
		fs.BoolVar(&c.du, "du", false, "add up how much each folder takes on disk")
		fs.BoolVar(&c.dirty, "dirty", true, "look whether git trees hold work that is nowhere else")
	case "sweep":
		fs.Var(&c.olderThan, "older-than", "keep what was seen or changed less than `DURATION` ago")
		fs.BoolVar(&c.keepDirty, "keep-dirty", true, "keep what would be lost")
		fs.BoolVar(&c.dryRun, "dry-run", false, "change nothing, tell what would be done and the sizes")
		fs.Var(&c.logsOlder, "logs-older-than", "delete also the state and logs of what was removed more than `DURATION` ago")
	case "show":
		for _, f := range showFields {
			fs.Bool(f[0], false, f[1])
		}
	}
	return fs
}

// showFields are the flags of show, which exclude each other.
var showFields = [][2]string{
	{"path", "print the folder's path"},
	{"mailbox", "print the path of the mailbox"},
	{"state", "print the path of the state folder"},
	{"run", "print the path of the newest run's folder"},
}

// pickField takes the one of show's flags that was given.
func (c *config) pickField(fs *pflag.FlagSet) error {
	for _, f := range showFields {
		given, err := fs.GetBool(f[0])
		if err != nil || !given {
			continue // another verb, or not this one
		}
		if c.field != "" {
			return cli.Usagef("--%s and --%s exclude each other", c.field, f[0])
		}
		c.field = f[0]
	}
	return nil
}

func (c *config) operands(rest []string) error {
	switch {
	case c.verb == "run" && len(rest) == 0:
		return cli.WithHint(cli.Usagef("no command to run"), "os-workspace run -- os-codex")
	case c.verb == "run" && c.grace < 0:
		return cli.Usagef("--grace %s is negative", c.grace)
	case c.verb == "run":
		c.argv = rest
	case c.verb == "show" && len(rest) != 1:
		return cli.WithHint(cli.Usagef("show wants one issue, not %d", len(rest)), "os-workspace list")
	case c.verb == "show":
		c.ref = rest[0]
	case c.verb == "remove":
		c.refs = rest
	case len(rest) > 0:
		return cli.Usagef("unexpected argument %q", rest[0])
	}
	return nil
}
