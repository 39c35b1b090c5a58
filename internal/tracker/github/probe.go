package github

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"ostoolkit/internal/tracker"
)

// Probe implements tracker.Prober.
func (r *Repo) Probe(ctx context.Context) (*tracker.Scope, error) {
	var repo struct {
		ID        int64  `json:"id"`
		FullName  string `json:"full_name"`
		URL       string `json:"html_url"`
		HasIssues *bool  `json:"has_issues"`
	}
	if err := r.read(ctx, r.path(""), &repo); err != nil {
		return nil, err
	}
	if repo.HasIssues != nil && !*repo.HasIssues {
		e := tracker.Errorf(tracker.InvalidConfig, "issues are switched off in %s", r.repo)
		e.Hint = fmt.Sprintf("they are switched on in the settings, %s/settings", repo.URL)
		return nil, e
	}
	states := append([]string{stateOpen, stateClosed}, slices.Sorted(maps.Values(r.stateLabel))...)
	return &tracker.Scope{ID: strconv.FormatInt(repo.ID, 10), Name: repo.FullName, URL: repo.URL, States: slices.Compact(states)}, nil
}
