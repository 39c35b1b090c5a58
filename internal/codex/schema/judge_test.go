package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// small is a schema in the manner of Codex.
const small = `{
 "$schema": "http://json-schema.org/draft-07/schema#",
 "oneOf": [
  {"properties": {"method": {"enum": ["start"], "type": "string"}, "params": {"$ref": "#/definitions/Start"}}, "type": "object"},
  {"properties": {"method": {"enum": ["bare"], "type": "string"}}, "type": "object"},
  {"properties": {"method": {"enum": ["ring"], "type": "string"}, "params": {"$ref": "#/definitions/Ring"}}, "type": "object"},
  {"properties": {"method": {"enum": ["self"], "type": "string"}, "params": {"$ref": "#/definitions/Self"}}, "type": "object"}
 ],
 "definitions": {
  "Ring": {"$ref": "#/definitions/Ring"},
  "Self": {"anyOf": [{"$ref": "#/definitions/Self"}]},
  "Policy": {"oneOf": [
    {"enum": ["never", "always"], "type": "string"},
    {"additionalProperties": false, "properties": {"rules": {"type": "boolean"}}, "required": ["rules"], "type": "object"}]},
  "Input": {"oneOf": [
    {"properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}, "required": ["type", "text"], "type": "object"},
    {"properties": {"type": {"enum": ["image"]}, "url": {"type": "string"}}, "required": ["type", "url"], "type": "object"}]},
  "Start": {
   "properties": {
    "cwd": {"type": ["string", "null"]},
    "limit": {"type": "integer"},
    "config": {"additionalProperties": true, "type": ["object", "null"]},
    "policy": {"anyOf": [{"$ref": "#/definitions/Policy"}, {"type": "null"}]},
    "input": {"items": {"$ref": "#/definitions/Input"}, "type": "array"},
    "labels": {"additionalProperties": {"type": "string"}, "type": "object"},
    "any": true,
    "tool": {"allOf": [{"properties": {"name": {"type": "string"}}, "required": ["name"], "type": "object"}]}
   },
   "required": ["input"], "type": "object"}}}`

type obj = map[string]any

