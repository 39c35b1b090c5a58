package poll

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
)

// source says where the issues come from; all verbs share its flags.
type source struct {
	workflow string
	kind     string        // "": the workflow's
	timeout  time.Duration // of all questions to the tracker together
	maxWait  time.Duration // for a limit of the tracker to be lifted
	trusted  []string      // authors
	anyScope bool          // of tools
}

func (s *source) add(fs *pflag.FlagSet) {
	fs.StringVar(&s.workflow, "workflow", "", "take the configuration from `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md)")
	fs.StringVar(&s.kind, "tracker", "", "ask a tracker of this `KIND` (default the workflow's): "+strings.Join(kinds(), ", "))
}

func (s *source) addTimeout(fs *pflag.FlagSet) {
	fs.DurationVar(&s.timeout, "timeout", 30*time.Second, "give up on the tracker after this long")
	fs.DurationVar(&s.maxWait, "max-wait", 10*time.Second, "wait at most this long inside a request, for another attempt or for the end of a rate limit")
}

func (s *source) check() error {
	if s.timeout <= 0 {
		return cli.Usagef("--timeout %v is not above zero", s.timeout)
	}
	if s.maxWait < 0 {
		return cli.Usagef("--max-wait %v is below zero", s.maxWait)
	}
	return nil
}

// selection is one of the words that select issues by state.
type selection string

const (
	selectNone     selection = ""
	selectReady    selection = "ready"
	selectActive   selection = "active"
	selectTerminal selection = "terminal"
	selectAll      selection = "all"
	selectStates   selection = "state"
)

// listing is the parsed command line of os-poll without a verb.
type listing struct {
	source
	selection   selection // selectNone only where issues are named
	states      []string  // with selectStates
	ids         []string
	identifiers []string
	stdin       bool // more names come from standard input
	limit       int  // 0: none
	summary     bool
	atomic      bool // the whole list or nothing
	following   bool // print what changes, too
	interval    time.Duration
}

// named tells whether the caller asks for certain issues, not for a list.
func (l *listing) named() bool { return l.stdin || len(l.ids)+len(l.identifiers) > 0 }

var listUsage = cli.Usage{
	Name: "os-poll",
	Synopsis: []string{
		"[--ready | --active | --terminal | --all | --state NAME...] [flags]",
		"[--id ID...] [--identifier KEY...] [--ids-from -] [flags]",
		"VERB [flags]",
	},
	About: `Reads the issues of a tracker and prints each as one line of JSON (os-wire(5)).
The default tracker is a folder of Markdown cards, ./issues. Lists come in the order
in which to work on them: priority 1 to 4, then the rest; older first; identifier. A
long list comes page by page, each in this order, unless --atomic asks for the whole.`,
	Verbs: [][2]string{
		{"tool list", "print the tools that agents may use on this tracker"},
		{"tool call", "use one: tool call NAME, its arguments as JSON on stdin"},
		{"comment", "print an issue's newest comment with a marker: comment latest ISSUE"},
		{"secrets", "print the names of the variables that agents must not inherit"},
		{"check", "tell whether workflow and tracker are in order, and what is ready"},
	},
	Examples: `os-poll --ready | os-workspace run -- os-codex
os-poll --identifier A-1 --ready             # nothing, if A-1 is not ready
printf 'A-1\nA-2\n' | os-poll --ids-from -   # an issue or a gone record for each`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusData, cli.StatusNoInput,
		cli.StatusUnavailable, cli.StatusProtocol, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusData:        "a card or an input line could not be read, the rest was printed",
		cli.StatusNoInput:     "the workflow named by --workflow or OS_WORKFLOW is missing",
		cli.StatusUnavailable: "the tracker is not to be reached, or not in time",
		cli.StatusProtocol:    "the tracker's answer makes no sense",
		cli.StatusTemporary:   "the tracker wants us to try again later",
		cli.StatusConfig:      "the workflow is wrong, or the board folder is missing",
	},
}

