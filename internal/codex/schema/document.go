package schema

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a chain of references and of schemas within each other, which a broken
// schema may close to a ring.
const (
	maxRefs  = 32
	maxDepth = 256
)

// document is a JSON Schema as Codex generates it, of draft 7. What is looked at are
// references, types, enums, members, elements and alternatives; bounds of numbers and
// formats of texts are not, since we make neither up.
//
// The library for all of JSON Schema compiles its meta-schemas whenever a program
// starts that is linked with it, which takes longer than all else that os-codex does
// until then. The tests compare the two.
type document struct {
	root  map[string]any
	depth int // of the schema that is looked at
}

// misfit is the first place where a value is not what its schema asks for.
type misfit struct {
	at   []string
	text string
}

func (d *document) resolve(s any) map[string]any {
	shape := object(s)
	for range maxRefs {
		ref, ok := shape["$ref"].(string)
		if !ok {
			return shape
		}
		shape = d.lookup(ref)
	}
	return nil
}

// lookup follows a pointer within the document. What it does not find allows anything.
func (d *document) lookup(ref string) map[string]any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	shape := d.root
	for name := range strings.SplitSeq(path, "/") {
		shape = object(shape[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)])
	}
	return shape
}

// misfit returns nil where value fits s.
func (d *document) misfit(s, value any, at []string) *misfit {
	if s == false {
		return &misfit{at, "is not allowed"}
	}
	if d.depth++; d.depth > maxDepth {
		d.depth--
		return nil
	}
	defer func() { d.depth-- }()
	shape := d.resolve(s)
	if !typed(shape["type"], value) || !listed(shape, value) {
		return &misfit{at, "has a value that is not allowed"}
	}
	for _, part := range list(shape["allOf"]) {
		if bad := d.misfit(part, value, at); bad != nil {
			return bad
		}
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		if alternatives := list(shape[choice]); alternatives != nil && len(d.fitting(alternatives, value)) == 0 {
			return &misfit{at, "has a value that is not allowed"}
		}
	}
	switch v := value.(type) {
	case map[string]any:
		return d.misfitMember(shape, v, at)
	case []any:
		for i, element := range v {
			if bad := d.misfit(shape["items"], element, append(slices.Clone(at), strconv.Itoa(i))); bad != nil {
				return bad
			}
		}
	}
	return nil
}

func (d *document) misfitMember(shape, value map[string]any, at []string) *misfit {
	for _, name := range list(shape["required"]) {
		if _, there := value[fmt.Sprint(name)]; !there {
			return &misfit{append(slices.Clone(at), fmt.Sprint(name)), "is required"}
		}
	}
	members := object(shape["properties"])
	for _, name := range slices.Sorted(maps.Keys(value)) {
		s, named := members[name]
		if more, ok := shape["additionalProperties"]; !named && ok && more != false { // unknown tells of the others
			s = more
		}
		if bad := d.misfit(s, value[name], append(slices.Clone(at), name)); bad != nil {
			return bad
		}
	}
	return nil
}

// fitting returns the alternatives that value fits.
func (d *document) fitting(alternatives []any, value any) []any {
	var fits []any
	for _, s := range alternatives {
		if d.misfit(s, value, nil) == nil {
			fits = append(fits, s)
		}
	}
	return fits
}

// shapes flattens references and alternatives. Of alternatives those count that value
// fits, or all where it fits none.
func (d *document) shapes(s, value any) []map[string]any {
	shape := d.resolve(s)
	if d.depth++; shape == nil || d.depth > maxDepth {
		d.depth--
		return nil
	}
	defer func() { d.depth-- }()
	shapes := []map[string]any{shape}
	for _, part := range list(shape["allOf"]) {
		shapes = append(shapes, d.shapes(part, value)...)
	}
	for _, choice := range []string{"anyOf", "oneOf"} {
		alternatives := list(shape[choice])
		fits := d.fitting(alternatives, value)
		if len(fits) == 0 {
			fits = alternatives
		}
		for _, part := range fits {
			shapes = append(shapes, d.shapes(part, value)...)
		}
	}
	return shapes
}

// typed tells whether value is of one of the types, which may be a word, a list of
// them, or nothing.
func typed(types, value any) bool {
	if one, ok := types.(string); ok {
		types = []any{one}
	}
	all := list(types)
	if all == nil {
		return true
	}
	number, isNumber := value.(float64)
	return slices.Contains(all, any(typeOf(value))) || isNumber && number == float64(int64(number)) && slices.Contains(all, any("integer"))
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// listed tells whether value is one that enum or const allow.
func listed(shape map[string]any, value any) bool {
	if one, ok := shape["const"]; ok && !reflect.DeepEqual(one, value) {
		return false
	}
	all := list(shape["enum"])
	return all == nil || slices.ContainsFunc(all, func(one any) bool { return reflect.DeepEqual(one, value) })
}
