package peertest

import (
	"fmt"
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
)

// mutate runs one field of a mutation and returns its payload.
func (x *linearExecution) mutate(f *ast.Field) (any, error) {
	args := f.ArgumentMap(x.vars)
	input, _ := args["input"].(map[string]any)
	w := x.world
	clear(w.lists)
	switch f.Name {
	case "issueUpdate", "issueArchive":
		e, err := w.find(w.issues, args["id"])
		if err == nil {
			err = x.updateIssue(e, f.Name, input)
		}
		return entity{"success": true, "issue": e, "entity": e}, err
	case "commentCreate":
		return x.createComment(input)
	case "commentUpdate":
		e, err := w.find(w.comments, args["id"])
		if err != nil {
			return nil, err
		}
		if body, ok := input["body"].(string); ok {
			e["body"], e["updatedAt"] = body, x.stamp()
		}
		return entity{"success": true, "comment": e}, nil
	case "attachmentLinkURL", "attachmentLinkGitHubPR":
		e, err := w.find(w.issues, args["issueId"])
		if err != nil {
			return nil, err
		}
		source := "unknown"
		if f.Name == "attachmentLinkGitHubPR" {
			source = "github"
		}
		w.attach(e, []linearAttachment{{URL: fmt.Sprint(args["url"]), Source: source, CreatedAt: x.stamp()}})
		return entity{"success": true, "attachment": w.attached[len(w.attached)-1]}, nil
	}
	return nil, fmt.Errorf("the stand-in does not know %s", f.Name)
}

func (x *linearExecution) stamp() string { return x.now.UTC().Format("2006-01-02T15:04:05.000Z") }

func (x *linearExecution) updateIssue(e entity, name string, input map[string]any) error {
	if name == "issueArchive" {
		e["archivedAt"] = x.stamp()
	}
	if id, ok := input["stateId"].(string); ok {
		states := e["team"].(entity)["states"].([]entity)
		i := slices.IndexFunc(states, func(s entity) bool { return s["id"] == id })
		if i < 0 {
			return &linearInputError{"INPUT_ERROR", "Discrepancy between issue team and state team"}
		}
		e["state"] = states[i]
	}
	for _, member := range []string{"title", "description", "priority"} {
		if v, ok := input[member]; ok {
			e[member] = v
		}
	}
	e["updatedAt"] = x.stamp()
	return nil
}

func (x *linearExecution) createComment(input map[string]any) (any, error) {
	id, _ := input["issueId"].(string)
	issue, err := x.world.find(x.world.issues, id)
	if err != nil {
		return nil, err
	}
	body, _ := input["body"].(string)
	created := x.world.comment(issue, linearComment{Body: body, UpdatedAt: x.stamp()}, nil)
	return entity{"success": true, "comment": created}, nil
}
