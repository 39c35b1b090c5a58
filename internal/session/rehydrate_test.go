package session

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ostoolkit/internal/wire"
)

func TestLostPrompt(t *testing.T) {
	l := &Lost{Reason: "it ran out of context", Notes: "- half done\n", Told: []string{"be quick", "be thorough"}, Recap: []string{"- message: one"}}
	text := l.Prompt("Do it\n")
	at := -1
	for _, want := range []string{"Do it\n\n## Earlier work", "continued: it ran out of context.", "- half done", "- message: one", "be quick\n\nbe thorough"} {
		i := strings.Index(text, want)
		if i <= at {
			t.Errorf("%q stands at %d, want it behind %d:\n%s", want, i, at, text)
		}
		at = i
	}
	if text := (&Lost{Reason: "it is gone"}).Prompt("Do it"); strings.Contains(text, "###") {
		t.Errorf("nothing is known and yet there are sections:\n%s", text)
	}
}

// Whatever was lost, the prompt leaves room.
func TestLostPromptIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 1<<20)
	l := &Lost{Reason: "it ran out of context", Notes: long, Told: []string{"an older text", long}, Recap: []string{long, "- message: last"}}
	text := l.Prompt("Do it")
	if len(text) > 32<<10 {
		t.Errorf("the prompt has %d bytes", len(text))
	}
	for _, want := range []string{"[the rest is left out]", "- message: last"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "an older text") || strings.Contains(text, "\ufffd") {
		t.Error("an older text was kept before the newest, or a character cut in two")
	}
}

func TestNewest(t *testing.T) {
	for _, tt := range []struct {
		texts []string
		limit int
		want  []string
	}{
		{nil, 4, nil},
		{[]string{"one", "two"}, 6, []string{"one", "two"}},
		{[]string{"one", "two"}, 5, []string{"two"}},
		{[]string{"one", "three"}, 3, []string{"thr"}},
	} {
		if got := newest(tt.texts, tt.limit); !slices.Equal(got, tt.want) {
			t.Errorf("newest %q in %d: %q, want %q", tt.texts, tt.limit, got, tt.want)
		}
	}
}

// writeEvents writes a run's log with n messages of the session.
func writeEvents(t *testing.T, p Place, run, session string, n int, more ...string) {
	t.Helper()
	var lines []byte
	for i := range n {
		ev := &wire.Event{Time: wire.At(epoch), Seq: int64(i + 1), RunID: run, Session: wire.Text(session), Event: wire.EventMessage,
			Summary: fmt.Sprintf("%s %d", run, i+1), Members: &wire.Item{Text: "secret"}}
		var err error
		if lines, err = wire.Append(lines, ev); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, '\n')
	}
	path := p.State.Run(run).Events()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(lines, strings.Join(more, "\n")...), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecap(t *testing.T) {
	p := testPlace(t)
	writeEvents(t, p, "20260101-1", "other", 3)
	writeEvents(t, p, "20260101-2", "S", 1)
	writeEvents(t, p, "20260101-3", "S", 2,
		`{"v":1,"type":"event","session":"S","event":"warning","summary":"not for the agent"}`,
		`{"v":1,"type":"event","session":"S","event":"command.completed","summary":"exit 0: make"}`,
		`{"v":1,"type":"event","session":"S","event":"mess`)
	got, err := p.Recap("S")
	want := []string{"- message: 20260101-2 1", "- message: 20260101-3 1", "- message: 20260101-3 2", "- command.completed: exit 0: make"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("recap %q (%v), want %q", got, err, want)
	}
	if got, err := p.Recap("unheard of"); len(got) != 0 || err != nil {
		t.Errorf("of another session: %q, %v", got, err)
	}
}

// The newest events are told, from the end of a long log.
func TestRecapOfMany(t *testing.T) {
	p := testPlace(t)
	writeEvents(t, p, "20260101-1", "S", 20_000)
	got, err := p.Recap("S")
	if err != nil || len(got) != maxRecap || got[maxRecap-1] != "- message: 20260101-1 20000" {
		t.Errorf("%d lines up to %q (%v)", len(got), got[len(got)-1:], err)
	}
}

// A run that goes on in another session counts both, in its own share and in the totals.
func TestMeterRenewed(t *testing.T) {
	u := func(in, out int64) *wire.Usage {
		return &wire.Usage{InputTokens: wire.Count(in), OutputTokens: wire.Count(out), TotalTokens: wire.Count(in + out)}
	}
	m := &Meter{}
	m.Resumed(u(80, 20))
	m.Update(u(180, 40), nil)
	m.Renew()
	if *m.Total().TotalTokens != 220 || *m.Own().TotalTokens != 120 {
		t.Errorf("after the loss: total %d, own %d", *m.Total().TotalTokens, *m.Own().TotalTokens)
	}
	m.Update(u(50, 5), nil)
	if *m.Total().InputTokens != 230 || *m.Own().InputTokens != 150 || *m.Own().TotalTokens != 175 {
		t.Errorf("total %+v, own %+v", *m.Total().InputTokens, *m.Own().InputTokens)
	}
	// The next run, to which the peer reports the new session's totals only.
	next := &Meter{}
	next.Carry(m.Carried())
	next.Resumed(m.Total())
	next.Update(u(60, 10), nil)
	if *next.Own().TotalTokens != 15 || *next.Total().TotalTokens != 290 {
		t.Errorf("the next run: total %d, own %d", *next.Total().TotalTokens, *next.Own().TotalTokens)
	}
}

func TestConversationUsed(t *testing.T) {
	some, all := &wire.Usage{TotalTokens: wire.Count(5)}, &wire.Usage{TotalTokens: wire.Count(7)}
	for _, tt := range []struct {
		c    Conversation
		want *wire.Usage
	}{
		{Conversation{}, nil},
		{Conversation{Carried: some}, some},
		{Conversation{Carried: some, Seeded: true}, nil}, // its run was killed, and did not say
		{Conversation{Carried: some, Usage: all, Seeded: true}, all},
	} {
		if got := tt.c.Used(); got != tt.want {
			t.Errorf("%+v has used %+v", tt.c, got)
		}
	}
}
