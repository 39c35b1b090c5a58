package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testPlace(t *testing.T) Place {
	t.Helper()
	dir := state.Dir(t.TempDir())
	run := dir.Run("r1")
	if err := run.Make(); err != nil {
		t.Fatal(err)
	}
	log, err := state.OpenLog(run.Events())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	ws := &wire.Workspace{Issue: &wire.Issue{ID: "1", Identifier: "A-1"}, Key: "A-1", Path: "/ws/A-1", StateDir: string(dir)}
	return Place{Workspace: ws, RunID: "r1", Run: run, State: dir, Log: log}
}

func testOutput(w io.Writer) Output {
	return Output{Stdout: w, Now: func() time.Time { return epoch }, Warn: func(string, ...any) {}}
}

// lines decodes what was printed and checks that the numbers have no gap.
func lines(t *testing.T, text string) []wire.Record {
	t.Helper()
	var records []wire.Record
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		rec, err := wire.Decode([]byte(line), "")
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if ev, ok := rec.(*wire.Event); ok && ev.Seq != int64(i+1) {
			t.Fatalf("line %d has seq %d", i+1, ev.Seq)
		}
		records = append(records, rec)
	}
	return records
}

func TestStdoutIsACopyOfTheLog(t *testing.T) {
	var out bytes.Buffer
	p := testPlace(t)
	e, err := NewEmitter(p, testOutput(&out))
	if err != nil {
		t.Fatal(err)
	}
	e.Session("T1")
	e.Turn("U1")
	e.Emit(wire.EventMessage, &wire.Item{Item: "i", Text: "hello"}, nil)
	if err := e.Outcome(&wire.Outcome{RunID: "r1", Outcome: wire.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(p.Run.Events())
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(log) {
		t.Errorf("stdout\n%s\nlog\n%s", out.String(), log)
	}
	ev := lines(t, out.String())[0].(*wire.Event)
	if ev.Session != "T1" || ev.Turn != "U1" || ev.Identifier != "A-1" || ev.Summary != "hello" {
		t.Errorf("event %+v", ev)
	}
}

// A reader that does not read must not hold the session up, and gets everything once
// it does.
func TestSlowReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := testPlace(t)
	e, err := NewEmitter(p, testOutput(w))
	if err != nil {
		t.Fatal(err)
	}
	const n = 3000 // far more than a pipe holds
	for i := range n {
		e.Emit(wire.EventMessage, &wire.Item{Text: fmt.Sprint("message ", i)}, nil)
	}
	if err := e.Outcome(&wire.Outcome{RunID: "r1", Outcome: wire.Succeeded}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		read <- string(b)
	}()
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, <-read); len(got) != n+1 {
		t.Errorf("%d records, want %d", len(got), n+1)
	}
}

// broken is a stdout whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, cli.ErrStdoutClosed }

func TestReaderHasGone(t *testing.T) {
	e, err := NewEmitter(testPlace(t), testOutput(broken{}))
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventMessage, &wire.Item{Text: "hello"}, nil)
	<-e.Gone()
	if err := e.Close(t.Context()); err != nil {
		t.Errorf("close: %v, want silence", err)
	}
}

// A log that fails in mid-run costs one warning and no record on stdout.
func TestLogFails(t *testing.T) {
	var out bytes.Buffer
	p := testPlace(t)
	o := testOutput(&out)
	warnings := 0
	o.Warn = func(string, ...any) { warnings++ }
	e, err := NewEmitter(p, o)
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventMessage, &wire.Item{Text: "one"}, nil)
	if err := p.Log.Close(); err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventMessage, &wire.Item{Text: "two"}, nil)
	e.Emit(wire.EventMessage, &wire.Item{Text: "three"}, nil)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, out.String()); len(got) != 3 || warnings != 1 {
		t.Errorf("%d records and %d warnings, want 3 and 1", len(got), warnings)
	}
}

