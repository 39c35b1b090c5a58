package codex

import (
	"slices"
	"strings"
	"testing"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/wire"
)

const emptyHistory = `{"data":[]}`

// goalSteerCases are a steer with the text hi under the id a, which turn U1 of a goal has
// accepted and not read when it ends (case C27). The next turn begins by itself, and may
// do so at any moment.
var goalSteerCases = []struct {
	name        string
	script      func(*world, *server)
	state       mailbox.State
	undelivered []string
	events      string
	turns       int64
}{
	{"sent again in the next turn", func(_ *world, s *server) {
		s.ends("U1", "completed")
		s.answer(s.expect("thread/items/list"), emptyHistory)
		s.starts("U2")
		s.takes("U2", "hi")
		s.reach("U2")
	}, mailbox.Consumed, nil, "sent a, accepted a, sent a, accepted a, consumed a", 2},
	{"sent again in a turn that has begun before the history was told", func(_ *world, s *server) {
		s.ends("U1", "completed")
		f := s.expect("thread/items/list")
		s.starts("U2")
		s.answer(f, emptyHistory)
		s.takes("U2", "hi")
		s.reach("U2")
	}, mailbox.Consumed, nil, "sent a, accepted a, sent a, accepted a, consumed a", 2},
	{"read by the turn after all", func(_ *world, s *server) {
		s.ends("U1", "completed")
		s.answer(s.expect("thread/items/list"), `{"data":[{"turnId":"U1","item":{"type":"userMessage","clientId":"r1/a"}}]}`)
		s.starts("U2")
		s.reach("U2")
	}, mailbox.Consumed, nil, "sent a, accepted a, consumed a", 2},
	// What was asked before cannot tell of a text of U2.
	{"a turn that comes and goes while the history is asked", func(w *world, s *server) {
		s.ends("U1", "completed")
		f := s.expect("thread/items/list")
		s.starts("U2")
		w.put(s.t, "b", `{"text":"ho"}`)
		s.answer(s.steer("U2", "ho"), `{"turnId":"U2"}`)
		s.ends("U2", "completed")
		s.answer(f, emptyHistory)
		s.answer(s.expect("thread/items/list"), `{"data":[{"turnId":"U2","item":{"type":"userMessage","clientId":"r1/b"}}]}`)
		s.starts("U3")
		s.takes("U3", "hi")
		s.reach("U3")
	}, mailbox.Consumed, nil, "sent a, accepted a, sent b, accepted b, consumed b, sent a, accepted a, consumed a", 3},
	{"no next turn", func(_ *world, s *server) {
		s.goal(goalComplete)
		s.ends("U1", "completed")
	}, mailbox.Undelivered, []string{"a"}, "sent a, accepted a, refused a undelivered:", 1},
	{"the server ends before the next turn", func(_ *world, s *server) {
		s.ends("U1", "completed")
		s.answer(s.expect("thread/items/list"), emptyHistory)
		_ = s.out.Close()
	}, mailbox.Undelivered, []string{"a"}, "sent a, accepted a, refused a undelivered:", 1},
}

// takes expects a steer into that turn and has the agent read it.
func (s *server) takes(turn, text string) {
	f := s.steer(turn, text)
	s.answer(f, `{"turnId":"`+turn+`"}`)
	s.said(f)
}

// reach ends a turn in which the goal was reached.
func (s *server) reach(turn string) {
	s.goal(goalComplete)
	s.ends(turn, "completed")
}

func TestSteerBetweenTurnsOfAGoal(t *testing.T) {
	for _, tt := range goalSteerCases {
		t.Run(tt.name, func(t *testing.T) {
			var w *world
			w = goalWorld(t, func(s *server) {
				s.hello()
				s.goalSet()
				w.put(t, "a", `{"text":"hi"}`)
				s.answer(s.steer("U1", "hi"), `{"turnId":"U1"}`)
				tt.script(w, s)
			})
			out := w.run(t, t.Context())
			if died := strings.HasPrefix(tt.name, "the server"); died != (out.Outcome == wire.Failed) || out.Turns != tt.turns {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
			if r := w.reply(t, "a"); r.State != tt.state {
				t.Errorf("reply %+v, want %s", r, tt.state)
			}
			if !slices.Equal(out.Undelivered, tt.undelivered) {
				t.Errorf("undelivered %q, want %q", out.Undelivered, tt.undelivered)
			}
			if got := w.events(); got != tt.events {
				t.Errorf("events %s, want %s", got, tt.events)
			}
		})
	}
}
