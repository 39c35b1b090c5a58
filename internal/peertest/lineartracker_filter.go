package peertest

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// passes tells whether an entity passes a filter of Linear's form.
func passes(e entity, filter map[string]any) (bool, error) {
	for name, raw := range filter {
		ok, err := passesMember(e, name, raw)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func passesMember(e entity, name string, raw any) (bool, error) {
	switch name {
	case "and", "or":
		return passesAll(e, raw, name == "or")
	case "null":
		return true, nil // the entity is there; its owner has looked
	}
	condition, ok := raw.(map[string]any)
	if !ok {
		return true, nil // null: no condition
	}
	switch value := e[name].(type) {
	case entity:
		if condition["null"] == true {
			return false, nil
		}
		return passes(value, condition)
	case nil:
		if null, ok := condition["null"].(bool); ok {
			return null, nil
		}
		return false, nil
	default:
		return compareAll(e, name, value, condition)
	}
}

func passesAll(e entity, raw any, one bool) (bool, error) {
	list, _ := raw.([]any)
	for _, item := range list {
		filter, _ := item.(map[string]any)
		ok, err := passes(e, filter)
		if err != nil || ok == one {
			return one && ok, err
		}
	}
	return !one, nil
}

func compareAll(e entity, name string, value any, condition map[string]any) (bool, error) {
	for op, want := range condition {
		_, issue := e["identifier"]
		if issue && name == "id" {
			if err := checkIDs(want); err != nil {
				return false, err
			}
			if name, _ := e["identifier"].(string); hasName(want, name) {
				continue // an identifier stands for an id
			}
		}
		if !compare(op, value, want) {
			return false, nil
		}
	}
	return true, nil
}

// idForm is what Linear takes for the id of an issue.
var idForm = regexp.MustCompile(`^(?i:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[a-z][a-z0-9]*-[0-9]+)$`)

func checkIDs(want any) error {
	for _, id := range asList(want) {
		if !idForm.MatchString(fmt.Sprint(id)) {
			return &linearInputError{"INVALID_INPUT", "Argument Validation Error"}
		}
	}
	return nil
}

func hasName(want any, name string) bool {
	return slices.ContainsFunc(asList(want), func(v any) bool { return strings.EqualFold(fmt.Sprint(v), name) })
}

func asList(v any) []any {
	if list, ok := v.([]any); ok {
		return list
	}
	return []any{v}
}

func compare(op string, value, want any) bool {
	text, wanted := fmt.Sprint(value), fmt.Sprint(want)
	switch op {
	case "eq":
		return same(value, want)
	case "neq":
		return !same(value, want)
	case "in":
		return slices.ContainsFunc(asList(want), func(v any) bool { return same(value, v) })
	case "nin":
		return !slices.ContainsFunc(asList(want), func(v any) bool { return same(value, v) })
	case "eqIgnoreCase":
		return strings.EqualFold(text, wanted)
	case "neqIgnoreCase":
		return !strings.EqualFold(text, wanted)
	case "contains":
		return strings.Contains(text, wanted)
	case "containsIgnoreCase":
		return strings.Contains(strings.ToLower(text), strings.ToLower(wanted))
	case "startsWith":
		return strings.HasPrefix(text, wanted)
	case "gt", "gte", "lt", "lte":
		return ordered(op, value, want)
	}
	return true // null, which is the owner's
}

func same(a, b any) bool {
	x, isNumber := number(a)
	y, both := number(b)
	if isNumber && both {
		return x == y
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

func ordered(op string, a, b any) bool {
	order := strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	if x, ok := number(a); ok {
		y, _ := number(b)
		order = cmp.Compare(x, y)
	}
	switch op {
	case "gt":
		return order > 0
	case "gte":
		return order >= 0
	case "lt":
		return order < 0
	}
	return order <= 0
}
