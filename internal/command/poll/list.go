package poll

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// lister prints the answer to one command line.
type lister struct {
	*listing
	*opened
	env   *cli.Env
	out   *wire.Writer
	total wire.Summary
	bad   int // input lines
}

func list(ctx context.Context, env *cli.Env, args []string) error {
	l, err := parseList(args)
	if err != nil {
		return err
	}
	o, err := l.open(env)
	if err != nil {
		return err
	}
	p := &lister{listing: l, opened: o, env: env, out: wire.NewWriter(env.Stdout)}
	p.total.Tracker = o.adapter.Kind
	switch {
	case l.following:
		err = newFollower(p).follow(ctx)
	case l.named():
		err = p.answer(ctx)
	default:
		err = p.list(ctx)
	}
	if err != nil {
		return cmp.Or(p.sayLimit(err), withStatus(err))
	}
	return p.finish()
}

// sayLimit prints the summary of an answer that a limit kept back: it says in figures
// when to ask again.
func (p *lister) sayLimit(err error) error {
	var limited *tracker.Error
	if !p.summary || !errors.As(err, &limited) || limited.Category != tracker.RateLimited {
		return nil
	}
	now := wire.RateLimit{Remaining: new(int64), ResetAt: wire.At(limited.RetryAt)}
	if last := p.total.RateLimit; last != nil {
		now.Limit = last.Limit
	}
	p.total.RateLimit = &now
	return p.out.Write(&p.total)
}

// finish prints the summary and turns bad entries into the exit status.
func (p *lister) finish() error {
	if p.summary {
		if err := p.out.Write(&p.total); err != nil {
			return err
		}
	}
	if p.bad > 0 || p.total.Malformed > 0 {
		return cli.Exit(cli.StatusData)
	}
	return nil
}

func (p *lister) query() tracker.Query {
	switch p.selection {
	case selectAll:
		return tracker.Query{All: true}
	case selectTerminal:
		return tracker.Query{States: p.rules.Terminal}
	case selectStates:
		return tracker.Query{States: p.states}
	case selectReady:
		return tracker.Query{States: p.rules.Active, Labels: p.rules.RequiredLabels}
	default:
		return tracker.Query{States: p.rules.Active}
	}
}

// list prints the issues in the selected states. Page by page memory stays flat,
// however long the list is; what is ready, and which come first, shows only once all
// are there.
func (p *lister) list(ctx context.Context) error {
	ctx, cancel := p.source.limit(ctx)
	defer cancel()
	if !p.atomic && p.selection != selectReady && p.listing.limit == 0 {
		return p.tracker.List(ctx, p.query(), p.printPage)
	}
	page, err := tracker.Collect(ctx, p.tracker, p.query())
	if err != nil {
		return err
	}
	return p.printPage(page)
}

func (p *lister) printPage(page *tracker.Page) error {
	p.note(page)
	if p.selection == selectReady {
		for _, ring := range p.rules.Cycles(page.Issues) {
			p.env.Warnf("never ready, they wait for each other: %s", tracker.RingText(ring))
		}
	}
	tracker.Sort(page.Issues)
	for _, issue := range page.Issues {
		if err := p.print(issue); err != nil {
			return err
		}
	}
	return nil
}

// note counts a page and tells of its troubles.
func (p *lister) note(page *tracker.Page) {
	tell(p.env, page)
	p.total.Malformed += int64(len(page.Problems))
	p.total.Skipped += int64(page.Skipped)
	if page.RateLimit != nil {
		p.total.RateLimit = page.RateLimit
	}
}

func tell(env *cli.Env, page *tracker.Page) {
	for _, problem := range slices.Concat(page.Warnings, page.Problems) {
		env.Warnf("%v", problem)
	}
}

// print prints an issue, if it is selected and within the limit.
func (p *lister) print(issue *wire.Issue) error {
	if !p.selected(issue) {
		p.total.Skipped++
		return nil
	}
	if p.listing.limit > 0 && p.total.Issues >= int64(p.listing.limit) {
		p.total.Truncated = true
		return nil
	}
	p.total.Issues++
	return p.out.Write(issue)
}

