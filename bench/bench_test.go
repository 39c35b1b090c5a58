package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

// TestMain lets the test program be the stand-in, as the bench itself is.
func TestMain(m *testing.M) {
	env := cli.System()
	if main := standInMain(env); main != nil {
		os.Exit(main(env))
	}
	os.Exit(m.Run())
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		of   sample
		want time.Duration
	}{
		{nil, 0}, {sample{3}, 3}, {sample{9, 1, 2}, 2}, {sample{8, 1, 100, 2}, 5},
	} {
		if got := tt.of.median(); got != tt.want {
			t.Errorf("median of %v is %v, want %v", tt.of, got, tt.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make(sample, 100)
	for i := range hundred {
		hundred[len(hundred)-1-i] = time.Duration(i + 1)
	}
	for _, tt := range []struct {
		of   sample
		p    int
		want time.Duration
	}{
		{nil, 50, 0}, {sample{3}, 50, 3}, {sample{3}, 99, 3}, {sample{2, 1}, 50, 1}, {hundred, 50, 50}, {hundred, 99, 99}, {hundred[:60], 99, 100},
	} {
		if got := tt.of.percentile(tt.p); got != tt.want {
			t.Errorf("percentile %d of %v is %v, want %v", tt.p, tt.of, got, tt.want)
		}
	}
}

func TestInTurnLeavesTheFirstRoundOut(t *testing.T) {
	var order strings.Builder
	times := map[string]time.Duration{"a": 100, "b": 200}
	timer := func(name string) task {
		return task{name, func(context.Context) (time.Duration, error) {
			order.WriteString(name)
			times[name]++
			return times[name], nil
		}}
	}
	s, err := inTurn(t.Context(), 2, timer("a"), timer("b"))
	if err != nil || order.String() != "ababab" || s[0][0] != 102 || s[1][1] != 203 {
		t.Errorf("order %q, samples %v, %v", order.String(), s, err)
	}
	broken := task{"broken", func(context.Context) (time.Duration, error) { return 0, errors.New("no") }}
	if _, err := inTurn(t.Context(), 1, broken); err == nil || err.Error() != "broken: no" {
		t.Errorf("a task that fails: %v", err)
	}
}

func TestRowsHaveTheirVerdict(t *testing.T) {
	line := compared("x", 30*time.Millisecond, 20*time.Millisecond, "y")
	var out strings.Builder
	if err := printRows(&out, line.within("<= 1.20x", false), line.within("<= 2.00x", true), line); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{"x 30.0 ms 20.0 ms y 1.50x <= 1.20x over", "x 30.0 ms 20.0 ms y 1.50x <= 2.00x ok", "x 30.0 ms 20.0 ms y 1.50x"} {
		if got := strings.Join(strings.Fields(rows[i]), " "); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParse(t *testing.T) {
	if o, err := parse([]string{"-only", "relay", "-quick"}); err != nil || o.only != "relay" || !o.quick || len(chosen(o.only)) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-only", "nothing"}, {"-nope"}, {"words"}} {
		if _, err := parse(args); cli.Status(err) != cli.StatusUsage {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out *cli.Output
	if _, err := parse([]string{"-help"}); !errors.As(err, &out) || !strings.Contains(out.Text, "relay, oh-relay, oh-memory, startup, steer, oh-steer") {
		t.Errorf("help: %v", err)
	}
}

func TestDeltaFrameHasItsSize(t *testing.T) {
	if n := len(deltaFrame()) + 1; n != frameBytes {
		t.Errorf("a frame has %d bytes, want %d", n, frameBytes)
	}
}

// The transcript that os-codex is measured with holds a whole session.
func TestBareSessionOnTheStandIn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "session.as")
	if err := os.WriteFile(file, []byte(sessionTranscript(">many 10 "+deltaFrame()+"\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), os.Args[0], standIn, file)
	if err := bareSession(server, dir); err != nil {
		t.Error(err)
	}
	broken := strings.Replace(sessionTranscript(""), `"completed"}}}`, `"failed"}}}`, 1)
	if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	server = exec.CommandContext(t.Context(), os.Args[0], standIn, file)
	if err := bareSession(server, dir); err == nil || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("a turn that failed: %v", err)
	}
}

func TestLineCounterSeesCutLines(t *testing.T) {
	c := &lineCounter{part: `"event":"message.delta"`}
	text := `{"event":"message.delta"}` + "\n" + `{"event":"message"}` + "\n" + `{"event":"message.delta"}` + "\n"
	for _, b := range []byte(text) {
		if _, err := c.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if c.lines != 2 {
		t.Errorf("%d lines, want 2", c.lines)
	}
}

func TestSchedulerRunsAsManyAsAreMeasured(t *testing.T) {
	for _, running := range []int{0, 10} {
		b := newBoard(30, running)
		if got := b.fill(); got != running {
			t.Errorf("%d runs were started, want %d", got, running)
		}
		if took, err := tick(t.Context(), 30, running, 1); err != nil || took <= 0 {
			t.Errorf("a pass took %v, %v", took, err)
		}
	}
}

func TestQuote(t *testing.T) {
	if got := quote("it's"); got != `'it'\''s'` {
		t.Errorf("got %s", got)
	}
}

// What is measured as a text's way is that of this very text, through the poller too.
func TestPollerHandsOver(t *testing.T) { handsOver(t, (*rig).steerPoller) }

func handsOver(t *testing.T, start func(*rig, context.Context) (*steered, error)) {
	t.Helper()
	s, err := start(&rig{dir: t.TempDir(), self: os.Args[0], environ: os.Environ()}, t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		if took, err := s.send(t.Context(), text); err != nil || took <= 0 || took > steerLimit {
			t.Errorf("%s took %v, %v", text, took, err)
		}
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.box, "two.request.json")); err == nil {
		t.Error("a text lies in the box after it was handed over")
	}
}
