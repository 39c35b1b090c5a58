package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// judge checks each request against the schema of all requests: that the method is
// there, that its params are valid, and that each member we send is a known one, since
// the app-server silently drops those that are not.
func judge(text []byte, requests []Request) ([]Problem, error) {
	doc, params, err := open(text)
	if err != nil {
		return nil, fmt.Errorf("read the schema: %v", err)
	}
	var found []Problem
	for _, r := range requests {
		s, known := params[r.Method]
		if !known || s == nil {
			found = append(found, Problem{Method: r.Method, Text: noParams(known)})
			continue
		}
		value, err := plain(r.Params)
		if err != nil {
			return nil, fmt.Errorf("encode our %s: %v", r.Method, err)
		}
		if bad := doc.misfit(s, value, nil); bad != nil {
			found = append(found, Problem{r.Method, strings.Join(bad.at, "."), bad.text})
		}
		for _, member := range doc.unknown(s, value, nil) {
			found = append(found, Problem{r.Method, member, "is unknown"})
		}
	}
	return found, nil
}

func noParams(method bool) string {
	if method {
		return "takes no params"
	}
	return "unknown method"
}

// plain is a value as it is once it has been sent and read.
func plain(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var value any
	return value, json.Unmarshal(text, &value)
}

// open returns the schema and, by method, the part of it that is for the params; nil
// where a method has none.
func open(text []byte) (*document, map[string]any, error) {
	doc := &document{}
	if err := json.Unmarshal(text, &doc.root); err != nil {
		return nil, nil, err
	}
	params := make(map[string]any)
	for _, one := range list(doc.root["oneOf"]) {
		members := object(object(one)["properties"])
		for _, method := range list(object(members["method"])["enum"]) {
			if name, ok := method.(string); ok {
				params[name] = members["params"]
			}
		}
	}
	if len(params) == 0 {
		return nil, nil, errors.New("it names no method")
	}
	return doc, params, nil
}

// object and list are nil where v is something else.
func object(v any) map[string]any { m, _ := v.(map[string]any); return m }
func list(v any) []any            { l, _ := v.([]any); return l }

// unknown returns the members of value, at any depth, that no shape of s names.
func (d *document) unknown(s, value any, at []string) []string {
	var found []string
	shapes := d.shapes(s, value)
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			path := append(slices.Clone(at), name)
			if member, known := member(shapes, name); known {
				found = append(found, d.unknown(member, v[name], path)...)
			} else {
				found = append(found, strings.Join(path, "."))
			}
		}
	case []any:
		for _, shape := range shapes {
			for i, element := range v {
				found = append(found, d.unknown(shape["items"], element, append(slices.Clone(at), strconv.Itoa(i)))...)
			}
		}
	}
	return found
}

// member looks a member up in all shapes of an object. Shapes that name no members at
// all allow any.
func member(shapes []map[string]any, name string) (s any, known bool) {
	named := false
	for _, shape := range shapes {
		members := object(shape["properties"])
		if s, ok := members[name]; ok {
			return s, true
		}
		named = named || len(members) > 0
		switch more := shape["additionalProperties"].(type) {
		case map[string]any:
			return more, true
		case bool:
			if more {
				return nil, true
			}
			named = true
		}
	}
	return nil, !named
}
