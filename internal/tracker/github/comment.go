package github

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

type comment struct {
	ID          int64                   `json:"id"`
	Body        remote.Optional[string] `json:"body"`
	User        remote.Optional[user]   `json:"user"`
	Association remote.Optional[string] `json:"author_association"`
	UpdatedAt   remote.Optional[string] `json:"updated_at"`
}

// Comments implements tracker.Commenter. Anybody can comment on an open issue: what an
// author who is not trusted wrote is left out (case P14). GitHub cannot search for
// markers.
func (r *Repo) Comments(ctx context.Context, name string, _ []string) (list []*wire.Comment, found bool, err error) {
	number := numberForm.FindString(name)
	if m := identifierForm.FindStringSubmatch(name); m != nil {
		number = m[1]
	}
	if number == "" {
		return nil, false, nil
	}
	a, err := r.get(ctx, r.path("/issues/%s", number))
	switch {
	case err != nil:
		return nil, false, err
	case gone(a.res.StatusCode):
		_, err := r.Probe(ctx)
		return nil, false, err
	case a.res.StatusCode != http.StatusOK:
		return nil, false, r.refused(a)
	}
	list, err = r.comments(ctx, number)
	return list, err == nil, err
}

func (r *Repo) comments(ctx context.Context, number string) ([]*wire.Comment, error) {
	what := "the comments of " + identifierOf(number)
	var list []*wire.Comment
	_, err := r.pages(ctx, what, r.path("/issues/%s/comments?per_page=100", number), func(entries []json.RawMessage) error {
		for _, raw := range entries {
			var c comment
			if err := json.Unmarshal(raw, &c); err != nil || c.ID <= 0 {
				return tracker.Errorf(tracker.BadResponse, "%s: one has no id", what)
			}
			if r.trusts(c.User.Value.Login, c.Association.Value) {
				list = append(list, &wire.Comment{
					ID: strconv.FormatInt(c.ID, 10), Body: c.Body.Value, UpdatedAt: tracker.Instant(c.UpdatedAt.Value),
				})
			}
		}
		return nil
	})
	return list, err
}
