package codex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// put lets a request appear in the world's mailbox.
func (w *world) put(t testing.TB, id, request string) {
	t.Helper()
	dir := w.cfg.Place.State.Mailbox()
	temp := filepath.Join(dir, "."+id)
	if err := os.WriteFile(temp, []byte(request), 0o600); err != nil {
		t.Error(err)
	}
	if err := os.Rename(temp, filepath.Join(dir, id+".request.json")); err != nil {
		t.Error(err)
	}
}

// reply reads the reply to a request where the end of the run has put it, or where it
// waits for more.
func (w *world) reply(t testing.TB, id string) mailbox.Reply {
	t.Helper()
	var r mailbox.Reply
	name := id + ".reply.json"
	err := state.ReadJSON(filepath.Join(string(w.cfg.Place.Run), "mailbox", name), &r)
	if err != nil {
		err = state.ReadJSON(filepath.Join(w.cfg.Place.State.Mailbox(), name), &r)
	}
	if err != nil {
		t.Error(err)
	}
	return r
}

// wait waits until a file is in the mailbox.
func (w *world) wait(t testing.TB, name string) []byte {
	t.Helper()
	path := filepath.Join(w.cfg.Place.State.Mailbox(), name)
	watcher, err := watch.Open([]string{filepath.Dir(path)}, watch.Options{})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer watcher.Close()
	limit := time.After(10 * time.Second)
	for {
		if found, _ := filepath.Glob(path); len(found) == 1 {
			if text, err := os.ReadFile(found[0]); err == nil {
				return text
			}
		}
		select {
		case <-watcher.C():
		case <-limit:
			t.Errorf("no %s", name)
			return nil
		}
	}
}

// events returns the names of the steer events with their requests and, of those that
// have one, the first word of the reason.
func (w *world) events() string {
	var names []string
	for line := range strings.Lines(w.out.String()) {
		var e struct{ Event, Request, Reason string }
		if json.Unmarshal([]byte(line), &e) == nil && strings.HasPrefix(e.Event, "steer.") {
			word, _, _ := strings.Cut(e.Reason, " ")
			names = append(names, strings.TrimSpace(strings.TrimPrefix(e.Event, "steer.")+" "+e.Request+" "+word))
		}
	}
	return strings.Join(names, ", ")
}

func (s *server) answer(request map[string]any, result string) {
	s.send(`{"id":%v,"result":%s}`, request["id"], result)
}

func (s *server) refuse(request map[string]any, message, data string) {
	s.send(`{"id":%v,"error":{"code":-32600,"message":%q,"data":%s}}`, request["id"], message, data)
}

// said is the user item of a request of ours that carries a text.
func (s *server) said(request map[string]any) {
	id := request["params"].(map[string]any)["clientUserMessageId"]
	for _, when := range []string{"started", "completed"} {
		s.send(`{"method":"item/%s","params":{"threadId":"T1","item":{"type":"userMessage","id":"%v","clientId":%q}}}`, when, request["id"], id)
	}
}

func (s *server) turn(id string) {
	s.send(`{"id":%v,"result":{"turn":{"id":%q}}}`, s.expect("turn/start")["id"], id)
}

func (s *server) ends(turn, status string) {
	s.send(`{"method":"item/completed","params":{"threadId":"T1","item":{"type":"agentMessage","id":"I","text":"all good"}}}`)
	s.send(`{"method":"turn/completed","params":{"threadId":"T1","turn":{"id":%q,"status":%q}}}`, turn, status)
}

// steer expects a steer into that turn.
func (s *server) steer(turn, text string) map[string]any {
	f := s.expect("turn/steer")
	p, _ := f["params"].(map[string]any)
	if p["expectedTurnId"] != turn || !strings.Contains(fmt.Sprint(p["input"]), text) {
		s.t.Errorf("steer %v, want %q into %q", p, text, turn)
	}
	return f
}

func (s *server) rest() { _, _ = s.in.ReadString(0) }

const notSteerable = `{"message":"cannot steer a review turn","codexErrorInfo":{"activeTurnNotSteerable":{"turnKind":"review"}}}`

// steeringCase is one steer with the text hi under the id a, which lies there when the
// turn U1 begins.
type steeringCase struct {
	name        string
	turns       int
	script      func(*world, *server)
	outcome     string
	state       mailbox.State // of request a
	undelivered []string
	events      string
}

