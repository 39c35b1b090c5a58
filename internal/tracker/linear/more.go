package linear

import (
	"context"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
)

// completeLists reads what is missing of the nested lists of n. A list that does not say
// whether it is whole is an error as in any paging: a blocker that nobody sees is an
// open door.
func (p *Project) completeLists(ctx context.Context, n *node) error {
	if err := complete(ctx, p, n.ID, labelsQuery, &n.Labels); err != nil {
		return err
	}
	if err := complete(ctx, p, n.ID, relationsQuery, &n.InverseRelations); err != nil {
		return err
	}
	if err := complete(ctx, p, n.ID, childrenQuery, &n.Children); err != nil {
		return err
	}
	return complete(ctx, p, n.ID, attachmentsQuery, &n.Attachments)
}

// complete appends the further pages of one nested list of the issue id.
func complete[T any](ctx context.Context, p *Project, id, query string, list *connection[T]) error {
	pages := remote.Pages{What: "a list of issue " + id}
	after, more, err := list.next(&pages)
	for more && err == nil {
		var answer struct {
			Issue struct {
				ID   string        `json:"id"`
				More connection[T] `json:"more"`
			} `json:"issue"`
		}
		if err := p.ask(ctx, query, map[string]any{"id": id, "first": moreSize, "after": after}, &answer); err != nil {
			return err
		}
		if answer.Issue.ID != id {
			return tracker.Errorf(tracker.BadResponse, "Linear answered for issue %q, and %q was asked for", answer.Issue.ID, id)
		}
		list.Nodes = append(list.Nodes, answer.Issue.More.Nodes...)
		after, more, err = answer.Issue.More.next(&pages)
	}
	return err
}
