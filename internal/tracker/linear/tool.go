package linear

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

type object map[string]any

// Tools implements tracker.Tracker.
func (p *Project) Tools() []tracker.Tool {
	about := "Send one GraphQL query or mutation to Linear, with the credential of this project. "
	if p.anyScope {
		about += "It reaches whatever that credential does."
	} else {
		about += "It is limited to the issues of this project, their comments, attachments and relations."
	}
	schema, _ := wire.Encode(object{ // nothing in it can fail to encode
		"type": "object", "additionalProperties": false, "required": []string{"query"},
		"properties": object{
			"query":     object{"type": "string", "description": "one GraphQL operation"},
			"variables": object{"type": []string{"object", "null"}, "description": "its variables"},
		},
	})
	return []tracker.Tool{{Name: "linear_graphql", Description: about, InputSchema: schema, Call: p.graphql}}
}

// graphql runs the tool. Its result is the answer, also one that holds errors: then
// there is an error besides.
func (p *Project) graphql(ctx context.Context, call tracker.Call) (wire.Record, error) {
	var args struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	dec := json.NewDecoder(bytes.NewReader(call.Args))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&args); err != nil {
		return nil, tracker.Errorf(tracker.BadArguments, "arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) || strings.TrimSpace(args.Query) == "" {
		return nil, tracker.Errorf(tracker.BadArguments, `arguments: "query" has to be one GraphQL operation`)
	}
	if !p.anyScope {
		t, err := p.reach(args.Query, args.Variables)
		if err != nil {
			return nil, err
		}
		if err := p.within(ctx, t); err != nil {
			return nil, err
		}
	}
	// What an agent sends is sent once: only it knows whether it can be repeated.
	a, err := p.post(remote.AsIs(ctx), args.Query, args.Variables)
	if err != nil {
		return nil, err
	}
	record, err := result(a)
	if err != nil {
		return nil, err
	}
	_, err = p.judge(a)
	return record, err
}

// within checks that all that a call names belongs to the project.
func (p *Project) within(ctx context.Context, t *touched) error {
	issues := slices.Clone(t.issues)
	for _, id := range t.comments {
		var answer struct {
			Comment struct {
				Issue *struct {
					ID string `json:"id"`
				} `json:"issue"`
			} `json:"comment"`
		}
		if err := p.ask(ctx, commentIssueQuery, map[string]any{"id": id}, &answer); err != nil {
			return err
		}
		if answer.Comment.Issue == nil {
			return outOfScope("comment %q belongs to no issue", id)
		}
		issues = append(issues, answer.Comment.Issue.ID)
	}
	if err := p.ownIssues(ctx, issues); err != nil || len(t.projects) == 0 {
		return err
	}
	scope, err := p.Probe(ctx)
	if err != nil {
		return err
	}
	for _, id := range t.projects {
		if id != scope.ID {
			return outOfScope("project %q is not this one, %q", id, scope.ID)
		}
	}
	return nil
}

func (p *Project) ownIssues(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var either []filter
	for _, name := range names {
		f, ok := nameFilter(name)
		if !ok {
			return tracker.Errorf(tracker.BadArguments, "%q is neither the id nor the identifier of an issue", name)
		}
		either = append(either, f)
	}
	var answer struct {
		Issues struct {
			Nodes []neighbor `json:"nodes"`
		} `json:"issues"`
	}
	vars := map[string]any{"filter": p.scope(filter{"or": either}), "first": min(len(either), maxPage)}
	if err := p.ask(ctx, touchedQuery, vars, &answer); err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(answer.Issues.Nodes, func(n neighbor) bool {
			return strings.EqualFold(n.ID, name) || strings.EqualFold(n.Identifier, name)
		}) {
			return outOfScope("issue %q is not in this project", name)
		}
	}
	return nil
}

// result is the answer as the agent gets it, with the headers that tell how much is left
// of the quota.
func result(a *answer) (wire.Record, error) {
	return remote.Result(&http.Response{StatusCode: a.status, Header: a.header}, a.body, func(name string) bool {
		return strings.HasPrefix(name, "x-ratelimit-") || name == "x-complexity" || name == "retry-after"
	})
}
