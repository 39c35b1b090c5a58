package codex

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server plays the app-server over two pipes, in a goroutine of its own.
type server struct {
	t   testing.TB
	in  *bufio.Reader
	out *os.File
}

// expect reads the next frame, which must be of that method ("" for an answer), and
// returns it.
func (s *server) expect(method string) map[string]any {
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		s.t.Errorf("wait for %q: %v", method, err)
		return nil
	}
	var frame map[string]any
	if err := json.Unmarshal(line, &frame); err != nil {
		s.t.Errorf("frame %q: %v", line, err)
	}
	if got, _ := frame["method"].(string); got != method {
		s.t.Errorf("got %s, want %q", line, method)
	}
	return frame
}

func (s *server) send(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format+"\n", args...); err != nil {
		s.t.Errorf("send: %v", err)
	}
}

// hello opens thread T1 and turn U1.
func (s *server) hello() {
	s.open()
	s.turn("U1")
}

// open opens thread T1.
func (s *server) open() {
	s.send(`{"id":%v,"result":{"userAgent":"os-codex/1.2.3 (x)"}}`, s.expect("initialize")["id"])
	s.expect("initialized")
	s.send(`{"id":%v,"result":{"thread":{"id":"T1"},"model":"m","sandbox":{"type":"readOnly"}}}`, s.expect("thread/start")["id"])
}

func (s *server) done() {
	s.send(`{"method":"item/completed","params":{"threadId":"T1","item":{"type":"agentMessage","id":"I","text":"all good"}}}`)
	s.send(`{"method":"turn/completed","params":{"threadId":"T1","turn":{"id":"U1","status":"completed"}}}`)
}

// world is a session against a server.
type world struct {
	cfg Config
	out bytes.Buffer
	end chan struct{} // the server's script has ended
}

func newWorld(t testing.TB, script func(*server)) *world {
	t.Helper()
	dir := state.Dir(t.TempDir())
	run := dir.Run("r1")
	if err := run.Make(); err != nil {
		t.Fatal(err)
	}
	w := &world{end: make(chan struct{})}
	place := session.Place{Workspace: &wire.Workspace{Key: "k", Path: t.TempDir()}, RunID: "r1", Run: run, State: dir}
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	em, err := session.NewEmitter(place, session.Output{Stdout: &w.out, Now: now, Warn: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = Config{
		Config: session.Config{
			Place: place, Emitter: em, Plan: session.Plan{MaxTurns: 1, Full: "do it", Continue: "go on"},
			Resume: session.ResumeAuto, Approvals: approval.ByPolicy, Grace: time.Second, Now: now, Warn: t.Logf,
		},
		Thread: Thread{Sandbox: sandboxReadOnly}, StartTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
	}
	w.cfg.dial = func() (*peer, error) { return w.dial(t, script) }
	return w
}

func (w *world) dial(t testing.TB, script func(*server)) (*peer, error) {
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(w.end)
		s := &server{t: t, in: bufio.NewReader(theirIn), out: theirOut}
		script(s)
		_ = theirOut.Close()
		_ = theirIn.Close()
	}()
	return &peer{conn: newConn(ourIn, ourOut, newTracer(w.cfg.Trace, w.cfg.Now), w.cfg.skimmer())}, nil
}

func (w *world) run(t testing.TB, ctx context.Context) *wire.Outcome {
	t.Helper()
	out, err := Run(ctx, w.cfg)
	if err != nil {
		t.Fatalf("run: %v\n%s", err, w.out.String())
	}
	<-w.end
	return out
}

func TestSession(t *testing.T) {
	w := newWorld(t, func(s *server) { s.hello(); s.done(); _, _ = s.in.ReadByte() })
	out := w.run(t, t.Context())
	if out.Outcome != wire.Succeeded || out.FinalText != "all good" || out.Session != "T1" || !out.Resumable {
		t.Errorf("outcome %+v", out)
	}
	if out.Peer.Version != "1.2.3" || out.Model.Observed != "m" {
		t.Errorf("peer %+v, model %+v", out.Peer, out.Model)
	}
	var c session.Conversation
	if err := state.ReadJSON(w.cfg.Place.State.Conversation(), &c); err != nil {
		t.Fatal(err)
	}
	if c.SessionID != "T1" || !c.Seeded || c.Status != wire.Succeeded {
		t.Errorf("conversation %+v", c)
	}
	if text, err := os.ReadFile(w.cfg.Place.Run.Prompt()); err != nil || string(text) != "do it" {
		t.Errorf("prompt %q, %v", text, err)
	}
}

func TestStopInterruptsOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, func(s *server) {
		s.hello()
		cancel()
		s.send(`{"id":%v,"result":{}}`, s.expect("turn/interrupt")["id"])
		s.send(`{"method":"turn/completed","params":{"threadId":"T1","turn":{"id":"U1","status":"interrupted"}}}`)
		if more, err := s.in.ReadString('\n'); err == nil {
			t.Errorf("after the interrupt: %q", more)
		}
	})
	if out := w.run(t, ctx); out.Outcome != wire.Cancelled || out.Error.Category != wire.CauseShutdown {
		t.Errorf("outcome %+v", out)
	}
}

