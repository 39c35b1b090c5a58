// Package execcmd is the tracker that is any program: one that prints issue records
// when it is asked. os-poll(1) documents what it is asked and what its exit status
// stands for; ten lines of shell are enough.
//
// It believes no record unseen: each has to be an issue of os-wire(5), and what lacks
// one of the members that every issue has is a problem of that record alone. It keeps
// nothing between two questions. A Program may be used from several goroutines.
package execcmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/google/shlex"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Kind is the word for this adapter in tracker.kind.
const Kind = "exec"

// Adapter returns this kind of tracker.
func Adapter() tracker.Adapter {
	return tracker.Adapter{
		Kind:     Kind,
		Active:   workflow.DefaultActive(),
		Terminal: workflow.DefaultTerminal(),
		Open: func(c tracker.Config) (tracker.Tracker, error) {
			p, err := Open(c)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// Program is a tracker behind a command.
type Program struct {
	argv    []string
	dir     string
	environ []string
	secrets []string // values that no message may show
	rules   tracker.Rules
	trusted []string
}

// Open returns the program that the configuration names. It reads
// tracker.provider.command (words as a shell splits them; the first is looked up in
// PATH, or beside the workflow if it has a slash) and tracker.provider.env (names and
// values that are put into its environment, beside our own).
func Open(c tracker.Config) (*Program, error) {
	command, ok := c.Provider["command"].(string)
	if !ok || strings.TrimSpace(command) == "" {
		e := tracker.Errorf(tracker.InvalidConfig, "tracker.provider.command names no program")
		e.Hint = "tracker: {kind: exec, provider: {command: ./issues.sh}}"
		return nil, e
	}
	argv, err := shlex.Split(command)
	if err != nil || len(argv) == 0 {
		return nil, &tracker.Error{Category: tracker.InvalidConfig, Message: "split tracker.provider.command", Err: err}
	}
	env, err := environment(c)
	if err != nil {
		return nil, err
	}
	return &Program{
		argv: argv, dir: c.Dir, environ: proc.Environ(c.Environ, nil, env), secrets: long(env),
		rules: c.Rules, trusted: c.TrustedAuthors,
	}, nil
}

// environment is tracker.provider.env. The workflow has refused a variable that is not
// set.
func environment(c tracker.Config) (map[string]string, error) {
	given, ok := c.Provider["env"]
	if !ok || given == nil {
		return nil, nil
	}
	table, ok := given.(map[string]any)
	if !ok {
		return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.env: %v is not a table of names and values", given)
	}
	env := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		value, ok := table[name].(string)
		if !ok {
			return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.env.%s: %v is not a text", name, table[name])
		}
		env[name] = value
	}
	return env, nil
}

// long are the values that can be taken out of a message without taking words apart.
func long(env map[string]string) []string {
	var values []string
	for _, v := range env {
		if len(v) >= 8 {
			values = append(values, v)
		}
	}
	return values
}

// pageSize is how many issues of a list are passed on at a time.
const pageSize = 250

// List implements tracker.Tracker: "COMMAND list STATE…", or without states for all.
func (p *Program) List(ctx context.Context, q tracker.Query, use func(*tracker.Page) error) error {
	if !q.All && len(q.States) == 0 {
		return nil
	}
	states := q.States
	if q.All {
		states = nil
	}
	l := &lister{program: p, query: q, use: use, page: &tracker.Page{}, seen: map[string]bool{}}
	end, err := p.ask(ctx, append([]string{"list"}, states...), nil, l.take)
	if err != nil {
		return err
	}
	l.page.Warnings, l.page.RateLimit = end.warnings, end.limit
	return use(l.page)
}

// lister passes on a list in pages.
type lister struct {
	program *Program
	query   tracker.Query
	use     func(*tracker.Page) error
	page    *tracker.Page
	seen    map[string]bool // ids
}

func (l *lister) take(a *answer) error {
	switch {
	case a.problem != nil:
		l.page.Problems = append(l.page.Problems, *a.problem)
	case a.issue == nil || l.seen[a.issue.ID]: // gone, or told twice
	case l.query.All || tracker.Contains(l.query.States, a.issue.State):
		l.seen[a.issue.ID] = true
		l.page.Issues = append(l.page.Issues, a.issue)
	default:
		l.page.Skipped++
	}
	if len(l.page.Issues) < pageSize {
		return nil
	}
	page := l.page
	l.page = &tracker.Page{}
	return l.use(page)
}

// ByIDs implements tracker.Tracker: "COMMAND ids", the ids on its standard input.
func (p *Program) ByIDs(ctx context.Context, ids []string) (*tracker.Page, error) {
	page := &tracker.Page{}
	if len(ids) == 0 {
		return page, nil
	}
	issues, gone := map[string]*wire.Issue{}, map[string]bool{}
	end, err := p.ask(ctx, []string{"ids"}, []byte(strings.Join(ids, "\n")+"\n"), func(a *answer) error {
		switch {
		case a.problem != nil:
			page.Problems = append(page.Problems, *a.problem)
		case a.issue != nil:
			issues[a.issue.ID] = a.issue
		default:
			gone[a.gone] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	page.Warnings, page.RateLimit = end.warnings, end.limit
	for _, id := range unique(ids) {
		switch {
		case issues[id] != nil:
			page.Issues = append(page.Issues, issues[id])
		case gone[id]:
			page.Gone = append(page.Gone, id)
		default:
			page.Problems = append(page.Problems, tracker.Problem{Where: p.argv[0], Message: "told nothing of the id " + id})
		}
	}
	return page, nil
}

// ByIdentifiers implements tracker.Tracker. The program is asked for everything: what
// it is not asked, it need not know.
func (p *Program) ByIdentifiers(ctx context.Context, keys []string) (*tracker.Page, error) {
	page := &tracker.Page{}
	if len(keys) == 0 {
		return page, nil
	}
	all, err := tracker.Collect(ctx, p, tracker.Query{All: true})
	if err != nil {
		return nil, err
	}
	page.Warnings, page.RateLimit = all.Warnings, all.RateLimit
	byKey := map[string]*wire.Issue{}
	for _, issue := range all.Issues {
		byKey[tracker.Fold(issue.Identifier)] = issue
	}
	for _, key := range unique(keys) {
		switch issue := byKey[tracker.Fold(key)]; {
		case issue != nil && !slices.Contains(page.Issues, issue):
			page.Issues = append(page.Issues, issue)
		case issue != nil: // the same in other letters
		case len(all.Problems) > 0:
			page.Problems = all.Problems // it may be one of those
		default:
			page.Gone = append(page.Gone, key)
		}
	}
	page.Skipped = len(all.Issues) - len(page.Issues)
	return page, nil
}

// Tools implements tracker.Tracker. A program that offers some is named under
// tools.commands besides: that is one contract for all of them.
func (p *Program) Tools() []tracker.Tool { return nil }

func unique(names []string) []string {
	var out []string
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
