package loop

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func testView() *loop.View {
	s := &loop.State{PID: 7, Slots: 10}
	s.Totals = loop.Totals{Since: wire.At(noon.Add(-time.Hour)), Runs: 3, TotalTokens: 100, Seconds: 90}
	s.Paused = true
	s.Tracker = "unavailable: no route"
	s.Holds = []schedule.Hold{{Backend: "codex", Reason: "auth", Until: wire.At(noon.Add(time.Hour))}}
	s.Waiting = []schedule.Entry{{Identifier: "A-3", Reason: "stalled", DueAt: wire.At(noon.Add(90 * time.Second))}}
	s.Parked = []schedule.Entry{{Identifier: "A-4", Title: "日本語の長い題名", Reason: "no_progress", ParkedAt: wire.At(noon.Add(-26 * time.Hour))}}
	s.Skipped = []schedule.Skipped{{Identifier: "Ä\x1b[31m", Reason: "blocked by A-1 (Todo)"}}
	first := loop.Seen{Entry: schedule.Entry{
		Identifier: "A-1", Title: "One", State: "Todo", RunID: "r1", Harness: "codex", Tokens: 5, Lifetime: schedule.Lifetime{Tokens: 10},
	}}
	first.StartedAt, first.Turn = wire.At(noon.Add(-65*time.Second)), wire.Count(2)
	first.LastEvent, first.LastMessage, first.LastEventAt = "message", "done\u202eso", wire.At(noon.Add(-3*time.Second))
	return &loop.View{Alive: true, State: s, Running: []loop.Seen{first, {Entry: schedule.Entry{Identifier: "A-22", Asking: true}}}}
}

func plainScreen(width int) *screen {
	return &screen{width: width, terminal: width > 0, cells: &runewidth.Condition{StrictEmojiNeutral: true}}
}

// Case L19: running, asking, waiting and parked are told apart, each with its reason.
func TestReport(t *testing.T) {
	want := `os-loop 7, paused
tracker: unavailable: no route
codex is held until 2026-11-30T13:00:00Z: auth
ISSUE   STATUS   STATE  HARNESS  TURN  TOKENS  TIME      TITLE             WHAT
A-1     running  Todo   codex    2     15      1m05s     One               3s ago message: doneso
A-22    asking   -      -        -     0       -         -                 -
A-3     waiting  -      -        -     0       in 1m30s  -                 stalled
A-4     parked   -      -        -     0       1d2h      日本語の長い題名  no_progress
Ä?[31m  skipped  -      -        -     -       -         -                 blocked by A-1 (Todo)
2 of 10 running, 1 waiting, 1 parked, 1 skipped; since 2026-11-30T11:00:00Z 3 runs, 105 tokens, 2m35s
`
	if got := plainScreen(0).report(testView(), noon); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	empty := &loop.View{State: &loop.State{Slots: 2}, StateAt: wire.At(noon.Add(-time.Minute))}
	want = "no os-loop runs; this is the last state, 1m00s old\nnothing is claimed and nothing waits\n0 of 2 running, 0 waiting, 0 parked, 0 skipped\n"
	if got := plainScreen(0).report(empty, noon); got != want {
		t.Errorf("an empty one: %q", got)
	}
}

// No line is wider than the screen, by what its characters take there, with colours or
// without; and no colour is left on.
func TestReportFitsTheScreen(t *testing.T) {
	for width := 1; width < 130; width++ {
		s := plainScreen(width)
		plain := s.lines(testView(), noon)
		for _, l := range plain {
			if n := s.cells.StringWidth(l); n > width {
				t.Errorf("width %d: %q takes %d", width, l, n)
			}
		}
		s.colour = true
		for i, l := range s.lines(testView(), noon) {
			if strings.Count(l, "\x1b[0m")*2 != strings.Count(l, "\x1b[") {
				t.Errorf("width %d: a colour is left on: %q", width, l)
			}
			if got := uncoloured(l); got != plain[i] {
				t.Errorf("width %d: %q, without colours %q", width, got, plain[i])
			}
		}
	}
}

// uncoloured also drops the spaces at the end, which a colour may hide.
func uncoloured(line string) string {
	var b strings.Builder
	for i, part := range strings.Split(line, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		b.WriteString(part)
	}
	return strings.TrimRight(b.String(), " ")
}

// A frame takes the place of the one before, and is never higher than the screen.
func TestFrames(t *testing.T) {
	s := plainScreen(60)
	s.height = 6
	s.fd = -1 // its size is not asked for
	first := s.frame(testView(), noon)
	if strings.Contains(first, "\x1b[5F") || strings.Count(first, "\n") != 5 || !strings.Contains(first, "… 6 more lines\x1b[K\n\x1b[J") {
		t.Errorf("first: %q", first)
	}
	if second := s.frame(testView(), noon); !strings.HasPrefix(second, "\x1b[5Fos-loop 7, paused\x1b[K\n") {
		t.Errorf("second: %q", second)
	}
}

// Colours are for terminals only, so that a pipe gets none.
func TestNoColourWithoutTerminal(t *testing.T) {
	s := screenOf(&cli.Env{Stdout: &bytes.Buffer{}, Environ: []string{"TERM=xterm"}})
	if s.terminal || s.colour || strings.Contains(s.report(testView(), noon), "\x1b") {
		t.Errorf("%+v", s)
	}
}

func TestSinceWhen(t *testing.T) {
	for text, want := range map[string]time.Time{"": {}, "30m": noon.Add(-30 * time.Minute), "2026-11-30T12:00:00Z": noon} {
		if got, err := sinceWhen(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := sinceWhen("yesterday", noon); cli.Status(err) != cli.StatusUsage || !strings.Contains(fmt.Sprint(err), "yesterday") {
		t.Errorf("%v", err)
	}
}

func TestFirstProgram(t *testing.T) {
	for text, want := range map[string]string{
		"git init -q .": "git", "\n# a remark\n  npm ci && x": "npm", "set -e; x": "set", "/usr/bin/env x": "/usr/bin/env",
		"./setup.sh": "", "A=1 x": "", "(cd x)": "", "\"$X\" y": "", "# nothing": "",
	} {
		if got := firstProgram(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