// steeringCases are named after the rows of the user cases that they answer.
var steeringCases = []steeringCase{
	{name: "accepted, then consumed", script: func(w *world, s *server) {
		f := s.steer("U1", "hi")
		s.answer(f, `{"turnId":"U1"}`)
		s.said(f)
		s.ends("U1", "completed")
	}, state: mailbox.Consumed, events: "sent a, accepted a, consumed a"},
	{name: "consumed before it is accepted", script: func(w *world, s *server) {
		f := s.steer("U1", "hi")
		s.said(f)
		s.answer(f, `{"turnId":"U1"}`)
		s.ends("U1", "completed")
	}, state: mailbox.Consumed, events: "sent a, consumed a"},
	{name: "C23: the turn has just ended, and another follows", turns: 2, script: func(w *world, s *server) {
		f := s.steer("U1", "hi")
		s.ends("U1", "completed")
		s.refuse(f, "no active turn to steer", "null")
		s.turn("U2")
		f = s.steer("U2", "hi")
		s.answer(f, `{"turnId":"U2"}`)
		s.said(f)
		s.ends("U2", "completed")
	}, state: mailbox.Consumed, events: "sent a, refused a held:, sent a, accepted a, consumed a"},
	{name: "C23: the turn has just ended, and it was the last", script: func(w *world, s *server) {
		s.refuse(s.steer("U1", "hi"), "no active turn to steer", "null")
		s.ends("U1", "completed")
	}, state: mailbox.Undelivered, undelivered: []string{"a"}, events: "sent a, refused a held:, refused a undelivered:"},
	{name: "C24: the turn's id is stale", script: func(w *world, s *server) {
		f := s.steer("U1", "hi")
		s.refuse(f, "expected active turn id `U1` but found `U3`", "null")
		f = s.steer("U3", "hi")
		s.answer(f, `{"turnId":"U3"}`)
		s.said(f)
		s.ends("U1", "completed")
	}, state: mailbox.Consumed, events: "sent a, accepted a, consumed a"},
	{name: "C24: and stale again", script: func(w *world, s *server) {
		s.refuse(s.steer("U1", "hi"), "expected active turn id `U1` but found `U3`", "null")
		s.refuse(s.steer("U3", "hi"), "expected active turn id `U3` but found `U4`", "null")
		s.ends("U1", "completed")
	}, state: mailbox.Refused, events: "sent a, refused a expected"},
	{name: "C26: a review does not take it, the next turn does", turns: 2, script: func(w *world, s *server) {
		s.refuse(s.steer("U1", "hi"), "cannot steer a review turn", notSteerable)
		s.ends("U1", "completed")
		s.turn("U2")
		f := s.steer("U2", "hi")
		s.answer(f, `{"turnId":"U2"}`)
		s.said(f)
		s.ends("U2", "completed")
	}, state: mailbox.Consumed, events: "sent a, refused a held:, sent a, accepted a, consumed a"},
	{name: "C26: a compaction ends within the turn", script: func(w *world, s *server) {
		s.refuse(s.steer("U1", "hi"), "ActiveTurnNotSteerable", "null")
		f := s.steer("U1", "hi") // after a while, by itself
		s.answer(f, `{"turnId":"U1"}`)
		s.said(f)
		s.ends("U1", "completed")
	}, state: mailbox.Consumed, events: "sent a, refused a held:, sent a, accepted a, consumed a"},
	{name: "C27: an answer without a turn is no acceptance", script: func(w *world, s *server) {
		s.answer(s.steer("U1", "hi"), `{}`)
		if r := w.wait(s.t, "a.reply.json"); !strings.Contains(string(r), `"unconfirmed"`) {
			s.t.Errorf("reply %s", r)
		}
		s.ends("U1", "completed")
	}, state: mailbox.Undelivered, undelivered: []string{"a"}, events: "sent a, refused a undelivered:"},
	{name: "C27: accepted and not consumed", script: func(w *world, s *server) {
		s.answer(s.steer("U1", "hi"), `{"turnId":"U1"}`)
		s.ends("U1", "completed")
	}, state: mailbox.Undelivered, undelivered: []string{"a"}, events: "sent a, accepted a, refused a undelivered:"},
	{name: "C27: accepted, not consumed, and asked for before the next turn", turns: 2, script: func(w *world, s *server) {
		s.answer(s.steer("U1", "hi"), `{"turnId":"U1"}`)
		s.ends("U1", "completed")
		s.answer(s.expect("thread/items/list"), `{"data":[{"turnId":"U1","item":{"type":"userMessage","clientId":"r1/a"}}]}`)
		s.turn("U2")
		s.ends("U2", "completed")
	}, state: mailbox.Consumed, events: "sent a, accepted a, consumed a"},
	{name: "C27: and not in the history", turns: 2, script: func(w *world, s *server) {
		s.answer(s.steer("U1", "hi"), `{"turnId":"U1"}`)
		s.ends("U1", "completed")
		s.answer(s.expect("thread/items/list"), `{"data":[{"turnId":"U1","item":{"type":"userMessage","clientId":"r1/b"}}],"nextCursor":"c"}`)
		s.refuse(s.expect("thread/items/list"), "no more", "null")
		s.turn("U2")
		s.ends("U2", "completed")
	}, state: mailbox.Accepted, events: "sent a, accepted a"},
	{name: "the peer dies with it", script: func(w *world, s *server) {
		s.answer(s.steer("U1", "hi"), `{"turnId":"U1"}`)
	}, outcome: wire.Failed, state: mailbox.Accepted, events: "sent a, accepted a"},
	{name: "another refusal", script: func(w *world, s *server) {
		s.refuse(s.steer("U1", "hi"), "input too large", "null")
		s.ends("U1", "completed")
	}, state: mailbox.Refused, events: "sent a, refused a input"},
}

