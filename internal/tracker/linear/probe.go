package linear

import (
	"context"
	"fmt"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
)

// teamsAtOnce is the size of a page of the project's teams.
const teamsAtOnce = 20

type projectAnswer struct {
	Projects struct {
		Nodes []struct {
			ID    string `json:"id"`
			Name  string `json:"name"`
			URL   string `json:"url"`
			Teams connection[struct {
				Key    string            `json:"key"`
				States connection[named] `json:"states"`
			}] `json:"teams"`
		} `json:"nodes"`
	} `json:"projects"`
}

// Probe implements tracker.Prober.
func (p *Project) Probe(ctx context.Context) (*tracker.Scope, error) {
	vars := map[string]any{"slugs": p.slugs, "first": teamsAtOnce}
	scope := &tracker.Scope{}
	team, whole := p.team == "", true
	pages := remote.Pages{What: "the teams of the project"}
	for more := true; more; {
		var answer projectAnswer
		if err := p.ask(ctx, projectQuery, vars, &answer); err != nil {
			return nil, err
		}
		if len(answer.Projects.Nodes) == 0 {
			return nil, p.unknown()
		}
		project := answer.Projects.Nodes[0]
		scope.ID, scope.Name, scope.URL = project.ID, project.Name, project.URL
		for _, t := range project.Teams.Nodes {
			if p.team != "" && !strings.EqualFold(t.Key, p.team) {
				continue
			}
			team = true
			whole = whole && t.States.PageInfo.last()
			for _, s := range t.States.Nodes {
				if !tracker.Contains(scope.States, s.Name) {
					scope.States = append(scope.States, s.Name)
				}
			}
		}
		var err error
		if vars["after"], more, err = project.Teams.next(&pages); err != nil {
			return nil, err
		}
	}
	if !team {
		return nil, tracker.Errorf(tracker.NotFound, "team %q has no part in the project %q", p.team, scope.Name)
	}
	if !whole {
		scope.States = nil // of a part of them nobody can say what is missing
	}
	return scope, nil
}

func (p *Project) unknown() error {
	e := tracker.Errorf(tracker.NotFound, "no project with the slug %q is visible to this credential", p.slugs[0])
	if len(p.slugs) > 1 {
		e.Message = fmt.Sprintf("no project with the slug %q or %q is visible to this credential", p.slugs[0], p.slugs[1])
	}
	e.Hint = "tracker.provider.project_slug is the last part of the project's address"
	return e
}
