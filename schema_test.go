package ostoolkit_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

var (
	someTime = wire.At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	someRaw  = json.RawMessage(`{"any":["json",1,null]}`)
)

// eventMembers holds, for each name of an event, the type of what it has besides.
var eventMembers = map[string]any{
	wire.EventSessionPlanned:    &wire.Session{},
	wire.EventSessionStarted:    &wire.Session{},
	wire.EventSessionResumed:    &wire.Session{},
	wire.EventContextLost:       &wire.Session{},
	wire.EventTurnStarted:       &wire.Turn{},
	wire.EventTurnCompleted:     &wire.Turn{},
	wire.EventMessage:           &wire.Item{},
	wire.EventMessageDelta:      &wire.Item{},
	wire.EventReasoning:         &wire.Item{},
	wire.EventPlan:              &wire.Item{},
	wire.EventDiff:              &wire.Item{},
	wire.EventCommandStarted:    &wire.Command{},
	wire.EventCommandOutput:     &wire.Command{},
	wire.EventCommandCompleted:  &wire.Command{},
	wire.EventFileChanged:       &wire.FileChange{},
	wire.EventToolCalled:        &wire.Tool{},
	wire.EventToolCompleted:     &wire.Tool{},
	wire.EventUsage:             &wire.Tokens{},
	wire.EventRateLimits:        &wire.Limits{},
	wire.EventApprovalRequested: &wire.ApprovalChange{},
	wire.EventApprovalResolved:  &wire.ApprovalChange{},
	wire.EventInputRequested:    &wire.InputChange{},
	wire.EventInputResolved:     &wire.InputChange{},
	wire.EventSteerSent:         &wire.Steer{},
	wire.EventSteerAccepted:     &wire.Steer{},
	wire.EventSteerConsumed:     &wire.Steer{},
	wire.EventSteerRefused:      &wire.Steer{},
	wire.EventRetrying:          &wire.Notice{},
	wire.EventWarning:           &wire.Notice{},
	wire.EventStalled:           &wire.Notice{},
	wire.EventSuspended:         &wire.Notice{},
	wire.EventFallback:          &wire.Notice{},
	wire.EventPeer:              &wire.PeerNotice{},
}

// chosen are the members that take a value of a closed list or are a time: what a
// full record has there, by Go type and field.
var chosen = map[string]any{
	"Issue.StateKind":       "started",
	"Issue.Category":        wire.CategoryActive,
	"Listing.Category":      wire.CategoryOther,
	"Listing.Action":        wire.SweepKept,
	"Listing.Reason":        wire.KeptBusy,
	"RunRef.Status":         "ended",
	"Route.Source":          wire.Text("rule"),
	"Workspace.Path":        "/w/ABC-1",
	"Workspace.StateDir":    "/s/ABC-1",
	"Outcome.Outcome":       wire.Failed,
	"OutcomeError.Category": wire.CauseProvider,
	"Loop.Event":            "tick",
	"Loop.Outcome":          wire.Cancelled,
	"Session.PromptKind":    wire.Text("full"),
	"Turn.Status":           wire.Text("completed"),
	"Tool.Source":           "host",
	"Approval.Kind":         "file_write",
	"Approval.Risk":         "low",
}

// fill gives every member of v a value, without choosing the event's own.
func fill(v reflect.Value, path string) {
	if want, ok := chosen[path]; ok {
		v.Set(reflect.ValueOf(want))
		return
	}
	switch v.Interface().(type) {
	case wire.Time:
		v.Set(reflect.ValueOf(someTime))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(someRaw))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64, reflect.Int:
		v.SetInt(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name)
		}
	}
}

// full returns a record of the same type with every member set.
func full[R wire.Record](zero R) R {
	fill(reflect.ValueOf(zero).Elem(), "")
	return zero
}

// least holds records with nothing but what is never empty.
func least() []wire.Record {
	return []wire.Record{
		&wire.Issue{ID: "1", Identifier: "A-1", StateKind: "unknown", Category: wire.CategoryOther, Tracker: "folder"},
		&wire.Gone{ID: "1"},
		&wire.Comment{ID: "1"},
		&wire.Summary{Tracker: "folder"},
		&wire.Workspace{Key: "A-1", Path: "/w", StateDir: "/s"},
		&wire.Outcome{Time: someTime, RunID: "r", Outcome: wire.Succeeded},
		&wire.Loop{Time: someTime, Event: "tick"},
	}
}

func TestSchemasMatchRecords(t *testing.T) {
	records := append(least(),
		full(&wire.Issue{}), full(&wire.Gone{}), full(&wire.Comment{}), full(&wire.Summary{}),
		full(&wire.Workspace{}), full(&wire.Outcome{}), full(&wire.Loop{}))
	for name, members := range eventMembers {
		fill(reflect.ValueOf(members).Elem(), "")
		records = append(records,
			&wire.Event{Time: someTime, Seq: 1, RunID: "r", Event: name, Summary: "told", Members: members, Raw: someRaw})
	}
	for _, rec := range records {
		line, err := wire.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkRecord(string(line)); err != nil {
			t.Errorf("%v\n\t%s", err, line)
		}
	}
}