func TestSteering(t *testing.T) {
	for _, tt := range steeringCases {
		t.Run(tt.name, func(t *testing.T) {
			var w *world
			w = newWorld(t, func(s *server) {
				s.open()
				w.put(t, "a", `{"text":"hi"}`)
				s.turn("U1")
				tt.script(w, s)
				if tt.outcome == "" {
					s.rest()
				}
			})
			w.cfg.Plan.Again, w.cfg.Plan.MaxTurns = true, max(1, tt.turns)
			out := w.run(t, t.Context())
			if want := cmp.Or(tt.outcome, wire.Succeeded); out.Outcome != want {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
			if r := w.reply(t, "a"); r.State != tt.state || r.Text != "hi" {
				t.Errorf("reply %+v, want %s", r, tt.state)
			}
			if !slices.Equal(out.Undelivered, tt.undelivered) {
				t.Errorf("undelivered %q, want %q", out.Undelivered, tt.undelivered)
			}
			if got := w.events(); got != tt.events {
				t.Errorf("events %s, want %s", got, tt.events)
			}
			if w.has("active.json") {
				t.Error("active.json is left")
			}
		})
	}
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.cfg.Place.State.Mailbox(), name))
	return err == nil
}

// C28: a request from before the start is delivered, FIFO by name; one that comes when no
// turn will follow is not, and says so.
func TestSteerBeforeAndAfter(t *testing.T) {
	w := newWorld(t, func(s *server) {
		s.hello()
		for _, text := range []string{"first", "second"} {
			f := s.steer("U1", text)
			s.answer(f, `{"turnId":"U1"}`)
			s.said(f)
		}
		s.ends("U1", "completed")
		s.rest()
	})
	if err := state.MakeDir(w.cfg.Place.State.Mailbox()); err != nil {
		t.Fatal(err)
	}
	w.put(t, "b", `{"text":"second"}`)
	w.put(t, "a", `{"text":"first"}`)
	w.cfg.Plan.MaxTurns = 2
	w.cfg.Plan.Recheck = func(context.Context) (*wire.Issue, error) {
		w.put(t, "c", `{"text":"too late"}`)
		return nil, nil
	}
	out := w.run(t, t.Context())
	if !slices.Equal(out.Undelivered, []string{"c"}) {
		t.Errorf("undelivered %q", out.Undelivered)
	}
	for id, want := range map[string]mailbox.State{"a": mailbox.Consumed, "b": mailbox.Consumed, "c": mailbox.Undelivered} {
		if r := w.reply(t, id); r.State != want {
			t.Errorf("%s: %+v, want %s", id, r, want)
		}
	}
}