func TestServerDies(t *testing.T) {
	for name, script := range map[string]func(*server){
		"at once":       func(*server) {},
		"in a turn":     func(s *server) { s.hello() },
		"half a frame":  func(s *server) { s.hello(); _, _ = s.out.WriteString(`{"method":"turn/comp`) },
		"before answer": func(s *server) { s.expect("initialize") },
	} {
		t.Run(name, func(t *testing.T) {
			out := newWorld(t, script).run(t, t.Context())
			if out.Outcome != wire.Failed || out.Error.Category != wire.CausePeerDied {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
		})
	}
}

// The end of a turn that is in the pipe when the server goes still counts.
func TestEndBeatsDeath(t *testing.T) {
	for range 100 {
		w := newWorld(t, func(s *server) { s.hello(); s.done() })
		if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
			t.Fatalf("outcome %+v, error %+v", out, out.Error)
		}
	}
}

// Case C16: a request of the start that is never answered ends the session by its limit,
// names itself, and is not made twice.
func TestNoAnswerInTime(t *testing.T) {
	tests := map[string]struct {
		script   func(*server)
		category string
	}{
		"initialize": {func(s *server) { _, _ = s.in.ReadString(0) }, wire.CauseUnavailable},
		"thread/start": {func(s *server) {
			s.send(`{"id":%v,"result":{}}`, s.expect("initialize")["id"])
			s.expect("initialized")
			s.expect("thread/start")
			if more, err := s.in.ReadString('\n'); err == nil {
				t.Errorf("after thread/start: %s", more)
			}
		}, wire.CauseProtocol},
	}
	for method, tt := range tests {
		w := newWorld(t, tt.script)
		w.cfg.StartTimeout = 50 * time.Millisecond
		out := w.run(t, t.Context())
		if out.Error == nil || out.Error.Category != tt.category || !strings.Contains(out.Error.Message, method) {
			t.Errorf("%s: %+v", method, out.Error)
		}
	}
}

// Case C17: a slow start is none of the faults that the limit of other requests finds; by
// default it has a minute.
func TestSlowStart(t *testing.T) {
	w := newWorld(t, func(s *server) {
		hello := s.expect("initialize")
		<-time.After(5 * session.Tick)
		s.answer(hello, `{}`)
		s.expect("initialized")
		f := s.expect("thread/start")
		<-time.After(5 * session.Tick)
		s.answer(f, `{"thread":{"id":"T1"},"sandbox":{"type":"readOnly"}}`)
		s.turn("U1")
		s.done()
		s.rest()
	})
	w.cfg.ReadTimeout = 2 * session.Tick
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
	for read, want := range map[time.Duration]time.Duration{time.Second: time.Minute, time.Hour: time.Hour} {
		if got := StartTimeout(read); got != want {
			t.Errorf("start-up has %s where a request has %s, want %s", got, read, want)
		}
	}
}

// A server that stops reading must not hold us up: neither while frames are queued
// nor at the end.
func TestServerThatDoesNotRead(t *testing.T) {
	w := newWorld(t, func(s *server) {
		s.hello()
		for i := range 2 * writeQueue {
			s.send(`{"id":%d,"method":"no/such","params":{"pad":%q}}`, i, strings.Repeat("x", 1<<10))
		}
		s.done()
		_, _ = s.in.ReadString(0)
	})
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

func TestDeltasOnRequest(t *testing.T) {
	script := func(s *server) {
		s.hello()
		s.send(`{"method":"item/agentMessage/delta","params":{"threadId":"T1","itemId":"I","delta":"all "}}`)
		s.send(`{"method":"item/reasoning/textDelta","params":{"threadId":"T1","itemId":"I","delta":"hm"}}`)
		s.done()
		_, _ = s.in.ReadString(0)
	}
	for _, deltas := range []bool{false, true} {
		w := newWorld(t, script)
		w.cfg.Deltas = deltas
		w.run(t, t.Context())
		for _, what := range []string{`"event":"message.delta"`, `item/reasoning/textDelta`} {
			if got := strings.Contains(w.out.String(), what); got != deltas {
				t.Errorf("deltas %t: %s is there: %t", deltas, what, got)
			}
		}
	}
}

func TestTrace(t *testing.T) {
	var trace bytes.Buffer
	w := newWorld(t, func(s *server) { s.hello(); s.send("noise"); s.done(); _, _ = s.in.ReadString(0) })
	w.cfg.Trace = &trace
	w.run(t, t.Context())
	for _, want := range []string{`{"t":0,"dir":"in","frame":{"id":1,"method":"initialize"`, `{"t":0,"dir":"out","text":"noise"}`, `"turn/completed"`} {
		if !strings.Contains(trace.String(), want) {
			t.Errorf("no %s in\n%s", want, trace.String())
		}
	}
}

func TestRecheckRunsBesideTheSession(t *testing.T) {
	heard := make(chan struct{})
	w := newWorld(t, func(s *server) {
		s.hello()
		s.done()
		s.send(`{"id":9,"method":"no/such","params":{}}`)
		s.expect("")
		close(heard)
		_, _ = s.in.ReadString(0)
	})
	w.cfg.Plan.MaxTurns = 2
	w.cfg.Plan.Recheck = func(context.Context) (*wire.Issue, error) {
		<-heard // only a session that goes on listening can get here
		return nil, nil
	}
	if out := w.run(t, t.Context()); out.FinishedBy != session.FinishedByTracker {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}

func TestDryRun(t *testing.T) {
	w := newWorld(t, nil)
	out, err := DryRun(w.cfg)
	if err != nil || out.Outcome != wire.Succeeded || out.Turns != 0 {
		t.Errorf("outcome %+v, %v", out, err)
	}
	if !strings.Contains(w.out.String(), `"event":"session.planned"`) {
		t.Errorf("printed %s", w.out.String())
	}
}