func TestCloseIsBounded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEmitter(testPlace(t), testOutput(w))
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventMessage, &wire.Item{Text: strings.Repeat("x", 1<<20)}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("a reader that does not read is no error")
	}
	if err := r.Close(); err != nil { // lets the write that is under way go
		t.Fatal(err)
	}
	<-e.copier.done
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBriefPrintsOutcomesOnly(t *testing.T) {
	var out, people bytes.Buffer
	o := testOutput(&out)
	o.Brief, o.People = true, &people
	e, err := NewEmitter(testPlace(t), o)
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventMessage, &wire.Item{Text: "hello"}, nil)
	if err := e.Outcome(&wire.Outcome{RunID: "r1", Outcome: wire.Succeeded}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, out.String()); len(got) != 1 {
		t.Errorf("%d records on stdout, want the outcome", len(got))
	}
	if !strings.Contains(people.String(), "message            hello\n") {
		t.Errorf("people read %q", people.String())
	}
}

func TestTooLargeAnEvent(t *testing.T) {
	var out bytes.Buffer
	e, err := NewEmitter(testPlace(t), testOutput(&out))
	if err != nil {
		t.Fatal(err)
	}
	e.Emit(wire.EventDiff, &wire.Item{Text: strings.Repeat("x", wire.MaxRecord)}, nil)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var notice wire.Notice
	ev := lines(t, out.String())[0].(*wire.Event)
	if err := ev.As(&notice); err != nil {
		t.Fatal(err)
	}
	if ev.Event != wire.EventWarning || notice.Code != "too_large" {
		t.Errorf("event %s, code %s", ev.Event, notice.Code)
	}
}

func TestRawIsOnRequest(t *testing.T) {
	frame := json.RawMessage(`{"method":"x"}`)
	for _, raw := range []bool{false, true} {
		var out bytes.Buffer
		o := testOutput(&out)
		o.Raw = raw
		e, err := NewEmitter(testPlace(t), o)
		if err != nil {
			t.Fatal(err)
		}
		e.Emit(wire.EventMessage, &wire.Item{}, frame)
		if err := e.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), `"raw":{"method":"x"}`); got != raw {
			t.Errorf("raw %t: the frame is there: %t", raw, got)
		}
	}
}

func TestOutcomeCutsTheFinalText(t *testing.T) {
	p := testPlace(t)
	text := "x" + strings.Repeat("ä", wire.MaxFinalText)
	out, err := p.Outcome(Result{End: &Ending{Outcome: wire.Succeeded}, FinalText: text, Started: epoch, Ended: epoch.Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(out.FinalText); n != wire.MaxFinalText-1 || !strings.HasPrefix(text, string(out.FinalText)) {
		t.Errorf("final text of %d bytes, want the whole characters below the limit", n)
	}
	whole, err := os.ReadFile(filepath.Join(string(p.Run), "final.md"))
	if err != nil || string(whole) != text {
		t.Errorf("the whole text is not in the run folder: %v", err)
	}
	if out.DurationMS != 1000 || out.Error != nil || !out.RetryAt.IsZero() {
		t.Errorf("outcome %+v", out)
	}
}

// writes keeps each Write apart.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

func TestPiecesShareAWrite(t *testing.T) {
	var out writes
	now := epoch
	p := testPlace(t)
	p.Log = nil // stdout is the log
	o := testOutput(&out)
	o.Now = func() time.Time { return now }
	e, err := NewEmitter(p, o)
	if err != nil {
		t.Fatal(err)
	}
	piece := func(text string) { e.EmitPiece(wire.EventMessageDelta, &wire.Item{Text: text}, nil) }
	wrote := func(when string, want ...int) { // lines of each write since the last look
		t.Helper()
		var got []int
		for _, w := range out {
			got = append(got, strings.Count(w, "\n"))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: writes of %d lines, want %d", when, got, want)
		}
		out = nil
	}
	piece("a")
	piece("b")
	wrote("while more waits")
	e.Flush()
	e.Flush()
	wrote("at a flush", 2)
	piece("c")
	e.Emit(wire.EventMessage, &wire.Item{Text: "whole"}, nil)
	wrote("with another event", 2)
	piece("d")
	now = now.Add(holdTime)
	piece("e")
	wrote("after the hold time", 2)
	piece(strings.Repeat("x", maxHeld))
	wrote("over the bound", 1)
	piece("f")
	if err := e.Outcome(&wire.Outcome{RunID: "r1", Outcome: wire.Succeeded}); err != nil {
		t.Fatal(err)
	}
	wrote("before the outcome", 1, 1)
}
