package linear

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// idsAtOnce is how many issues one request asks for by name.
const idsAtOnce = 50

// List implements tracker.Tracker. Archived issues are in it only where they are asked
// for by a terminal state: they are no candidates.
func (p *Project) List(ctx context.Context, q tracker.Query, use func(*tracker.Page) error) error {
	if !q.All && len(q.States) == 0 {
		return nil
	}
	w := walk{p: p, filter: p.scope(), first: p.firstPage, later: p.laterPage}
	if !q.All {
		w.filter = p.scope(stateFilter(q.States))
	}
	w.archived = slices.ContainsFunc(q.States, func(s string) bool { return p.rules.Category(s) == wire.CategoryTerminal })
	found := 0
	err := w.each(ctx, func(page *tracker.Page) error {
		found += len(page.Issues) + len(page.Problems)
		before := len(page.Issues)
		page.Issues = slices.DeleteFunc(page.Issues, func(i *wire.Issue) bool {
			return i.Archived && i.Category != wire.CategoryTerminal
		})
		page.Skipped += before - len(page.Issues)
		return use(page)
	})
	if err == nil && found == 0 {
		_, err = p.Probe(ctx) // an unknown project looks as if it were empty
	}
	return err
}

// stateFilter matches names in any case at the server. Linear has no list of them that
// does.
func stateFilter(states []string) filter {
	var names []filter
	for _, s := range states {
		names = append(names, filter{"name": filter{"eqIgnoreCase": strings.TrimSpace(s)}})
	}
	return filter{"state": filter{"or": names}}
}

// idForm is what Linear takes for the id of an issue. Anything else makes it refuse the
// whole question, so we answer that ourselves: there is no such issue.
var (
	idForm  = regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`)
	keyForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9]*)-([0-9]{1,9})$`)
)

// ByIDs implements tracker.Tracker.
func (p *Project) ByIDs(ctx context.Context, ids []string) (*tracker.Page, error) {
	return p.named(ctx, ids, naming{
		valid:  idForm.MatchString,
		filter: func(ids []string) filter { return filter{"id": filter{"in": ids}} },
		name:   func(i *wire.Issue) string { return i.ID },
	})
}

// ByIdentifiers implements tracker.Tracker.
func (p *Project) ByIdentifiers(ctx context.Context, keys []string) (*tracker.Page, error) {
	return p.named(ctx, keys, naming{
		valid:  keyForm.MatchString,
		filter: keyFilter,
		name:   func(i *wire.Issue) string { return i.Identifier },
	})
}

// keyFilter matches identifiers: there is no filter for them, only for their parts.
func keyFilter(keys []string) filter {
	var names []filter
	for _, key := range keys {
		m := keyForm.FindStringSubmatch(key)
		number, _ := strconv.Atoi(m[2]) // digits, by keyForm
		names = append(names, filter{"team": filter{"key": filter{"eqIgnoreCase": m[1]}}, "number": filter{"eq": number}})
	}
	return filter{"or": names}
}

// naming is one way to name issues.
type naming struct {
	valid  func(string) bool
	filter func([]string) filter
	name   func(*wire.Issue) string
}

// named asks for issues by name, some at a time, and answers for each. A record that
// cannot be read fails the whole question: its issue would else look gone.
func (p *Project) named(ctx context.Context, names []string, by naming) (*tracker.Page, error) {
	out := &tracker.Page{}
	askable := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(names))), func(n string) bool { return !by.valid(n) })
	seen := map[string]bool{}
	for chunk := range slices.Chunk(askable, idsAtOnce) {
		w := walk{p: p, filter: p.scope(by.filter(chunk)), archived: true, first: len(chunk), later: idsAtOnce}
		err := w.each(ctx, func(page *tracker.Page) error {
			if len(page.Problems) > 0 {
				return &tracker.Error{Category: tracker.BadResponse, Message: "read an issue by its name", Err: page.Problems[0]}
			}
			for _, issue := range page.Issues {
				seen[tracker.Fold(by.name(issue))] = true
			}
			out.Issues = append(out.Issues, page.Issues...)
			out.RateLimit = page.RateLimit
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(askable) > 0 && len(out.Issues) == 0 {
		// In a project that is not there every issue looks gone, and work would be stopped.
		if _, err := p.Probe(ctx); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if !seen[tracker.Fold(name)] && !slices.Contains(out.Gone, name) {
			out.Gone = append(out.Gone, name)
		}
	}
	return out, nil
}

// walk reads all pages of one question.
type walk struct {
	p            *Project
	filter       filter
	archived     bool
	first, later int // sizes of the first and of each further page
}

type issuesAnswer struct {
	Issues connection[json.RawMessage] `json:"issues"`
}

// each calls use with each page, its nested lists completed. An issue comes once.
func (w *walk) each(ctx context.Context, use func(*tracker.Page) error) error {
	me, err := w.p.assigneeID(ctx)
	if err != nil {
		return err
	}
	pages := remote.Pages{What: "the list of issues"}
	size, after := w.first, ""
	for {
		vars := map[string]any{"filter": w.filter, "archived": w.archived, "first": size}
		maps.Copy(vars, nestedFor(size).variables())
		if after != "" {
			vars["after"] = after
		}
		var answer issuesAnswer
		if err := w.p.ask(ctx, issuesQuery, vars, &answer); err != nil {
			return err
		}
		next, more, err := answer.Issues.next(&pages)
		if err != nil {
			return err
		}
		page, err := w.p.page(ctx, answer.Issues.Nodes, me, &pages)
		if err != nil {
			return err
		}
		if err := use(page); err != nil || !more {
			return err
		}
		after, size = next, w.later
	}
}

// page turns the records of one answer into issues. One that cannot be read is a
// problem of its own.
func (p *Project) page(ctx context.Context, records []json.RawMessage, me string, pages *remote.Pages) (*tracker.Page, error) {
	page := &tracker.Page{RateLimit: p.rateLimit()}
	for i, raw := range records {
		n, err := decodeNode(raw)
		if err == nil && n.ID != "" && !pages.First(n.ID) {
			continue
		}
		var issue *wire.Issue
		if err == nil {
			if err := p.completeLists(ctx, n); err != nil {
				return nil, err
			}
			issue, err = p.issue(n, me)
		}
		if err != nil {
			page.Problems = append(page.Problems, tracker.Problem{Where: nameOf(raw, i), Message: err.Error()})
			continue
		}
		page.Issues = append(page.Issues, issue)
	}
	return page, nil
}

// variables are the sizes as the queries call them.
func (n nested) variables() map[string]any {
	return map[string]any{"labels": n.labels, "blockers": n.blockers, "children": n.children, "attachments": n.attachments}
}