func (p *lister) selected(issue *wire.Issue) bool {
	switch p.selection {
	case selectReady:
		return p.rules.Ready(issue) == nil
	case selectActive:
		return issue.Category == wire.CategoryActive
	case selectTerminal:
		return issue.Category == wire.CategoryTerminal
	case selectStates:
		return tracker.Contains(p.states, issue.State)
	default:
		return true
	}
}

// answer prints an issue or a gone record for each one asked for, in their order.
func (p *lister) answer(ctx context.Context) error {
	questions, bad, err := p.questions(ctx, p.env)
	if err != nil {
		return err
	}
	p.bad = bad
	ctx, cancel := p.source.limit(ctx)
	defer cancel()
	known, err := p.lookUp(ctx, questions)
	if err != nil {
		return err
	}
	told := map[string]bool{}
	for _, q := range questions {
		if err := p.reply(q, known, told); err != nil {
			return err
		}
	}
	return nil
}

// reply prints the answer to one question, unless it has been given already.
func (p *lister) reply(q question, known *answers, told map[string]bool) error {
	if q.raw != nil {
		return p.out.WriteLine(q.raw)
	}
	name := q.id + q.key // one of them is empty
	issue := known.find(q)
	if issue != nil {
		name = issue.ID
	}
	if told[name] {
		return nil
	}
	told[name] = true
	switch {
	case issue != nil:
		return p.print(issue)
	case known.gone[q.id+q.key]:
		p.total.Gone++
		return p.out.Write(&wire.Gone{ID: name})
	}
	return nil // unreadable, which has been told
}

// answers is what the tracker said about the names asked for.
type answers struct {
	byID  map[string]*wire.Issue
	byKey map[string]*wire.Issue // exact and folded identifiers
	gone  map[string]bool
}

func (a *answers) find(q question) *wire.Issue {
	if q.id != "" {
		return a.byID[q.id]
	}
	if issue := a.byKey[q.key]; issue != nil {
		return issue
	}
	return a.byKey[tracker.Fold(q.key)]
}

// lookUp asks for all ids at once and for all identifiers at once, each once.
func (p *lister) lookUp(ctx context.Context, questions []question) (*answers, error) {
	var ids, keys []string
	seen := map[[2]string]bool{{}: true} // lines that are passed on ask for nothing
	for _, q := range questions {
		if name := [2]string{q.id, q.key}; !seen[name] {
			seen[name] = true
			ids, keys = appendName(ids, q.id), appendName(keys, q.key)
		}
	}
	byID, err := p.tracker.ByIDs(ctx, ids)
	if err != nil {
		return nil, err
	}
	byKey, err := p.tracker.ByIdentifiers(ctx, keys)
	if err != nil {
		return nil, err
	}
	p.note(merge(byID, byKey))
	return collect(byID, byKey), nil
}

func appendName(names []string, name string) []string {
	if name == "" {
		return names
	}
	return append(names, name)
}

// merge joins two pages for note. What both saw counts once.
func merge(a, b *tracker.Page) *tracker.Page {
	m := &tracker.Page{Problems: slices.Clone(a.Problems), Skipped: max(a.Skipped, b.Skipped), RateLimit: a.RateLimit}
	for _, problem := range b.Problems {
		if !slices.Contains(m.Problems, problem) {
			m.Problems = append(m.Problems, problem)
		}
	}
	if b.RateLimit != nil {
		m.RateLimit = b.RateLimit
	}
	return m
}

func collect(byID, byKey *tracker.Page) *answers {
	a := &answers{byID: map[string]*wire.Issue{}, byKey: map[string]*wire.Issue{}, gone: map[string]bool{}}
	for _, issue := range byID.Issues {
		a.byID[issue.ID] = issue
	}
	for _, issue := range byKey.Issues {
		a.byKey[issue.Identifier] = issue
		if fold := tracker.Fold(issue.Identifier); a.byKey[fold] == nil {
			a.byKey[fold] = issue
		}
	}
	for _, name := range slices.Concat(byID.Gone, byKey.Gone) {
		a.gone[name] = true
	}
	return a
}
