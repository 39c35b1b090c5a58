package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ostoolkit/internal/wire"
)

// Append writes events by hand; encoding/json must read back what was put in, and
// would have written the strings in the same way.
func TestAppendedEventsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		ev := &wire.Event{
			Time: wire.At(time.UnixMilli(rapid.Int64Range(0, 1<<41).Draw(t, "time"))), Seq: rapid.Int64().Draw(t, "seq"),
			RunID: "r", Session: wire.Text(text.Draw(t, "session")), Event: wire.EventMessageDelta,
			Summary: text.Draw(t, "summary"), Members: &wire.Item{Item: "i", Text: text.Draw(t, "text")},
		}
		line, err := wire.Append([]byte("before "), ev)
		if err != nil {
			t.Fatal(err)
		}
		line = bytes.TrimPrefix(line, []byte("before "))
		rec, err := wire.Decode(line, "")
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, item := rec.(*wire.Event), &wire.Item{}
		if err := got.As(item); err != nil {
			t.Fatal(err)
		}
		want := ev.Members.(*wire.Item)
		if got.Time != ev.Time || got.Seq != ev.Seq || got.Session != ev.Session || got.Summary != ev.Summary || *item != *want {
			t.Fatalf("%s was read as %+v with %+v", line, got, item)
		}
		quoted, err := wire.Encode(want.Text)
		if err != nil || !bytes.HasSuffix(line, append(append([]byte(`,"text":`), quoted...), '}')) {
			t.Fatalf("%s does not end in %s, %v", line, quoted, err)
		}
	})
}

func TestAppendKeepsTheMembersOfEvents(t *testing.T) {
	at := wire.At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	const head = `{"v":1,"type":"event","time":"2026-01-02T03:04:05.006Z","seq":7,"run_id":"r","issue_id":null,"identifier":"A-1","session":"s","turn":null,"event":"x","summary":"a <b>"`
	tests := []struct {
		members any
		raw     string
		tail    string
	}{
		{nil, "", `}`},
		{&wire.Item{Text: "\"\\\n\t\r\x01é<&>"}, "", `,"item":null,"text":"\"\\\n\t\r\u0001é<&>"}`},
		{&wire.Turn{Number: 1}, "", `,"number":1,"status":null,"duration_ms":null}`},
		{json.RawMessage(`{}`), "", `}`},
		{&wire.Item{Item: "i"}, `{"a": 1}`, `,"raw":{"a":1},"item":"i","text":""}`},
	}
	for _, tt := range tests {
		ev := &wire.Event{Time: at, Seq: 7, RunID: "r", Identifier: "A-1", Session: "s", Event: "x", Summary: "a <b>", Members: tt.members}
		ev.Raw = json.RawMessage(tt.raw)
		if got, err := wire.Append(nil, ev); err != nil || string(got) != head+tt.tail {
			t.Errorf("got  %s, %v\nwant %s", got, err, head+tt.tail)
		}
	}
}

func TestAppendLeavesTheBufferOnAnError(t *testing.T) {
	bad := &wire.Event{Members: json.RawMessage(`{`)}
	if got, err := wire.Append([]byte("a"), bad); err == nil || string(got) != "a" {
		t.Errorf("got %q, %v", got, err)
	}
}
