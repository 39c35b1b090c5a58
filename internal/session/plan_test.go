package session

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"ostoolkit/internal/wire"
)

func TestPlan(t *testing.T) {
	active := &wire.Issue{Category: wire.CategoryActive}
	done := &wire.Issue{Category: wire.CategoryTerminal}
	answers := func(issues ...*wire.Issue) func(context.Context) (*wire.Issue, error) {
		return func(context.Context) (*wire.Issue, error) {
			next := issues[0]
			issues = issues[1:]
			return next, nil
		}
	}
	fails := func(context.Context) (*wire.Issue, error) { return nil, errors.New("no answer") }
	stops := func(context.Context) (*wire.Issue, error) { return nil, Cancelled(wire.CauseShutdown, "stop") }
	full, more := "full:F", "continuation:C"
	tests := []struct {
		name     string
		plan     Plan
		seeded   bool
		want     []string
		finished string
	}{
		{"one turn is enough", Plan{MaxTurns: 9}, false, []string{full}, "agent"},
		{"a seeded session", Plan{MaxTurns: 9}, true, []string{more}, "agent"},
		{"a prompt of its own", Plan{MaxTurns: 9, Given: true}, true, []string{full}, "agent"},
		{"all turns", Plan{MaxTurns: 3, Again: true}, false, []string{full, more, more}, "max_turns"},
		{"until done", Plan{MaxTurns: 9, Recheck: answers(active, done)}, false, []string{full, more}, "tracker"},
		{"until gone", Plan{MaxTurns: 9, Recheck: answers(nil)}, false, []string{full}, "tracker"},
		{"the cap", Plan{MaxTurns: 2, Recheck: answers(active)}, false, []string{full, more}, "max_turns"},
		{"a recheck that fails", Plan{MaxTurns: 2, Recheck: fails}, false, []string{full, more}, "max_turns"},
		{"a stop meanwhile", Plan{MaxTurns: 2, Recheck: stops}, false, []string{full}, "shutdown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.plan.Full, tt.plan.Continue = "F", "C"
			tt.plan.Warn = func(error) {}
			var got []string
			end := tt.plan.Run(t.Context(), tt.seeded, func(p Prompt) error {
				got = append(got, p.Kind+":"+p.Text)
				if p.Turn != len(got) {
					t.Errorf("turn %d is numbered %d", len(got), p.Turn)
				}
				return nil
			})
			if !slices.Equal(got, tt.want) || end.FinishedBy != tt.finished {
				t.Errorf("turns %q finished by %s, want %q by %s", got, end.FinishedBy, tt.want, tt.finished)
			}
		})
	}
}

// A turn's own failure counts before the limit of turns does.
func TestPlanFailure(t *testing.T) {
	p := Plan{MaxTurns: 1}
	end := p.Run(t.Context(), false, func(Prompt) error { return Failf(wire.CauseProvider, "no") })
	if end.Outcome != wire.Failed || end.Category != wire.CauseProvider {
		t.Errorf("ending %+v", end)
	}
}

func TestClocks(t *testing.T) {
	now := epoch
	pass := func(c *Clocks, d time.Duration) *Ending {
		for ; d > 0; d -= Tick {
			now = now.Add(Tick)
			if end := c.Advance(now); end != nil {
				return end
			}
		}
		return nil
	}
	c := &Clocks{Limits: Limits{Total: time.Minute, Turn: 20 * time.Second, Stall: 5 * time.Second}}
	c.Advance(now)
	if end := pass(c, 10*time.Second); end != nil {
		t.Errorf("before the first turn: %v", end)
	}
	c.Turn(true)
	for range 4 {
		if end := pass(c, 4*time.Second); end != nil {
			t.Errorf("with progress: %v", end)
		}
		c.Progress()
	}
	if end := pass(c, 5*time.Second); end == nil || end.Outcome != wire.TimedOut {
		t.Errorf("over the turn's limit: %v", end)
	}
	c.Turn(true)
	if end := pass(c, 6*time.Second); end == nil || end.Outcome != wire.Stalled {
		t.Errorf("without progress: %v", end)
	}
	c.Turn(false)
	if end := pass(c, time.Hour); end == nil || end.Outcome != wire.TimedOut {
		t.Errorf("over the run's limit: %v", end)
	}
}

// A night in suspend is no stall.
func TestClocksIgnoreAGap(t *testing.T) {
	c := &Clocks{Limits: Limits{Total: time.Second, Turn: time.Second, Stall: time.Second}}
	c.Turn(true)
	c.Advance(epoch)
	if end := c.Advance(epoch.Add(8 * time.Hour)); end != nil {
		t.Errorf("after a gap: %v", end)
	}
	if end := c.Advance(epoch); end != nil {
		t.Errorf("after a clock that was put back: %v", end)
	}
}

