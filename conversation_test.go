package ostoolkit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// conversationSchema compiles the schema of conversation.json, in which a member that it
// does not name is an error.
func conversationSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	for _, name := range []string{"common.json", "state/conversation.json"} {
		text, err := os.ReadFile(filepath.Join("schema", name))
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		strict(doc, true)
		if err := c.AddResource("file:///schema/"+name, doc); err != nil {
			t.Fatal(err)
		}
	}
	compiled, err := c.Compile("file:///schema/state/conversation.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func document(t *testing.T, v any) map[string]any {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestConversationSchema(t *testing.T) {
	schema := conversationSchema(t)
	least := &session.Conversation{Harness: "codex", Contract: "c", ReusePolicy: "per_issue", Cwd: "/w", CreatedAt: someTime, UpdatedAt: someTime}
	all := &session.Conversation{}
	fill(reflect.ValueOf(all).Elem(), "")
	all.ReusePolicy, all.Cwd, all.Status = "fresh_each_run", "/w", wire.Stalled
	all.Prompt = &session.PromptRecord{Kind: session.PromptRehydrate, At: someTime, Path: "/s/rehydrate.md"}
	for _, c := range []*session.Conversation{least, all} {
		if err := schema.Validate(document(t, c)); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for name := range document(t, all) {
		doc := document(t, all)
		delete(doc, name)
		if err := schema.Validate(doc); (err == nil) != (name == "extra") {
			t.Errorf("without %q: %v", name, err)
		}
		if doc[name] = []any{[]any{}}; name != "extra" && schema.Validate(doc) == nil {
			t.Errorf("a list in a list passes as %q", name)
		}
	}
	doc := document(t, all)
	doc["llm_key"] = "secret"
	if schema.Validate(doc) == nil {
		t.Error("a member without a name in the schema passes")
	}
}
