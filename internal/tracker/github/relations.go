package github

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// atOnce is how many requests are under way at a time. GitHub slows down who asks for
// much more.
const atOnce = 4

// found is an issue with what GitHub said of it.
type found struct {
	node  *node
	issue *wire.Issue
}

// complete reads the blockers, the children and, where the workflow wants it, the pull
// request of each issue that is not over. One that is over waits for nothing, and most
// issues of a repository are.
func (r *Repo) complete(ctx context.Context, all []found) error {
	return remote.Each(ctx, len(all), atOnce, func(ctx context.Context, i int) error {
		f := all[i]
		if f.issue.Category == wire.CategoryTerminal {
			return nil
		}
		if err := r.blockers(ctx, f); err != nil {
			return err
		}
		if err := r.children(ctx, f); err != nil || !r.pulls {
			return err
		}
		return r.pullRequest(ctx, f)
	})
}

// blockers reads what the issue waits for. The list holds issues that are over as well;
// their state says so.
func (r *Repo) blockers(ctx context.Context, f found) error {
	counts := f.node.Blocking.Value
	if counts != nil && counts.Blocked == 0 {
		return nil
	}
	nodes, err := r.related(ctx, "the blockers of "+f.issue.Identifier, r.path("/issues/%s/dependencies/blocked_by", f.issue.ID), counts != nil)
	for _, n := range nodes {
		ref := r.refer(n)
		f.issue.BlockedBy = append(f.issue.BlockedBy, wire.Blocker{
			ID: wire.Text(ref.ID), Identifier: wire.Text(ref.Identifier), State: ref.State, Known: ref.State != "",
		})
	}
	// One that is counted but not shown is in a repository that the token may not see.
	for counts != nil && err == nil && len(f.issue.BlockedBy) < counts.Blocked {
		f.issue.BlockedBy = append(f.issue.BlockedBy, wire.Blocker{})
	}
	return err
}

func (r *Repo) children(ctx context.Context, f found) error {
	counts := f.node.SubIssues.Value
	if counts != nil && counts.Total == 0 {
		return nil
	}
	nodes, err := r.related(ctx, "the children of "+f.issue.Identifier, r.path("/issues/%s/sub_issues", f.issue.ID), counts != nil)
	for _, n := range nodes {
		f.issue.Children = append(f.issue.Children, r.refer(n))
	}
	return err
}

// related reads a list of issues that belong to one. A server that does not count them
// in the issue itself may be too old to have them at all: it says so with 404, once.
func (r *Repo) related(ctx context.Context, what, address string, counted bool) ([]*node, error) {
	if !counted && r.isPlain() {
		return nil, nil
	}
	var nodes []*node
	guard := remote.Pages{}
	_, err := r.pages(ctx, what, address+"?per_page=100", func(entries []json.RawMessage) error {
		for i, raw := range entries {
			n, err := decodeNode(raw)
			if err != nil {
				return tracker.Errorf(tracker.BadResponse, "%s: %s: %v", what, nameOf(raw, i), err)
			}
			if guard.First(n.Repository.Value + " " + identifier(n.Number)) {
				nodes = append(nodes, n)
			}
		}
		return nil
	})
	if e, ok := err.(*tracker.Error); ok && e.Category == tracker.NotFound && !counted {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.plain = true
		return nil, nil
	}
	return nodes, err
}

func (r *Repo) isPlain() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plain
}

// refer names a related issue, with its state as this repository would call it.
func (r *Repo) refer(n *node) wire.IssueRef {
	address := strings.TrimRight(n.Repository.Value, "/") + "/issues/" + identifier(n.Number)[len("GH-"):]
	ref, ok := r.reference(address)
	if !ok {
		ref = wire.IssueRef{ID: identifier(n.Number)[len("GH-"):], Identifier: identifier(n.Number)}
	}
	ref.State = wire.Text(r.state(n.State, n.labels()))
	return ref
}

// event is an entry of an issue's timeline.
type event struct {
	Event  remote.Optional[string] `json:"event"`
	Source remote.Optional[struct {
		Issue struct {
			PullRequest *struct {
				URL string `json:"html_url"`
			} `json:"pull_request"`
		} `json:"issue"`
	}] `json:"source"`
}

// pullRequest finds the last pull request that mentions the issue.
func (r *Repo) pullRequest(ctx context.Context, f found) error {
	address := r.path("/issues/%s/timeline?per_page=100", f.issue.ID)
	_, err := r.pages(ctx, "the timeline of "+f.issue.Identifier, address, func(entries []json.RawMessage) error {
		for _, raw := range entries {
			var e event
			// An entry of another kind has other members.
			if json.Unmarshal(raw, &e) == nil && e.Event.Value == "cross-referenced" && e.Source.Value.Issue.PullRequest != nil {
				f.issue.PRURL = wire.Text(e.Source.Value.Issue.PullRequest.URL)
			}
		}
		return nil
	})
	return err
}

// gone tells whether a status means that the issue itself is no longer here: it was
// deleted, or transferred to another repository.
func gone(status int) bool {
	return status == http.StatusNotFound || status == http.StatusGone || status == http.StatusMovedPermanently
}
