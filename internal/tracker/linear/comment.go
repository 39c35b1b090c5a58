package linear

import (
	"context"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// commentsAtOnce is the size of a page of comments.
const commentsAtOnce = 25

type commentNode struct {
	ID         string                  `json:"id"`
	Body       string                  `json:"body"`
	UpdatedAt  remote.Optional[string] `json:"updatedAt"`
	ResolvedAt remote.Optional[string] `json:"resolvedAt"`
}

type commentsAnswer struct {
	Issues struct {
		Nodes []struct {
			Comments connection[commentNode] `json:"comments"`
		} `json:"nodes"`
	} `json:"issues"`
}

// Comments implements tracker.Commenter. Answers within a thread and resolved threads
// do not count.
func (p *Project) Comments(ctx context.Context, name string, markers []string) (list []*wire.Comment, found bool, err error) {
	filter, ok := nameFilter(name)
	if !ok {
		return nil, false, nil
	}
	vars := map[string]any{"filter": p.scope(filter), "comments": markedBy(markers), "first": commentsAtOnce}
	pages := remote.Pages{What: "the comments of " + name}
	for more := true; more; {
		var answer commentsAnswer
		if err := p.ask(ctx, commentsQuery, vars, &answer); err != nil {
			return nil, false, err
		}
		if len(answer.Issues.Nodes) == 0 {
			return nil, false, nil
		}
		page := answer.Issues.Nodes[0].Comments
		for _, c := range page.Nodes {
			if c.ResolvedAt.Value == "" {
				list = append(list, &wire.Comment{ID: c.ID, Body: c.Body, UpdatedAt: tracker.Instant(c.UpdatedAt.Value)})
			}
		}
		if vars["after"], more, err = page.next(&pages); err != nil {
			return nil, false, err
		}
	}
	return list, true, nil
}

// nameFilter finds an issue by id or by identifier.
func nameFilter(name string) (filter, bool) {
	switch {
	case keyForm.MatchString(name):
		return keyFilter([]string{name}), true
	case idForm.MatchString(name):
		return filter{"id": filter{"in": []string{name}}}, true
	}
	return nil, false
}

// markedBy selects the first comments of threads with one of the markers in them.
func markedBy(markers []string) filter {
	var bodies []filter
	for _, m := range markers {
		bodies = append(bodies, filter{"body": filter{"contains": m}})
	}
	return filter{"and": []filter{{"parent": filter{"null": true}}, {"or": bodies}}}
}
