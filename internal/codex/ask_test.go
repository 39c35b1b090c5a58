package codex

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const (
	askCommand  = `{"id":7,"method":"item/commandExecution/requestApproval","params":{"threadId":"T1","turnId":"U1","itemId":"I1","command":"rm x","cwd":"/","availableDecisions":["accept","cancel"]}}`
	askSession  = `{"id":7,"method":"item/commandExecution/requestApproval","params":{"threadId":"T1","turnId":"U1","itemId":"I1","command":"rm x","availableDecisions":["acceptForSession"]}}`
	askPerson   = `{"id":7,"method":"item/tool/requestUserInput","params":{"threadId":"T1","turnId":"U1","itemId":"I1","isBlocking":true,"questions":[{"id":"q.1","question":"which"},{"id":"r","question":"how"}]}}`
	askForm     = `{"id":7,"method":"mcpServer/elicitation/request","params":{"threadId":"T1","serverName":"s","mode":"form","message":"which"}}`
	interrupted = `{"decision":"cancel"}`
)

var answerCases = []struct {
	name, ask, request string
	state              mailbox.State
	answer             string // what the server gets; "" where nothing
	outcome            string
}{
	{"approve", askCommand, `{"kind":"approve","request":"$ID"}`, mailbox.Accepted, `{"decision":"accept"}`, wire.Succeeded},
	{"decline", askCommand, `{"kind":"decline","request":"$ID"}`, mailbox.Accepted, `{"decision":"decline"}`, wire.Succeeded},
	{"cancel", askCommand, `{"kind":"cancel","request":"$ID"}`, mailbox.Accepted, interrupted, wire.Cancelled},
	{"not on offer", askSession, `{"kind":"approve","request":"$ID"}`, mailbox.Refused, "", ""},
	{"another one", askCommand, `{"kind":"approve","request":"7"}`, mailbox.Refused, "", ""},
	{"an answer to an approval", askCommand, `{"kind":"answer","request":"$ID","answers":{}}`, mailbox.Refused, "", ""},
	{"answer by id", askPerson, `{"kind":"answer","request":"$ID","answers":{"q.1":"red","r":["a","b"]}}`, mailbox.Accepted,
		`{"answers":{"q.1":{"answers":["red"]},"r":{"answers":["a","b"]}}}`, wire.Succeeded},
	{"answer in order", askPerson, `{"kind":"answer","request":"$ID","answers":["red","fast"]}`, mailbox.Accepted,
		`{"answers":{"q.1":{"answers":["red"]},"r":{"answers":["fast"]}}}`, wire.Succeeded},
	{"half an answer", askPerson, `{"kind":"answer","request":"$ID","answers":["red"]}`, mailbox.Refused, "", ""},
	{"approve a question", askPerson, `{"kind":"approve","request":"$ID"}`, mailbox.Refused, "", ""},
	{"decline a question", askPerson, `{"kind":"decline","request":"$ID"}`, mailbox.Accepted, `{"answers":{}}`, wire.Succeeded},
	{"fill in a form", askForm, `{"kind":"answer","request":"$ID","answers":{"a":1}}`, mailbox.Accepted,
		`{"action":"accept","content":{"a":1}}`, wire.Succeeded},
	{"no form", askForm, `{"kind":"answer","request":"$ID","answers":[1]}`, mailbox.Refused, "", ""},
}

// Approvals and questions are answered through files.
func TestAnswersThroughTheMailbox(t *testing.T) {
	for _, tt := range answerCases {
		t.Run(tt.name, func(t *testing.T) {
			var w *world
			w = newWorld(t, func(s *server) {
				s.hello()
				s.send("%s", tt.ask)
				var open mailbox.Approval
				if err := json.Unmarshal(w.wait(t, "*.approval.json"), &open); err != nil {
					t.Error(err)
				}
				w.put(t, "x", strings.ReplaceAll(tt.request, "$ID", open.Request))
				if tt.answer == "" {
					w.wait(t, "x.reply.json")
					if !w.has(open.Request + ".approval.json") {
						t.Error("the question is not open any more")
					}
					s.ends("U1", "completed")
					s.rest()
					return
				}
				result, _ := json.Marshal(s.expect("")["result"])
				if string(result) != tt.answer {
					t.Errorf("answer %s, want %s", result, tt.answer)
				}
				status := "completed"
				if tt.answer == interrupted {
					status = "interrupted"
				}
				s.ends("U1", status)
				s.rest()
			})
			w.cfg.Approvals = approval.Mailbox
			out := w.run(t, t.Context())
			if tt.outcome != "" && out.Outcome != tt.outcome {
				t.Errorf("outcome %+v, error %+v", out, out.Error)
			}
			if r := w.reply(t, "x"); r.State != tt.state {
				t.Errorf("reply %+v, want %s", r, tt.state)
			}
			if w.has("*.approval.json") {
				t.Error("a question is left")
			}
		})
	}
}

// Nobody answers: the turn is interrupted first, and the run ends as input_required.
func TestNobodyAnswersInTime(t *testing.T) {
	for ask, answer := range map[string]string{askCommand: `{"decision":"decline"}`, askPerson: "null"} {
		w := newWorld(t, func(s *server) {
			s.hello()
			s.send("%s", ask)
			s.answer(s.expect("turn/interrupt"), `{}`)
			if result, _ := json.Marshal(s.expect("")["result"]); string(result) != answer {
				t.Errorf("answer %s, want %s", result, answer)
			}
			s.ends("U1", "interrupted")
			s.rest()
		})
		w.cfg.Approvals, w.cfg.ApprovalWait, w.cfg.InputWait = approval.Mailbox, time.Millisecond, time.Millisecond
		if out := w.run(t, t.Context()); out.Outcome != wire.InputRequired || !strings.Contains(out.Error.Message, "within 1ms") {
			t.Errorf("outcome %+v, error %+v", out, out.Error)
		}
	}
}

// A question that is open is answered before the server is stopped, after the
// interrupt; and waiting for a person is no stall.
func TestStopSettlesQuestions(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var w *world
	w = newWorld(t, func(s *server) {
		s.hello()
		s.send("%s", askCommand)
		w.wait(t, "*.approval.json")
		cancel()
		s.answer(s.expect("turn/interrupt"), `{}`)
		s.expect("")
		s.ends("U1", "interrupted")
		s.rest()
	})
	w.cfg.Approvals = approval.Mailbox
	w.cfg.Limits = session.Limits{Stall: time.Nanosecond}
	if out := w.run(t, ctx); out.Outcome != wire.Cancelled || out.Error.Category != wire.CauseShutdown {
		t.Errorf("outcome %+v, error %+v", out, out.Error)
	}
}
