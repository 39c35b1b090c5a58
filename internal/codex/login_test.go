package codex

import (
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const retryFrame = `{"method":"error","params":{"threadId":"T1","turnId":"U1","willRetry":true,"error":{"message":"Reconnecting","codexErrorInfo":{"responseStreamDisconnected":{"httpStatusCode":%s}}}}}`

func TestSessionThatOnlyRetries(t *testing.T) {
	const missing, there = `{"account":null,"requiresOpenaiAuth":true}`, `{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}`
	tests := map[string]struct {
		status, account string
		outcome         string
		category        string
	}{
		"not logged in":      {"null", missing, wire.Failed, wire.CauseAuth},
		"logged in":          {"null", there, wire.Stalled, wire.Stalled},
		"none is needed":     {"null", `{"account":null,"requiresOpenaiAuth":false}`, wire.Stalled, wire.Stalled},
		"an older build":     {"null", `{}`, wire.Stalled, wire.Stalled},
		"401, not logged in": {"401", missing, wire.Failed, wire.CauseAuth},
		"401, logged in":     {"401", there, wire.Stalled, wire.Stalled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(s *server) {
				s.hello()
				s.send(retryFrame, tt.status)
				s.send(`{"id":%v,"result":%s}`, s.expect("account/read")["id"], tt.account)
				_, _ = s.in.ReadString(0) // the interrupt, and that nothing is asked twice
			})
			w.cfg.Limits.Stall, w.cfg.Grace = 300*time.Millisecond, 100*time.Millisecond
			if tt.status == "401" && tt.category == wire.CauseAuth {
				w.cfg.Limits.Stall = 0 // it ends all the same
			}
			out := w.run(t, t.Context())
			if out.Outcome != tt.outcome || out.Error.Category != tt.category {
				t.Errorf("outcome %s, error %+v", out.Outcome, out.Error)
			}
		})
	}
}

// A session that is silent would not answer: it stalls at once, and is asked nothing.
func TestSilentSessionStalls(t *testing.T) {
	w := newWorld(t, func(s *server) {
		s.hello()
		s.expect("turn/interrupt")
		_, _ = s.in.ReadString(0)
	})
	w.cfg.Limits.Stall, w.cfg.Grace = 300*time.Millisecond, 100*time.Millisecond
	if out := w.run(t, t.Context()); out.Outcome != wire.Stalled {
		t.Errorf("outcome %s, error %+v", out.Outcome, out.Error)
	}
}

// The word on the login is waited for with a limit of its own.
func TestLoginAnswerIsBounded(t *testing.T) {
	d := &driver{Loop: &session.Loop{}, peer: &peer{conn: &conn{writes: make(chan []byte, 2)}}, calls: map[string]*call{}}
	d.login.retried = true
	at := time.Unix(0, 0)
	const steps = int(loginLimit / session.Tick)
	for n, now := range []time.Duration{0, time.Hour} { // an hour is one step, of two ticks at most
		d.Clocks.Advance(at.Add(now))
		if !d.doubtLogin(&session.Ending{Outcome: wire.Stalled}) {
			t.Errorf("step %d: it does not wait", n)
		}
	}
	for n := 1; d.doubtLogin(&session.Ending{Outcome: wire.Stalled}); n++ {
		if n > steps {
			t.Fatalf("it waits for more than %d steps", steps)
		}
		d.Clocks.Advance(at.Add(time.Hour + time.Duration(n)*session.Tick))
	}
	if got := d.Clocks.Elapsed(); got != loginLimit {
		t.Errorf("waited %s", got)
	}
	if n := len(d.calls); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if d.doubtLogin(&session.Ending{Outcome: wire.TimedOut}) {
		t.Error("the limit of the run waits for the login")
	}
}

// Case -32001: an overloaded server is asked again, whatever it was asked.
func TestOverloaded(t *testing.T) {
	busy := func(s *server, method string) any {
		s.send(`{"id":%v,"error":{"code":-32001,"message":"busy"}}`, s.expect(method)["id"])
		return s.expect(method)["id"]
	}
	w := newWorld(t, func(s *server) {
		s.send(`{"id":%v,"result":{"userAgent":"os-codex/1 (x)"}}`, busy(s, "initialize"))
		s.expect("initialized")
		s.send(`{"id":%v,"result":{"thread":{"id":"T1"},"model":"m","sandbox":{"type":"readOnly"}}}`, busy(s, "thread/start"))
		s.send(`{"id":%v,"result":{"turn":{"id":"U1"}}}`, busy(s, "turn/start"))
		s.send(`{"method":"turn/started","params":{"threadId":"T1","turn":{"id":"U1"}}}`)
		s.done()
		_, _ = s.in.ReadString(0)
	})
	if out := w.run(t, t.Context()); out.Outcome != wire.Succeeded {
		t.Errorf("outcome %s, error %+v", out.Outcome, out.Error)
	}
	for _, method := range []string{"initialize", "thread/start", "turn/start"} {
		if want := `"code":"overloaded","message":"` + method + `: busy","attempt":1`; strings.Count(w.out.String(), want) != 1 {
			t.Errorf("not once %s in\n%s", want, w.out.String())
		}
	}
}

func TestOverloadedForEver(t *testing.T) {
	w := newWorld(t, func(s *server) {
		for range 2 {
			s.send(`{"id":%v,"error":{"code":-32001,"message":"busy"}}`, s.expect("initialize")["id"])
		}
		_, _ = s.in.ReadString(0)
	})
	w.cfg.StartTimeout = 500 * time.Millisecond
	if out := w.run(t, t.Context()); out.Error == nil || out.Error.Category != wire.CauseProtocol || !strings.Contains(out.Error.Message, "busy") {
		t.Errorf("outcome %s, error %+v", out.Outcome, out.Error)
	}
}

func TestRetryWaits(t *testing.T) {
	r := retry{limit: 10 * time.Second}
	var waits []string
	for {
		wait, ok := r.next()
		if !ok {
			break
		}
		waits = append(waits, wait.String())
	}
	if got := strings.Join(waits, " "); got != "200ms 400ms 800ms 1.6s 3.2s" || r.attempts != 5 {
		t.Errorf("waits %s, %d attempts", got, r.attempts)
	}
}