func TestJudge(t *testing.T) {
	text := []any{obj{"type": "text", "text": "x"}}
	tests := []struct {
		name   string
		method string
		params any
		want   string
	}{
		{"all", "start", obj{"cwd": nil, "limit": 3, "policy": "never", "input": text, "config": obj{"a": obj{"b": 1}}, "labels": obj{"l": "v"}, "any": obj{"x": 1}, "tool": obj{"name": "n"}}, ""},
		{"the other form", "start", obj{"input": text, "policy": obj{"rules": true}}, ""},
		{"method", "steer", obj{}, "steer: unknown method"},
		{"no params", "bare", obj{}, "bare: takes no params"},
		{"member", "start", obj{"input": text, "extra": 1}, `start: "extra" is unknown`},
		{"member deep down", "start", obj{"input": []any{obj{"type": "text", "text": "x", "url": "u"}}}, `start: "input.0.url" is unknown`},
		{"member of a form", "start", obj{"input": text, "policy": obj{"rules": true, "more": 1}}, `start: "policy.more" is unknown`},
		{"member of a part", "start", obj{"input": text, "tool": obj{"name": "n", "old": 1}}, `start: "tool.old" is unknown`},
		{"missing", "start", obj{}, `start: "input" is required`},
		{"missing in a part", "start", obj{"input": text, "tool": obj{}}, `start: "tool.name" is required`},
		{"type", "start", obj{"input": text, "cwd": 1}, `start: "cwd" has a value that is not allowed`},
		{"no integer", "start", obj{"input": text, "limit": 1.5}, `start: "limit" has a value that is not allowed`},
		{"word", "start", obj{"input": text, "policy": "sometimes"}, `start: "policy" has a value that is not allowed`},
		{"value of a free member", "start", obj{"input": text, "labels": obj{"l": 1}}, `start: "labels.l" has a value that is not allowed`},
		{"a ring", "ring", obj{"x": 1}, ""},
		{"a ring of alternatives", "self", obj{"x": 1}, ""},
	}
	for _, tt := range tests {
		problems, err := judge([]byte(small), []Request{{tt.method, tt.params}})
		if got := (&Verdict{Problems: problems}).String(); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestJudgeRefusesWhatIsNoSchema(t *testing.T) {
	for _, text := range []string{"", "[]", "{}", `{"oneOf":[1,{"properties":{"method":{"enum":[2]}}}]}`, "{"} {
		if problems, err := judge([]byte(text), nil); err == nil {
			t.Errorf("%q: %v", text, problems)
		}
	}
}

// The library for all of JSON Schema says the same of every value, except that a member
// which additionalProperties forbids is unknown to us and invalid to it.
func TestJudgeAgreesWithTheLibrary(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("small.json", doc); err != nil {
		t.Fatal(err)
	}
	library := c.MustCompile("small.json#/definitions/Start")
	ours, params, err := open([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		value, err := plain(someValue(t, 4))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		same, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		want := library.Validate(same) == nil
		got := ours.misfit(params["start"], value, nil) == nil && len(forbidden(ours, params["start"], value)) == 0
		if got != want {
			t.Fatalf("%s fits: %t, the library says %t", text, got, want)
		}
	})
}

// forbidden are the unknown members of a closed object.
func forbidden(d *document, s, value any) []string {
	var closed []string
	for _, member := range d.unknown(s, value, nil) {
		if strings.HasPrefix(member, "policy.") {
			closed = append(closed, member)
		}
	}
	return closed
}

// someValue draws a value from the words that the schema knows.
func someValue(t *rapid.T, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "bool")
	case 2:
		return rapid.SampledFrom([]float64{1, 1.5}).Draw(t, "number")
	case 3, 4, 5:
		return rapid.SampledFrom([]string{"never", "text", "image", "other"}).Draw(t, "word")
	case 6:
		return []any{someValue(t, depth-1)}
	}
	o := obj{}
	names := []string{"cwd", "limit", "config", "policy", "input", "labels", "any", "tool", "type", "text", "url", "rules", "name", "extra"}
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		o[rapid.SampledFrom(names).Draw(t, "name")] = someValue(t, depth-1)
	}
	if rapid.Bool().Draw(t, "with input") {
		o["input"] = []any{obj{"type": "text", "text": "x"}}
	}
	return o
}

func TestVerdictNamesFive(t *testing.T) {
	var v Verdict
	for i := range 7 {
		v.Problems = append(v.Problems, Problem{"m", fmt.Sprint(i), "is unknown"})
	}
	text := v.String()
	if strings.Count(text, "is unknown") != maxTold || !strings.HasSuffix(text, "; and 2 more") {
		t.Errorf("%q", text)
	}
}

func TestGenerator(t *testing.T) {
	tests := []struct{ command, want string }{
		{"codex app-server", "codex app-server generate-json-schema"},
		{"codex app-server -c model=x --listen y", "codex app-server generate-json-schema"},
		{"codex -c a=b --strict app-server", "codex -c a=b --strict app-server generate-json-schema"},
		{"codex --config app-server app-server", "codex --config app-server app-server generate-json-schema"},
		{"env A=b codex app-server", ""},
		{"docker run image codex app-server", ""},
		{"os-codex rehearse", ""},
		{"codex -- app-server", ""},
		{"app-server", ""},
		{"codex", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(Generator(strings.Fields(tt.command)), " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.command, got, tt.want)
		}
	}
	if got := Generator([]string{"bash", "-lc", "codex app-server | tee log"}); got != nil {
		t.Errorf("a shell's command: %q", got)
	}
	argv := []string{"codex", "app-server", "-c", "x"}
	if Generator(argv); !reflect.DeepEqual(argv, []string{"codex", "app-server", "-c", "x"}) {
		t.Errorf("the command was changed: %q", argv)
	}
}
