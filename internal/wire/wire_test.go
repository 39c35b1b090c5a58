package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

func TestMarshalBeginsWithVersionAndType(t *testing.T) {
	line, err := wire.Marshal(&wire.Gone{ID: "<a&b>\u2028\x00\xff"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"v":1,"type":"gone","id":"<a&b>\u2028\u0000\ufffd"}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestUnknownNumbersTimesAndTextsAreNull(t *testing.T) {
	line, err := wire.Marshal(&wire.Issue{ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"priority": "null", "description": "null", "created_at": "null", "native_ref": "null",
		"parent": "null", "trusted": "null", "labels": "[]", "blocked_by": "[]", "children": "[]",
	} {
		if string(members[name]) != want {
			t.Errorf("%s is %s, want %s", name, members[name], want)
		}
	}
}

func TestTime(t *testing.T) {
	var at wire.Time
	if err := json.Unmarshal([]byte(`"2026-11-30T12:00:00.123456+02:00"`), &at); err != nil {
		t.Fatal(err)
	}
	if b, _ := json.Marshal(at); string(b) != `"2026-11-30T10:00:00.123Z"` {
		t.Errorf("got %s", b)
	}
	if err := json.Unmarshal([]byte(`"yesterday"`), &at); err == nil {
		t.Error("a word was taken for a time")
	}
	if err := json.Unmarshal([]byte(`null`), &at); err != nil || !at.IsZero() {
		t.Errorf("null is %v, %v", at, err)
	}
}

func TestDecode(t *testing.T) {
	tests := []struct{ line, implied, want string }{
		{`{"v":1,"type":"gone","id":"7"}`, "", "gone"},
		{`{"type":"gone","id":"7","extra":[1]}`, "", "gone"},
		{`{"id":"7"}`, "gone", "gone"},
		{`{"v":2,"type":"gone","id":"7"}`, "", "unknown"},
		{`{"v":1,"type":"weather","x":1}`, "", "unknown"},
		{`{"v":1,"TYPE":"weather","type":"gone","ID":"8","id":"7"}`, "", "gone"},
		{`{"id":"7"}`, "", "error"},
		{`{"v":"1","type":"gone"}`, "", "error"},
		{`{"v":1,"type":7}`, "", "error"},
		{`{"v":1,"type":"gone","id":7}`, "", "error"},
		{`null`, "gone", "error"},
		{`[]`, "gone", "error"},
		{`{}{}`, "gone", "error"},
		{`{"id":`, "gone", "error"},
	}
	for _, tt := range tests {
		rec, err := wire.Decode([]byte(tt.line), tt.implied)
		got := "error"
		switch r := rec.(type) {
		case *wire.Gone:
			got = "gone"
			if r.ID != "7" {
				t.Errorf("%s: id %q", tt.line, r.ID)
			}
		case *wire.Unknown:
			got = "unknown"
			if out, _ := wire.Marshal(r); string(out) != tt.line {
				t.Errorf("%s was changed to %s", tt.line, out)
			}
		}
		if got != tt.want || (err != nil) != (tt.want == "error") {
			t.Errorf("%s: %s, %v, want %s", tt.line, got, err, tt.want)
		}
	}
}

func TestEventMembersShareTheObject(t *testing.T) {
	e := &wire.Event{Seq: 3, RunID: "r", Event: wire.EventTurnStarted, Members: wire.Turn{Number: 2}}
	line, err := wire.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(line, []byte(`"summary":"","number":2,"status":null,"duration_ms":null}`)) {
		t.Errorf("got %s", line)
	}
	rec, err := wire.Decode(line, "")
	if err != nil {
		t.Fatal(err)
	}
	var turn wire.Turn
	if back := rec.(*wire.Event); back.Seq != 3 || back.As(&turn) != nil || turn.Number != 2 {
		t.Errorf("read back %+v, %+v", rec, turn)
	}
}

func TestOutcomeStatuses(t *testing.T) {
	tests := []struct {
		outcome, category string
		want              int
	}{
		{wire.Succeeded, "", 0}, {wire.Failed, "", 1}, {wire.Failed, wire.CauseProvider, 1},
		{wire.Failed, wire.CauseHookFailed, 1}, {wire.Failed, wire.CauseAuth, 77}, {wire.Failed, wire.CausePermission, 77},
		{wire.Failed, wire.CauseUnavailable, 69}, {wire.Failed, wire.CauseNotFound, 69}, {wire.Failed, wire.CauseProtocol, 70},
		{wire.Failed, wire.CauseConfig, 78}, {wire.Failed, wire.CauseState, 73}, {wire.InputRequired, "", 10},
		{wire.Stalled, "", 11}, {wire.TimedOut, "", 12}, {wire.BudgetExceeded, "", 13},
		{wire.Cancelled, wire.CauseShutdown, 14}, {wire.RateLimited, "", 75}, {wire.Interrupted, "", 1}, {"made_up", "", 1},
	}
	for _, tt := range tests {
		o := &wire.Outcome{Outcome: tt.outcome}
		if tt.category != "" {
			o.Error = &wire.OutcomeError{Category: tt.category}
		}
		if got := o.ExitStatus(); got != tt.want {
			t.Errorf("%s/%s: status %d, want %d", tt.outcome, tt.category, got, tt.want)
		}
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	tests := []struct {
		name, in string
		limit    int
		want     []string // "!" before a line with a problem
	}{
		{"plain", "a\nb\n", 10, []string{"a", "b"}},
		{"CRLF and blank lines", "a\r\n\n\r\nb\n", 10, []string{"a", "b"}},
		{"torn tail", "a\nb", 10, []string{"a", "!b"}},
		{"torn tail that ends in CR", "b\r", 10, []string{"!b\r"}},
		{"U+2028, NUL and bad UTF-8 are no line ends", "a\u2028\x00\xffb\n", 20, []string{"a\u2028\x00\xffb"}},
		{"at the limit", "12345\n", 5, []string{"12345"}},
		{"over the limit, then on", "123456\nb\n", 5, []string{"!", "b"}},
		{"longer than any buffer", long + "\nb\n", 300 << 10, []string{long, "b"}},
		{"longer than any buffer and the limit", long + "\nb\n", 100 << 10, []string{"!", "b"}},
		{"torn and over the limit", "a\n" + long, 100 << 10, []string{"a", "!"}},
		{"empty", "", 5, nil},
	}
	for _, tt := range tests {
		r := wire.NewReader(strings.NewReader(tt.in), tt.limit)
		var got []string
		for {
			line, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text := string(line.Bytes)
			if line.Err != nil {
				text = "!" + text
			}
			got = append(got, text)
		}
		if strings.Join(got, "|") != strings.Join(tt.want, "|") {
			t.Errorf("%s: got %.80q, want %.80q", tt.name, got, tt.want)
		}
	}
}

func TestReaderCountsBlankLines(t *testing.T) {
	r := wire.NewReader(strings.NewReader("\n\nc\n"), 10)
	if line, err := r.Next(); err != nil || line.Number != 3 {
		t.Errorf("number %d, %v", line.Number, err)
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{"a\nb", "\r\n", "{\"v\":1}\n{", "\x00\xff\n", strings.Repeat("y", 70000) + "\nz\n"} {
		f.Add([]byte(seed), 16)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		if limit < 1 || limit > 1<<20 {
			return
		}
		r := wire.NewReader(bytes.NewReader(data), limit)
		before := 0
		for {
			line, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if line.Number <= before {
				t.Fatalf("line %d after line %d", line.Number, before)
			}
			before = line.Number
			if len(line.Bytes) > limit+1 || bytes.ContainsRune(line.Bytes, '\n') {
				t.Fatalf("line of %d bytes with limit %d", len(line.Bytes), limit)
			}
			_, _ = wire.Decode(line.Bytes, "issue") // it must not panic; most input is an error
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"type":"event","event":"message","time":"2026-11-30T12:00:00Z"}`))
	f.Add([]byte(`{"v":1,"type":"outcome","usage":{"total_tokens":9007199254740993}}`))
	f.Add([]byte(`{"type":"workspace","issue":{"labels":null},"locked":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := wire.Decode(data, "issue")
		if err != nil {
			return
		}
		line, err := wire.Marshal(rec)
		if err != nil {
			t.Fatalf("%q was read as %#v, which cannot be written: %v", data, rec, err)
		}
		if _, err := wire.Decode(line, "issue"); err != nil {
			t.Fatalf("%q cannot be read again: %v", line, err)
		}
	})
}

func TestRecords(t *testing.T) {
	in := "{\"id\":\"1\"}\n{broken\n{\"id\":\"2\"}"
	var got []string
	for r := range wire.Records(context.Background(), strings.NewReader(in), "gone") {
		if r.Err != nil {
			got = append(got, "bad line")
			if r.Number != 2 {
				t.Errorf("bad line %d", r.Number)
			}
			continue
		}
		got = append(got, r.Record.(*wire.Gone).ID)
	}
	if strings.Join(got, " ") != "1 bad line 2" {
		t.Errorf("got %q", got)
	}
}

func TestRecordsCanBeAbandoned(t *testing.T) {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	records := wire.Records(ctx, r, "gone")
	cancel()
	defer func() { _ = w.Close() }() // only now does the read return
	for in := range records {
		t.Errorf("an input after the end: %+v", in)
	}
}

type countingWriter struct{ writes []string }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func TestWriterWritesALineAtOnce(t *testing.T) {
	out := &countingWriter{}
	w := wire.NewWriter(out)
	for _, rec := range []wire.Record{&wire.Gone{ID: "1"}, &wire.Unknown{Type: "x", Raw: []byte(`{"type":"x", "y":1}`)}} {
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"{\"v\":1,\"type\":\"gone\",\"id\":\"1\"}\n", "{\"type\":\"x\", \"y\":1}\n"}
	if strings.Join(out.writes, "|") != strings.Join(want, "|") {
		t.Errorf("got %q", out.writes)
	}
	if err := w.Write(&wire.Comment{Body: strings.Repeat("x", wire.MaxRecord)}); err == nil || len(out.writes) != 2 {
		t.Errorf("a record over the limit: %v", err)
	}
}

func TestAtCutsToMilliseconds(t *testing.T) {
	at := wire.At(time.Date(2026, 1, 2, 3, 4, 5, 6789e3, time.FixedZone("x", 3600)))
	if at.Format(time.RFC3339Nano) != "2026-01-02T02:04:05.006Z" {
		t.Errorf("got %v", at)
	}
}
