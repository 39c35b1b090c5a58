package poll

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

var checkUsage = cli.Usage{
	Name:     "os-poll check",
	Synopsis: []string{"[flags]"},
	About: `Tells whether the workflow and the tracker are in order, how many issues there are in
each state, and which issue is ready or why it is not. A setting in the workflow that
has no effect is an error here. An empty board and a board with nothing ready are in
order.`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusData, cli.StatusNoInput,
		cli.StatusUnavailable, cli.StatusProtocol, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusOK:          "in order",
		cli.StatusData:        "some cards cannot be read",
		cli.StatusNoInput:     "the workflow named by --workflow or OS_WORKFLOW is missing",
		cli.StatusUnavailable: "the tracker is not to be reached, or not in time",
		cli.StatusProtocol:    "the tracker's answer makes no sense",
		cli.StatusTemporary:   "the tracker wants us to try again later",
		cli.StatusConfig:      "the workflow is wrong, or the board folder is missing",
	},
}

func check(ctx context.Context, env *cli.Env, args []string) error {
	var s source
	fs := checkUsage.Flags()
	s.add(fs)
	s.addTimeout(fs)
	rest, err := checkUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if err := cmp.Or(unexpected(rest), s.check()); err != nil {
		return err
	}
	o, err := s.open(env)
	if err != nil {
		return err
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	page, err := o.tracker.List(ctx, tracker.Query{All: true})
	if err != nil {
		return withStatus(err)
	}
	tell(env, page)
	if _, err := io.WriteString(env.Stdout, o.report(page)); err != nil {
		return err
	}
	return o.verdict(page)
}

// verdict is the exit status: the workflow's faults before those of single cards.
func (o *opened) verdict(page *tracker.Page) error {
	// Opening it printed the warnings; here they decide.
	if n := len(o.flow.Warnings); n > 0 {
		return cli.Errorf(cli.StatusConfig, "the workflow has %s without effect", count(n, "setting"))
	}
	if len(page.Problems) > 0 {
		return cli.Exit(cli.StatusData)
	}
	return nil
}

// report is what there is to say about a tracker that can be read, as lines "what
// value" for people and grep.
func (o *opened) report(page *tracker.Page) string {
	var b strings.Builder
	say := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	say("workflow", "%s", cmp.Or(o.flow.Path, "none; defaults stand"))
	say("tracker", "%s", o.adapter.Kind)
	if board, ok := o.tracker.(interface{ Dir() string }); ok {
		say("board", "%s", board.Dir())
	}
	say("issues", "%d", len(page.Issues))
	if len(page.Problems) > 0 {
		say("malformed", "%d", len(page.Problems))
	}
	if len(page.Issues) == 0 && len(page.Problems) == 0 {
		say("note", "the board is empty")
		return b.String()
	}
	o.reportStates(page.Issues, say)
	o.reportReady(page.Issues, say)
	return b.String()
}

func (o *opened) reportStates(issues []*wire.Issue, say func(string, string, ...any)) {
	counts, categories := map[string]int{}, map[string]string{}
	for _, issue := range issues {
		counts[issue.State]++
		categories[issue.State] = issue.Category
	}
	var other []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		say("state", "%q %s, %s", state, categories[state], count(counts[state], "issue"))
		if categories[state] == wire.CategoryOther {
			other = append(other, fmt.Sprintf("%q", state))
		}
	}
	if len(other) > 0 {
		say("note", "neither active nor terminal: %s", strings.Join(other, ", "))
	}
}

func (o *opened) reportReady(issues []*wire.Issue, say func(string, string, ...any)) {
	tracker.Sort(issues)
	ready := 0
	for _, issue := range issues {
		if issue.Category != wire.CategoryActive {
			continue
		}
		if obstacle := o.rules.Ready(issue); obstacle != nil {
			say("waiting", "%s: %s", issue.Identifier, obstacle.Detail)
			continue
		}
		ready++
		say("ready", "%s", issue.Identifier)
	}
	for _, ring := range o.rules.Cycles(issues) {
		say("note", "they wait for each other: %s", tracker.RingText(ring))
	}
	if ready == 0 {
		say("note", "nothing is ready")
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