func TestMeter(t *testing.T) {
	u := func(total int64) *wire.Usage { return &wire.Usage{TotalTokens: wire.Count(total)} }
	tests := []struct {
		name    string
		begin   func(*Meter)
		totals  []int64
		lasts   []int64
		changes int
		own     int64
	}{
		{"fresh", (*Meter).Fresh, []int64{100, 100, 250}, []int64{100, 100, 150}, 2, 250},
		{"resumed, known", func(m *Meter) { m.Resumed(u(100)) }, []int64{100, 250}, []int64{100, 150}, 2, 150},
		{"resumed, unknown", func(m *Meter) { m.Resumed(nil) }, []int64{300, 350}, []int64{60, 50}, 2, 110},
		{"an older total that comes late", (*Meter).Fresh, []int64{100, 240, 120, 240}, []int64{100, 140, 120, 120}, 2, 240},
		{"a total that shrinks", func(m *Meter) { m.Resumed(u(100)) }, []int64{40}, []int64{40}, 1, 0},
	}
	for _, tt := range tests {
		m := &Meter{}
		tt.begin(m)
		changes := 0
		for i := range tt.totals {
			if m.Update(u(tt.totals[i]), u(tt.lasts[i])) {
				changes++
			}
		}
		if got := *m.Own().TotalTokens; got != tt.own || changes != tt.changes {
			t.Errorf("%s: own %d with %d changes, want %d with %d", tt.name, got, changes, tt.own, tt.changes)
		}
	}
}

func TestMeterUnknown(t *testing.T) {
	m := &Meter{}
	m.Fresh()
	if m.Own() != nil {
		t.Errorf("nothing was said and yet %+v was used", m.Own())
	}
	m.Update(&wire.Usage{InputTokens: wire.Count(5), OutputTokens: wire.Count(2)}, nil)
	own := m.Own()
	if own.TotalTokens == nil || *own.TotalTokens != 7 {
		t.Error("a missing total is not derived")
	}
	if own.ReasoningTokens != nil {
		t.Error("an unknown count is a number")
	}
}

func TestConversation(t *testing.T) {
	p := testPlace(t)
	if c, err := LoadConversation(p.State); c != nil || err != nil {
		t.Fatalf("none yet: %v, %v", c, err)
	}
	c := &Conversation{Harness: "codex", Contract: "v2", SessionID: "T1", Cwd: "/ws/A-1", IssueID: "1", Seeded: true}
	c.Note(&wire.Event{Seq: 3, Event: wire.EventMessage, Summary: "hello"})
	if err := c.Save(p.State); err != nil {
		t.Fatal(err)
	}
	got, err := LoadConversation(p.State)
	if err != nil {
		t.Fatal(err)
	}
	if got.SessionID != "T1" || !got.Seeded || got.LastEvent.ID != 3 {
		t.Errorf("read back %+v", got)
	}
	if why := got.Mismatch("codex", "v2", p); why != "" {
		t.Errorf("does not fit: %s", why)
	}
	got.Identifier = "A-1"
	if why := got.Mismatch("codex", "v2", p); why != "" {
		t.Errorf("does not fit with its identifier: %s", why)
	}
	for name, change := range map[string]func(*Conversation){
		"harness":  func(c *Conversation) { c.Harness = "openhands" },
		"contract": func(c *Conversation) { c.Contract = "v1" },
		"folder":   func(c *Conversation) { c.Cwd = "/elsewhere" },
		"issue":    func(c *Conversation) { c.IssueID = "2" },
		"name":     func(c *Conversation) { c.Identifier = "B-1" },
		"session":  func(c *Conversation) { c.SessionID = "" },
	} {
		other := *got
		change(&other)
		if other.Mismatch("codex", "v2", p) == "" {
			t.Errorf("another %s fits", name)
		}
	}
}

func TestRecheck(t *testing.T) {
	issue := &wire.Issue{ID: "1", Identifier: "A-1"}
	tests := []struct {
		name, command string
		category      string // of the issue; "" for gone
		bad           bool
	}{
		{"an issue", `cat >/dev/null; echo '{"v":1,"type":"issue","id":"1","category":"active"}'`, "active", false},
		{"gone", `echo '{"v":1,"type":"gone","id":"1"}'`, "", false},
		{"its answer counts, not its status", `echo '{"v":1,"type":"issue","id":"1","category":"other"}'; exit 65`, "other", false},
		{"noise around it", `echo hello; echo '{"v":1,"type":"gone","id":"2"}'; echo '{"v":1,"type":"gone","id":"1"}'; yes | head -n 100000`, "", false},
		{"nothing", `true`, "", true},
		{"a failure", `exit 3`, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &Recheck{Command: tt.command, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Issue: issue}
			got, err := r.Run(t.Context())
			switch {
			case tt.bad != (err != nil):
				t.Errorf("error %v", err)
			case tt.category == "" && got != nil, tt.category != "" && (got == nil || got.Category != tt.category):
				t.Errorf("issue %+v, want category %q", got, tt.category)
			}
		})
	}
}

func TestRecheckIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	r := &Recheck{Command: "exec sleep 600", Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}, Issue: &wire.Issue{ID: "1"}}
	if _, err := r.Run(ctx); err == nil {
		t.Error("a recheck that never ends has an answer")
	}
}

func TestWithheld(t *testing.T) {
	names := Withheld([]string{"MY_KEY", "OTHER_KEY"}, []string{"OTHER_KEY", "GITHUB_TOKEN"})
	for name, want := range map[string]bool{
		"MY_KEY": true, "OTHER_KEY": false, "GITHUB_TOKEN": false, "LINEAR_API_KEY": true,
		"OS_LOCK_FD": true, "OS_RUN_ID": false, "OS_STATE_DIR": false, "OPENAI_API_KEY": false,
	} {
		if got := slices.Contains(names, name); got != want {
			t.Errorf("%s is withheld: %t, want %t", name, got, want)
		}
	}
	values := Values([]string{"A=x", "MY_KEY=secret", "OTHER_KEY="}, []string{"MY_KEY", "OTHER_KEY"})
	if !slices.Equal(values, []string{"secret"}) {
		t.Errorf("values %q", values)
	}
}
