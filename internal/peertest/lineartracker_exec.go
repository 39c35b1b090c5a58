package peertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vektah/gqlparser/v2/ast"
)

// linearExecution answers one operation that has been validated.
type linearExecution struct {
	world *linearWorld
	vars  map[string]any
	now   time.Time
}

// linearInputError is an argument that the API refuses at run time.
type linearInputError struct{ code, message string }

func (e *linearInputError) Error() string { return e.message }

// maxPageSize is the largest page of a list.
const maxPageSize = 250

func (x *linearExecution) run(op *ast.OperationDefinition) (map[string]any, error) {
	root := x.queryRoot
	if op.Operation == ast.Mutation {
		root = x.mutate
	}
	out := map[string]any{}
	err := x.each(op.SelectionSet, func(f *ast.Field) error {
		value, err := root(f)
		if err == nil {
			out[f.Alias], err = x.complete(value, f)
		}
		return err
	})
	return out, err
}

// each visits the fields of a selection, through its fragments.
func (x *linearExecution) each(set ast.SelectionSet, visit func(*ast.Field) error) error {
	for _, s := range set {
		var err error
		switch s := s.(type) {
		case *ast.Field:
			err = visit(s)
		case *ast.FragmentSpread:
			err = x.each(s.Definition.SelectionSet, visit)
		case *ast.InlineFragment:
			err = x.each(s.SelectionSet, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *linearExecution) queryRoot(f *ast.Field) (any, error) {
	args := f.ArgumentMap(x.vars)
	switch f.Name {
	case "issues":
		return x.world.issues, nil
	case "projects":
		return x.world.projects, nil
	case "viewer":
		return x.world.viewer, nil
	case "workflowStates":
		var all []entity
		for _, t := range x.world.teams {
			all = append(all, t["states"].([]entity)...)
		}
		return all, nil
	case "issue":
		return x.world.find(x.world.issues, args["id"])
	case "comment":
		return x.world.find(x.world.comments, args["id"])
	case "attachment":
		return x.world.find(x.world.attached, args["id"])
	case "team":
		return x.world.find(x.world.teams, args["id"])
	}
	return nil, fmt.Errorf("the stand-in does not know %s", f.Name)
}

// find returns the entity with an id, or the issue or team with a key.
func (w *linearWorld) find(list []entity, id any) (entity, error) {
	want, _ := id.(string)
	for _, e := range list {
		name, _ := e["identifier"].(string)
		key, _ := e["key"].(string)
		if e["id"] == want || want != "" && (strings.EqualFold(name, want) || key == want) {
			return e, nil
		}
	}
	return nil, &linearInputError{"INPUT_ERROR", "Entity not found"}
}

// complete turns a value into what is sent for a field.
func (x *linearExecution) complete(value any, f *ast.Field) (any, error) {
	switch v := value.(type) {
	case entity:
		return x.object(v, f.SelectionSet)
	case []entity:
		if strings.HasSuffix(f.Definition.Type.Name(), "Connection") {
			return x.connection(v, f)
		}
		return x.list(v, f.SelectionSet)
	}
	return value, nil
}

func (x *linearExecution) object(e entity, set ast.SelectionSet) (map[string]any, error) {
	out := map[string]any{}
	err := x.each(set, func(f *ast.Field) error {
		var err error
		out[f.Alias], err = x.complete(e[f.Name], f)
		return err
	})
	return out, err
}

func (x *linearExecution) list(all []entity, set ast.SelectionSet) ([]any, error) {
	out := make([]any, 0, len(all))
	for _, e := range all {
		o, err := x.object(e, set)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// connection is one page of a list.
func (x *linearExecution) connection(all []entity, f *ast.Field) (any, error) {
	args := f.ArgumentMap(x.vars)
	all, err := x.selected(all, args, f.Name == "issues" || f.Name == "children")
	if err != nil {
		return nil, err
	}
	size, begin := pageSize(args), 0
	if size < 1 || size > maxPageSize {
		return nil, &linearInputError{"INVALID_INPUT", "Argument Validation Error"}
	}
	if after, ok := args["after"].(string); ok {
		begin = 1 + slices.IndexFunc(all, func(e entity) bool { return e["id"] == after })
		if begin == 0 {
			return nil, &linearInputError{"INVALID_INPUT", "Argument Validation Error"}
		}
	}
	page := all[begin:min(begin+size, len(all))]
	info := entity{"hasNextPage": begin+size < len(all), "hasPreviousPage": begin > 0, "startCursor": nil, "endCursor": nil}
	if len(page) > 0 {
		info["startCursor"], info["endCursor"] = page[0]["id"], page[len(page)-1]["id"]
	}
	edges := make([]entity, len(page))
	for i, e := range page {
		edges[i] = entity{"node": e, "cursor": e["id"]}
	}
	return x.object(entity{"nodes": page, "edges": edges, "pageInfo": info}, f.SelectionSet)
}

// selected applies filter, archive and order. A long list is remembered until the next
// change, since each of its pages asks for the same.
func (x *linearExecution) selected(all []entity, args map[string]any, issues bool) ([]entity, error) {
	if !issues || len(all) <= defaultPageSize {
		return x.filtered(all, args, issues)
	}
	name, err := json.Marshal([]any{len(all), args["filter"], args["includeArchived"], args["orderBy"]})
	if err != nil {
		return nil, err
	}
	if list, ok := x.world.lists[string(name)]; ok {
		return list, nil
	}
	list, err := x.filtered(all, args, true)
	if err == nil {
		x.world.lists[string(name)] = list
	}
	return list, err
}

// filtered selects entries; of issues, the archive is left out and the order is that of
// their creation or change.
func (x *linearExecution) filtered(all []entity, args map[string]any, issues bool) ([]entity, error) {
	filter, _ := args["filter"].(map[string]any)
	archived, _ := args["includeArchived"].(bool)
	out := make([]entity, 0, len(all))
	for _, e := range all {
		if issues && !archived && (e["archivedAt"] != nil || e["trashed"] == true) {
			continue
		}
		ok, err := passes(e, filter)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, e)
		}
	}
	if issues {
		order, _ := args["orderBy"].(string)
		order = cmp.Or(order, "createdAt")
		slices.SortStableFunc(out, func(a, b entity) int {
			return -strings.Compare(fmt.Sprint(a[order]), fmt.Sprint(b[order])) // the newest first
		})
	}
	return out, nil
}
