package github

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// List implements tracker.Tracker. States and labels are selected by GitHub as far as
// it can; the rest is left out here.
func (r *Repo) List(ctx context.Context, q tracker.Query, use func(*tracker.Page) error) error {
	filters := r.filters(q)
	if len(filters) == 0 {
		return nil
	}
	wanted, err := r.wanted(ctx)
	if err != nil {
		return err
	}
	w := walk{r: r, q: q, use: use, wanted: wanted}
	for _, f := range filters {
		if err := w.read(ctx, r.path("/issues?%s", f.query(q.Labels))); err != nil {
			return err
		}
	}
	return w.flush(nil)
}

// filter is one list of GitHub's.
type filter struct {
	state string // open, closed, all
	label string // or ""
}

// filters returns the lists whose issues can be in the states of q, as few as there
// can be.
func (r *Repo) filters(q tracker.Query) []filter {
	open, closed := tracker.Contains(q.States, stateOpen), tracker.Contains(q.States, stateClosed)
	if q.All || open && closed {
		return []filter{{state: "all"}}
	}
	var out []filter
	for label, state := range r.stateLabel {
		if !tracker.Contains(q.States, state) {
			continue
		}
		if !open {
			out = append(out, filter{stateOpen, label})
		}
		if !closed && r.rules.Category(state) == wire.CategoryTerminal {
			out = append(out, filter{stateClosed, label})
		}
	}
	if open {
		out = append(out, filter{state: stateOpen})
	}
	if closed {
		out = append(out, filter{state: stateClosed})
	}
	slices.SortFunc(out, func(a, b filter) int { return strings.Compare(a.state+a.label, b.state+b.label) })
	return out
}

// query orders by age, so that issues that change meanwhile stay where they are. An
// issue has to have all of the labels.
func (f filter) query(labels []string) string {
	q := url.Values{"state": {f.state}, "sort": {"created"}, "direction": {"asc"}, "per_page": {"100"}}
	all := tracker.Labels(append([]string{f.label}, labels...))
	// A name with a comma would be taken for two.
	all = slices.DeleteFunc(all, func(l string) bool { return strings.Contains(l, ",") })
	if len(all) > 0 {
		q.Set("labels", strings.Join(all, ","))
	}
	return q.Encode()
}

// walk reads lists one after the other. It holds each page back until the next one is
// there: an issue that moved to that one meanwhile is given once, as it is now.
type walk struct {
	r      *Repo
	q      tracker.Query
	wanted string
	use    func(*tracker.Page) error
	seen   remote.Pages // what came in any of the lists
	held   *tracker.Page
}

// maxRounds is how often a list that changes while it is read is read again.
const maxRounds = 3

// read reads one list to its end. Where pages are counted, an issue that leaves the
// list moves all later ones to the front, and the first of a page is missed. So the
// pages are asked for once more, which costs little: one that did not change is not sent,
// and is taken off no quota.
func (w *walk) read(ctx context.Context, address string) error {
	pages, err := w.r.pages(ctx, "issues", address, func(entries []json.RawMessage) error {
		_, err := w.page(ctx, entries)
		return err
	})
	if err != nil {
		return err
	}
	pages = slices.DeleteFunc(pages[:len(pages)-1], func(p page) bool { return !p.offset() })
	for range maxRounds {
		news, err := w.reread(ctx, pages)
		if err != nil || news == 0 {
			return err
		}
	}
	return tracker.Errorf(tracker.BadPaging, "issues: the list did not stay the same for long enough to be read")
}

// reread returns how many entries it found that the walk had not seen.
func (w *walk) reread(ctx context.Context, pages []page) (news int, err error) {
	for i, p := range pages {
		a, err := w.r.getUnless(ctx, p.address, p.etag)
		if err != nil {
			return 0, err
		}
		if a.res.StatusCode == http.StatusNotModified && p.etag != "" {
			continue
		}
		entries, err := w.r.entries("issues", a)
		if err != nil {
			return 0, err
		}
		pages[i].etag = a.res.Header.Get("ETag")
		// What cannot be read was told the first time.
		entries = slices.DeleteFunc(entries, func(raw json.RawMessage) bool {
			_, err := decodeNode(raw)
			return err != nil
		})
		fresh, err := w.page(ctx, entries)
		if err != nil {
			return 0, err
		}
		news += fresh
	}
	return news, nil
}

// page takes the entries of one answer and returns how many of them are new.
func (w *walk) page(ctx context.Context, entries []json.RawMessage) (news int, err error) {
	page := &tracker.Page{}
	var all []found
	for i, raw := range entries {
		n, err := decodeNode(raw)
		if err == nil {
			if w.seen.First(identifier(n.Number)) {
				news++
			} else if w.copyOf(n) == nil {
				continue
			}
		}
		var issue *wire.Issue
		if err == nil && !n.pull() {
			issue, err = w.r.issue(n, w.wanted)
		}
		switch {
		case err != nil:
			page.Problems = append(page.Problems, tracker.Problem{Where: nameOf(raw, i), Message: err.Error()})
		case issue == nil || !w.q.All && !tracker.Contains(w.q.States, issue.State):
			page.Skipped++
		default:
			all = append(all, found{n, issue})
		}
	}
	if err := w.r.complete(ctx, all); err != nil {
		return 0, err
	}
	for _, f := range all {
		if old := w.copyOf(f.node); old == nil {
			page.Issues = append(page.Issues, f.issue)
		} else if f.issue.UpdatedAt.After(old.UpdatedAt.Time) {
			*old = *f.issue
		}
	}
	page.RateLimit = w.r.rateLimit()
	return news, w.flush(page)
}

// copyOf returns the issue of the page that is held back, or nil.
func (w *walk) copyOf(n *node) *wire.Issue {
	if w.held == nil {
		return nil
	}
	i := slices.IndexFunc(w.held.Issues, func(h *wire.Issue) bool { return h.Identifier == identifier(n.Number) })
	if i < 0 {
		return nil
	}
	return w.held.Issues[i]
}

// flush hands on the page that was held back, and holds back the next.
func (w *walk) flush(next *tracker.Page) error {
	page := w.held
	w.held = next
	if page == nil {
		return nil
	}
	return w.use(page)
}
