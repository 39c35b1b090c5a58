package github

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"sync"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

var numberForm = regexp.MustCompile(`^[1-9][0-9]{0,17}$`)

// ByIDs implements tracker.Tracker. GitHub has no question for several issues.
func (r *Repo) ByIDs(ctx context.Context, ids []string) (*tracker.Page, error) {
	return r.named(ctx, ids, func(id string) string { return numberForm.FindString(id) })
}

// ByIdentifiers implements tracker.Tracker.
func (r *Repo) ByIdentifiers(ctx context.Context, keys []string) (*tracker.Page, error) {
	return r.named(ctx, keys, func(key string) string {
		if m := identifierForm.FindStringSubmatch(key); m != nil {
			return m[1]
		}
		return ""
	})
}

// named answers for each name. number returns the issue's number, or "" where no issue
// can have that name: that is no request.
func (r *Repo) named(ctx context.Context, names []string, number func(string) string) (*tracker.Page, error) {
	page := &tracker.Page{}
	var numbers []string
	place := map[string]int{}
	for _, name := range names {
		if n := number(name); n != "" {
			if _, twice := place[n]; !twice {
				place[n] = len(numbers)
				numbers = append(numbers, n)
			}
		}
	}
	issues, err := r.fetchAll(ctx, numbers)
	if err != nil {
		return nil, err
	}
	for _, issue := range issues {
		if issue != nil {
			page.Issues = append(page.Issues, issue)
		}
	}
	told := map[string]bool{}
	for _, name := range names {
		if n := number(name); (n == "" || issues[place[n]] == nil) && !told[name] {
			told[name] = true
			page.Gone = append(page.Gone, name)
		}
	}
	page.RateLimit = r.rateLimit()
	return page, nil
}

// fetchAll returns the issues with these numbers, nil for each that is gone. Any other
// trouble with one of them is an error of all: half an answer would say that the rest
// is gone.
func (r *Repo) fetchAll(ctx context.Context, numbers []string) ([]*wire.Issue, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	wanted, err := r.wanted(ctx)
	if err != nil {
		return nil, err
	}
	issues := make([]*wire.Issue, len(numbers))
	var visible error
	var once sync.Once
	err = remote.Each(ctx, len(numbers), atOnce, func(ctx context.Context, i int) error {
		var err error
		if issues[i], err = r.fetch(ctx, numbers[i], wanted); err != nil || issues[i] != nil {
			return err
		}
		// GitHub says the same of an issue and of a repository that it does not show.
		once.Do(func() { _, visible = r.Probe(ctx) })
		return visible
	})
	return issues, err
}

func (r *Repo) fetch(ctx context.Context, number, wanted string) (*wire.Issue, error) {
	a, err := r.get(ctx, r.path("/issues/%s", number))
	if err != nil {
		return nil, err
	}
	if gone(a.res.StatusCode) {
		return nil, nil
	}
	if a.res.StatusCode != http.StatusOK {
		return nil, r.refused(a)
	}
	n, err := decodeNode(json.RawMessage(a.body))
	var issue *wire.Issue
	if err == nil {
		if identifier(n.Number) != identifierOf(number) || n.pull() {
			return nil, nil
		}
		issue, err = r.issue(n, wanted)
	}
	if err != nil {
		return nil, tracker.Errorf(tracker.BadResponse, "read issue %s: %s", identifierOf(number), r.options.Secrets.Preview(err.Error()))
	}
	return issue, r.complete(ctx, []found{{n, issue}})
}

func identifierOf(number string) string { return "GH-" + number }