func TestQueueStartsATurn(t *testing.T) {
	var w *world
	w = newWorld(t, func(s *server) {
		s.open()
		w.put(t, "a", `{"kind":"queue","text":"then this"}`)
		s.turn("U1")
		s.ends("U1", "completed")
		f := s.expect("turn/start")
		p := f["params"].(map[string]any)
		if p["clientUserMessageId"] != "r1/a" || !strings.Contains(fmt.Sprint(p["input"]), "then this") {
			t.Errorf("turn/start %v", p)
		}
		s.answer(f, `{"turn":{"id":"U2"}}`)
		s.said(f)
		s.ends("U2", "completed")
		s.rest()
	})
	out := w.run(t, t.Context()) // one turn is the plan's limit, not the queue's
	if out.Turns != 2 || out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v", out)
	}
	if r := w.reply(t, "a"); r.State != mailbox.Consumed || r.Turn != "U2" {
		t.Errorf("reply %+v", r)
	}
}

// What a dead run had taken is settled from the thread's history: found there it is
// consumed, else it is sent once more under the same id.
func TestSettleAfterCrash(t *testing.T) {
	page := `{"data":[{"turnId":"U0","item":{"type":"userMessage","clientId":"r0/seen"}}]}`
	read := `{"thread":{"turns":[{"id":"U0","items":[{"type":"userMessage","clientId":"r0/seen"}]}]}}`
	for name, history := range map[string]func(*server){
		"by pages": func(s *server) { s.answer(s.expect("thread/items/list"), page) },
		"as a whole": func(s *server) {
			s.send(`{"id":%v,"error":{"code":-32601,"message":"not supported yet"}}`, s.expect("thread/items/list")["id"])
			s.answer(s.expect("thread/read"), read)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(s *server) {
				s.answer(s.expect("initialize"), `{}`)
				s.expect("initialized")
				s.answer(s.expect("thread/resume"), `{"thread":{"id":"T1"},"sandbox":{"type":"readOnly"}}`)
				history(s)
				s.turn("U1")
				f := s.steer("U1", "lost")
				if id := f["params"].(map[string]any)["clientUserMessageId"]; id != "r0/lost" {
					t.Errorf("client id %v", id)
				}
				s.answer(f, `{"turnId":"U1"}`)
				s.said(f)
				s.ends("U1", "completed")
				s.rest()
			})
			w.cfg.Resume = "T1"
			box := w.cfg.Place.State.Mailbox()
			if err := state.MakeDir(box); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"seen.claimed.json": `{"kind":"steer","text":"seen"}`,
				"seen.reply.json":   `{"id":"seen","kind":"steer","state":"accepted","accepted":true}`,
				"lost.claimed.json": `{"kind":"steer","text":"lost"}`,
				"lost.reply.json":   `{"id":"lost","kind":"steer","state":"accepted","accepted":true}`,
				"stop.claimed.json": `{"kind":"stop"}`,
				"active.json":       `{"run_id":"r0"}`,
				".owner.json":       `{"run_id":"r0"}`,
			} {
				if err := os.WriteFile(filepath.Join(box, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
			for id, want := range map[string]mailbox.State{"seen": mailbox.Consumed, "lost": mailbox.Consumed, "stop": mailbox.Expired} {
				if r := w.reply(t, id); r.State != want {
					t.Errorf("%s: %+v, want %s", id, r, want)
				}
			}
			if got := w.events(); got != "consumed seen, sent lost, accepted lost, consumed lost" {
				t.Errorf("events %s", got)
			}
		})
	}
}

// C30 and C31: the same name five times, and a system that gives no watcher.
func TestSameNameFiveTimesUnwatched(t *testing.T) {
	var w *world
	w = newWorld(t, func(s *server) {
		s.hello()
		for i := range 5 {
			text := fmt.Sprintf("text %d", i)
			w.put(t, "a", fmt.Sprintf(`{"text":%q}`, text))
			f := s.steer("U1", text)
			s.answer(f, `{"turnId":"U1"}`)
			s.said(f)
		}
		s.ends("U1", "completed")
		s.rest()
	})
	w.cfg.Watch = watch.Options{Forbid: true}
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
	if n := strings.Count(w.out.String(), `"event":"steer.consumed"`); n != 5 {
		t.Errorf("%d texts consumed", n)
	}
	if n := strings.Count(w.out.String(), `"code":"mailbox","message":"no watcher to be had`); n != 1 {
		t.Errorf("%d warnings", n)
	}
}

// A mailbox that cannot be used costs the steering, not the session.
func TestNoMailbox(t *testing.T) {
	w := newWorld(t, func(s *server) { s.hello(); s.done(); s.rest() })
	if err := os.WriteFile(w.cfg.Place.State.Mailbox(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
	if !strings.Contains(w.out.String(), "the session cannot be steered") {
		t.Error("nobody was told")
	}
}
