package codex

import (
	"slices"
	"testing"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/wire"
)

// endInterrupted plays a turn that ends because it was asked to.
func endInterrupted(_ *world, s *server) {
	s.answer(s.expect("turn/interrupt"), `{}`)
	s.ends("U1", "interrupted")
}

var interruptCases = []struct {
	name, request, queue string
	script               func(*world, *server)
	outcome, category    string
	state                mailbox.State
	turns                int64
}{
	{"interrupt", `{"kind":"interrupt"}`, "", endInterrupted, wire.Cancelled, wire.CauseOperator, mailbox.Accepted, 1},
	{"interrupt for a reason", `{"kind":"interrupt","reason":"tracker"}`, "", endInterrupted, wire.Cancelled, wire.CauseTracker, mailbox.Accepted, 1},
	{"interrupt, and go on with a queued text", `{"kind":"interrupt"}`, `{"kind":"queue","text":"this"}`, func(w *world, s *server) {
		endInterrupted(w, s)
		s.turn("U2")
		s.ends("U2", "completed")
	}, wire.Succeeded, "", mailbox.Accepted, 2},
	{"interrupt before the turn runs", `{"kind":"interrupt"}`, "", func(w *world, s *server) {
		s.refuse(s.expect("turn/interrupt"), "no active turn to interrupt", "null")
		s.send(`{"method":"turn/started","params":{"threadId":"T1","turn":{"id":"U1"}}}`)
		endInterrupted(w, s)
	}, wire.Cancelled, wire.CauseOperator, mailbox.Accepted, 1},
	{"C24: interrupt with a stale id", `{"kind":"interrupt"}`, "", func(w *world, s *server) {
		s.refuse(s.expect("turn/interrupt"), "expected active turn id U1 but found U3", "null")
		f := s.expect("turn/interrupt")
		if p := f["params"].(map[string]any); p["turnId"] != "U3" {
			s.t.Errorf("interrupt of %v", p)
		}
		s.answer(f, `{}`)
		s.ends("U1", "interrupted")
	}, wire.Cancelled, wire.CauseOperator, mailbox.Accepted, 1},
	{"C33: interrupt as the turn ends", `{"kind":"interrupt"}`, "", func(w *world, s *server) {
		f := s.expect("turn/interrupt")
		s.ends("U1", "completed")
		s.refuse(f, "no active turn to interrupt", "null")
	}, wire.Succeeded, "", mailbox.Refused, 1},
	{"stop", `{"kind":"stop","reason":"shutdown"}`, `{"kind":"queue","text":"this"}`, endInterrupted, wire.Cancelled, wire.CauseShutdown, mailbox.Accepted, 1},
	{"stop for a reason of one's own", `{"kind":"stop","reason":"lunch"}`, "", endInterrupted, wire.Cancelled, wire.CauseOperator, mailbox.Accepted, 1},
}

func TestInterruptAndStop(t *testing.T) {
	for _, tt := range interruptCases {
		t.Run(tt.name, func(t *testing.T) {
			var w *world
			w = newWorld(t, func(s *server) {
				s.open()
				if tt.queue != "" {
					w.put(t, "q", tt.queue)
				}
				s.turn("U1")
				w.put(t, "x", tt.request)
				tt.script(w, s)
				if more, err := s.in.ReadString('\n'); err == nil {
					t.Errorf("after the end: %s", more)
				}
			})
			out := w.run(t, t.Context())
			if out.Outcome != tt.outcome || out.Turns != tt.turns || tt.category != "" && out.Error.Category != tt.category {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
			if r := w.reply(t, "x"); r.State != tt.state {
				t.Errorf("reply %+v, want %s", r, tt.state)
			}
			if tt.queue != "" && tt.turns == 1 && !slices.Equal(out.Undelivered, []string{"q"}) {
				t.Errorf("undelivered %q", out.Undelivered)
			}
		})
	}
}