// parseList turns a command line into a listing.
func parseList(args []string) (*listing, error) {
	l := &listing{}
	fs := listUsage.Flags()
	words := map[selection]*bool{
		selectReady:    fs.Bool("ready", false, "active issues that nothing keeps from being worked on"),
		selectActive:   fs.Bool("active", false, "issues in an active state (the default)"),
		selectTerminal: fs.Bool("terminal", false, "issues in a terminal state"),
		selectAll:      fs.Bool("all", false, "issues in any state"),
	}
	fs.StringArrayVar(&l.states, "state", nil, "issues in the state `NAME`; may be repeated")
	fs.StringArrayVar(&l.ids, "id", nil, "the issue with this `ID`; may be repeated")
	fs.StringArrayVar(&l.identifiers, "identifier", nil, "the issue with this `KEY`, in any case; may be repeated")
	from := fs.String("ids-from", "", "read ids, or issue or workspace records, from standard input: `-`")
	fs.IntVar(&l.limit, "limit", 0, "print at most `N` issues (0: all)")
	fs.BoolVar(&l.atomic, "atomic", false, "print the whole list, in order, or nothing (always so with --ready and --limit)")
	fs.BoolVar(&l.following, "follow", false, "go on: print each issue again when it changes, and what is gone")
	fs.DurationVar(&l.interval, "interval", 30*time.Second, "with --follow, look this often")
	fs.BoolVar(&l.summary, "summary", false, "print a summary record as the last line")
	fs.StringSliceVar(&l.trusted, "trusted-authors", nil, "take texts of these authors for trusted, `LOGIN,...`, besides those that the tracker vouches for")
	l.add(fs)
	l.addTimeout(fs)
	rest, err := listUsage.Parse(fs, args)
	if err != nil {
		return nil, err
	}
	l.stdin = *from == "-"
	return l, cmp.Or(unexpected(rest), l.choose(words), l.checkNames(*from, fs), l.checkFollow(fs), l.check())
}

// choose takes over the one word of selection that was given.
func (l *listing) choose(words map[selection]*bool) error {
	var given []string
	for _, word := range []selection{selectReady, selectActive, selectTerminal, selectAll} {
		if *words[word] {
			l.selection = word
			given = append(given, "--"+string(word))
		}
	}
	if len(l.states) > 0 {
		l.selection = selectStates
		given = append(given, "--state")
	}
	if len(given) > 1 {
		return cli.Usagef("%s exclude each other", strings.Join(given, " and "))
	}
	if len(given) == 0 && !l.named() {
		l.selection = selectActive
	}
	return nil
}

// checkFollow refuses what makes no sense of a list that has no end.
func (l *listing) checkFollow(fs *pflag.FlagSet) error {
	switch {
	case !l.following && fs.Changed("interval"):
		return cli.Usagef("--interval is for --follow")
	case !l.following:
		return nil
	case l.interval <= 0:
		return cli.Usagef("--interval %v is not above zero", l.interval)
	case l.named():
		return cli.Usagef("--follow is for lists, not for --id, --identifier and --ids-from")
	case l.limit > 0:
		return cli.Usagef("--follow and --limit exclude each other")
	case l.summary:
		return cli.Usagef("--follow has no end for a --summary")
	}
	return nil
}

// checkNames refuses blank names: a tracker that is asked for the issues in no state
// answers with none, and nobody notices.
func (l *listing) checkNames(from string, fs *pflag.FlagSet) error {
	if fs.Changed("ids-from") && from != "-" {
		return cli.Usagef(`--ids-from %q: only "-", standard input, can be read`, from)
	}
	if l.limit < 0 {
		return cli.Usagef("--limit %d is below zero", l.limit)
	}
	blank := func(s string) bool { return strings.TrimSpace(s) == "" }
	for flag, names := range map[string][]string{"--state": l.states, "--id": l.ids, "--identifier": l.identifiers} {
		if slices.ContainsFunc(names, blank) {
			return cli.Usagef("%s has a blank name", flag)
		}
	}
	return nil
}

func unexpected(rest []string) error {
	if len(rest) == 0 {
		return nil
	}
	return cli.WithHint(cli.Usagef("unexpected argument %q", rest[0]), "os-poll --help")
}
