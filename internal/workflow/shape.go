package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ostoolkit/internal/wire"
)

// shape says what may follow a variable in a template. nil stands for a value that
// nothing is known of, where everything may follow.
type shape struct {
	members map[string]*shape
	item    *shape // of a list
	list    bool
	vacant  bool // known to other tools, always null here
}

// promptShape is the shape of all variables together.
func promptShape() *shape {
	issue := shapeOf(reflect.TypeFor[wire.Issue]())
	for name, s := range openSymphonyShape(issue) {
		issue.members[name] = s
	}
	return &shape{members: map[string]*shape{
		"issue":     issue,
		"attempt":   {},
		"workspace": shapeOf(reflect.TypeFor[Folder]()),
		"turn":      {},
		"max_turns": {},
	}}
}

// openSymphonyShape gives OpenSymphony's names for parts of an issue. Titles and
// addresses of related issues are not read from any tracker here.
func openSymphonyShape(issue *shape) map[string]*shape {
	vacant := &shape{vacant: true}
	for _, related := range []string{"parent", "children"} {
		s := issue.members[related]
		if s.list {
			s = s.item
		}
		s.members["title"], s.members["url"] = vacant, vacant
	}
	issue.members["blocked_by"].item.members["title"] = vacant
	return map[string]*shape{
		"parent_id":         {},
		"sub_issues":        issue.members["children"],
		"project_id":        {},
		"project_slug":      {},
		"project_name":      {},
		"project_milestone": {members: map[string]*shape{"id": vacant, "name": {}}},
	}
}

// shapeOf follows the JSON of t, which is what a template sees.
func shapeOf(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[wire.Time]():
		return &shape{}
	case reflect.TypeFor[json.RawMessage]():
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return shapeOf(t.Elem())
	case reflect.Slice:
		return &shape{list: true, item: shapeOf(t.Elem())}
	case reflect.Struct:
		s := &shape{members: map[string]*shape{}}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			s.members[name] = shapeOf(f.Type)
		}
		return s
	}
	return &shape{}
}

// member returns the shape of what is called name, and whether there is such a thing.
func (s *shape) member(name string) (*shape, bool) {
	if s == nil {
		return nil, true
	}
	if m, ok := s.members[name]; ok {
		return m, true
	}
	switch {
	case name == "size":
		return &shape{}, true
	case s.list && (name == "first" || name == "last"):
		return s.item, true
	}
	return nil, false
}

func (s *shape) names() []string {
	var names []string
	for name := range s.members {
		names = append(names, name)
	}
	if s.list {
		names = append(names, "first", "last", "size")
	}
	slices.Sort(names)
	return names
}

// bindings returns the variables as a template sees them: plain JSON values, nil for
// what is not known, since a null given as "" would be true in a condition.
func (v Vars) bindings() (map[string]any, error) {
	issue, err := plainJSON(v.Issue)
	if err != nil {
		return nil, err
	}
	if m, ok := issue.(map[string]any); ok {
		addOpenSymphony(m)
	}
	folder, err := plainJSON(v.Workspace)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"issue":     issue,
		"attempt":   known(v.Attempt),
		"workspace": folder,
		"turn":      positive(v.Turn),
		"max_turns": positive(v.MaxTurns),
	}, nil
}

func known(n *int64) any {
	if n == nil {
		return nil
	}
	return int(*n)
}

func positive(n int64) any {
	if n <= 0 {
		return nil
	}
	return int(n)
}

func addOpenSymphony(issue map[string]any) {
	part := func(of, name string) any {
		m, _ := issue[of].(map[string]any)
		return m[name]
	}
	issue["parent_id"] = part("parent", "id")
	issue["sub_issues"] = issue["children"]
	issue["project_id"] = part("project", "id")
	issue["project_slug"] = part("project", "slug")
	issue["project_name"] = part("project", "name")
	issue["project_milestone"] = nil
	if name := issue["milestone"]; name != nil {
		issue["project_milestone"] = map[string]any{"id": nil, "name": name}
	}
}

func plainJSON(v any) (any, error) {
	b, err := wire.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("encode variables: %v", err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("decode variables: %v", err)
	}
	return numbers(out), nil
}

// numbers makes whole numbers ints, so that an id of twelve digits is not printed in
// the notation of a float.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			v[k] = numbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = numbers(item)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	}
	return v
}