// The schemas would be no check at all if they let everything pass.
func TestSchemasRefuse(t *testing.T) {
	for _, rec := range append(least(), full(&wire.Workspace{}), full(&wire.Outcome{})) {
		line, err := wire.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		var whole map[string]any
		if err := json.Unmarshal(line, &whole); err != nil {
			t.Fatal(err)
		}
		for name := range whole {
			if name == "type" || optionalMembers[name] {
				continue
			}
			if err := checkRecord(with(t, whole, name, nil, true)); err == nil {
				t.Errorf("%s without %q passes", whole["type"], name)
			}
			if err := checkRecord(with(t, whole, name, []any{[]any{}}, false)); err == nil && name != "native_ref" {
				t.Errorf("%s with a list in a list as %q passes", whole["type"], name)
			}
		}
		if err := checkRecord(with(t, whole, "unheard_of", 1, false)); err == nil {
			t.Errorf("%s with an unknown member passes", whole["type"])
		}
	}
}

var optionalMembers = map[string]bool{"prompt": true, "bytes": true, "locked": true, "category": true}

// with returns a copy of a record with a member set or dropped.
func with(t *testing.T, whole map[string]any, name string, value any, drop bool) string {
	t.Helper()
	changed := map[string]any{}
	for k, v := range whole {
		if k != name || !drop {
			changed[k] = v
		}
	}
	if !drop {
		changed[name] = value
	}
	b, err := json.Marshal(changed)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestSchemasRefuseEvents(t *testing.T) {
	const head = `{"v":1,"type":"event","time":"2026-01-02T03:04:05.006Z","seq":1,"run_id":"r","issue_id":null,` +
		`"identifier":null,"session":null,"turn":null,"summary":"",`
	for line, ok := range map[string]bool{
		head + `"event":"message","item":null,"text":""}`:                                                       true,
		head + `"event":"message","item":null}`:                                                                 false,
		head + `"event":"message","item":null,"text":"","number":1}`:                                            false,
		head + `"event":"turn.started","number":1,"status":null,"duration_ms":null}`:                            true,
		head + `"event":"turn.started","number":1,"status":7,"duration_ms":null}`:                               false,
		head + `"event":"unheard.of"}`:                                                                          false,
		strings.Replace(head, `"summary":""`, `"summary":"a\tb"`, 1) + `"event":"diff","item":"","text":"x"}`:   false,
		strings.Replace(head, `006Z`, `006+01:00`, 1) + `"event":"diff","item":null,"text":"x"}`:                false,
		strings.Replace(head, `"seq":1`, `"seq":0`, 1) + `"event":"diff","item":null,"text":"x"}`:               false,
		strings.Replace(head, `"turn":null`, `"turn":""`, 1) + `"event":"diff","item":null,"text":"x"}`:         false,
		head + `"event":"steer.sent","request":"1","kind":"steer","reason":null,"raw":{"method":"turn/steer"}}`: true,
	} {
		if err := checkRecord(line); (err == nil) != ok {
			t.Errorf("passes %t, want %t: %v\n\t%s", err == nil, ok, err, line)
		}
	}
}

// Each schema file is a whole one, and is the schema of a record of ours or shared.
func TestSchemaFiles(t *testing.T) {
	all, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if name == "common" {
			continue
		}
		if _, err := wire.Decode([]byte(`{"v":1,"type":"`+name+`"}`), ""); err != nil {
			t.Errorf("schema %q: %v", name, err)
		} else if rec, _ := wire.Decode([]byte(`{"v":1,"type":"`+name+`"}`), ""); reflect.TypeOf(rec) == reflect.TypeOf(&wire.Unknown{}) {
			t.Errorf("schema %q is of no record of ours", name)
		}
		text, err := os.ReadFile(filepath.Join("schema", name+".json"))
		if err != nil || !strings.Contains(string(text), "draft/2020-12/schema") {
			t.Errorf("schema %q names no draft (%v)", name, err)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d schemas, want one for each of 8 records and common", len(all))
	}
}

func TestCheckLines(t *testing.T) {
	event := func(seq string) string {
		return `{"v":1,"type":"event","time":"2026-01-02T03:04:05.006Z","seq":` + seq + `,"run_id":"r","issue_id":null,` +
			`"identifier":null,"session":null,"turn":null,"event":"diff","summary":"","item":null,"text":""}` + "\n"
	}
	outcome, err := wire.Marshal(&wire.Outcome{Time: someTime, RunID: "r", Outcome: wire.Succeeded})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                                     "",
		event("1") + event("2"):                "",
		event("4") + event("5"):                "",
		`{"type":"of somebody else"}` + "\n":   "",
		event("1") + event("3"):                "line 2: seq 3 comes after 1",
		string(outcome) + "\n" + event("1"):    "line 2: an event behind its run's outcome",
		event("1") + strings.TrimSpace("{} "):  "the last line has no end",
		"help\n":                               "line 1: not JSON",
		"[1]\n":                                "line 1: not a JSON object",
		`{"v":1,"type":"gone","id":""}` + "\n": "line 1: jsonschema validation failed",
	} {
		got := strings.Join(checkLines(text), "\n")
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
