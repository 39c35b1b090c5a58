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
	"ostoolkit/internal/workflow"
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
	found, err := o.look(ctx)
	if err != nil {
		return withStatus(err)
	}
	tell(env, found.Page)
	if _, err := io.WriteString(env.Stdout, o.report(found)); err != nil {
		return err
	}
	return o.verdict(found)
}

// findings are what there is to report on.
type findings struct {
	*tracker.Page
	scope *tracker.Scope // nil where the tracker does not tell
}

// look asks about the scope first: a list of an unknown one may just be empty.
func (o *opened) look(ctx context.Context) (*findings, error) {
	f := &findings{}
	var err error
	if t, ok := o.tracker.(tracker.Prober); ok {
		if f.scope, err = t.Probe(ctx); err != nil {
			return nil, err
		}
	}
	f.Page, err = tracker.Collect(ctx, o.tracker, tracker.Query{All: true})
	return f, err
}

// missing returns those of names that no issue of the scope can be in.
func (f *findings) missing(names []string) []string {
	if f.scope == nil || f.scope.States == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return tracker.Contains(f.scope.States, n) })
}

// verdict is the exit status: the workflow's faults before those of single cards.
func (o *opened) verdict(f *findings) error {
	// Opening it printed the warnings; here they decide.
	if n := len(o.flow.Warnings); n > 0 {
		return cli.Errorf(cli.StatusConfig, "the workflow has %s without effect", count(n, "setting"))
	}
	// Lists of states are often longer than one project has; what is looked for and
	// can never be there is a mistake.
	if missing := f.missing(o.rules.Active); len(missing) > 0 {
		return cli.Errorf(cli.StatusConfig, "no issue can be in the active %s %s", plural(len(missing), "state"), quoted(missing))
	}
	if missing := f.missing(o.rules.Terminal); len(missing) == len(o.rules.Terminal) && len(missing) > 0 {
		return cli.Errorf(cli.StatusConfig, "no issue can be in any of the terminal states, so none is ever done")
	}
	if len(f.Problems) > 0 {
		return cli.Exit(cli.StatusData)
	}
	return nil
}

// report is what there is to say about a tracker that can be read, as lines "what
// value" for people and grep.
func (o *opened) report(page *findings) string {
	var b strings.Builder
	say := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	say("workflow", "%s", cmp.Or(o.flow.Path, "none; defaults stand"))
	say("tracker", "%s", o.adapter.Kind)
	if board, ok := o.tracker.(interface{ Dir() string }); ok {
		say("board", "%s", board.Dir())
	}
	o.reportScope(page, say)
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

// reportScope tells what the tracker knows of itself, and which of the configured states
// it does not know. Of terminal ones only those matter that were meant to be another:
// lists of them are often longer than one project has.
func (o *opened) reportScope(f *findings, say func(string, string, ...any)) {
	if f.scope == nil {
		return
	}
	say("scope", "%s", strings.TrimSpace(f.scope.Name+"  "+f.scope.URL))
	there := quoted(f.scope.States)
	for _, name := range f.missing(o.rules.Active) {
		say("unknown", "active state %q; %sthere is %s", name, didYouMean(f.meant(name)), there)
	}
	for _, name := range f.missing(o.rules.Terminal) {
		if m := f.meant(name); m != "" && o.rules.Category(m) != wire.CategoryTerminal {
			say("unknown", "terminal state %q; %sthere is %s", name, didYouMean(m), there)
		}
	}
}

// meant returns the state of the scope that name was probably meant to be, or "".
func (f *findings) meant(name string) string {
	folded := make([]string, len(f.scope.States))
	for i, s := range f.scope.States {
		folded[i] = tracker.Fold(s)
	}
	if i := slices.Index(folded, workflow.Nearest(tracker.Fold(name), folded)); i >= 0 {
		return f.scope.States[i]
	}
	return ""
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q? ", name)
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(out, ", ")
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

func count(n int, what string) string { return fmt.Sprintf("%d %s", n, plural(n, what)) }

func plural(n int, what string) string {
	if n == 1 {
		return what
	}
	return what + "s"
}
