package loop

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

var update = flag.Bool("update", false, "write the golden help texts")

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want options
	}{
		{"", options{onExit: "stop", grace: 10e9}},
		{"w.md --once", options{workflow: "w.md", mode: schedule.Once, onExit: "stop", grace: 10e9}},
		{"--until-idle --timeout 1m --on-exit detach", options{mode: schedule.UntilIdle, timeout: 60e9, onExit: "detach", grace: 10e9}},
		{"--plan", options{plan: true, onExit: "stop", grace: 10e9}},
		{"--dry-run --grace 0s --state-unsafe", options{dryRun: true, mode: schedule.UntilIdle, onExit: "stop", stateUnsafe: true}},
	}
	for _, tt := range tests {
		got, err := parse(strings.Fields(tt.args))
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
		} else if *got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.args, *got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--once --until-idle": "exclude",
		"--plan --once":       "exclude",
		"--plan --dry-run":    "exclude",
		"--on-exit leave":     `"leave"`,
		"--grace -1s":         "negative",
		"a.md b.md":           `"b.md"`,
		"--max-turns=3":       "--max-turns", // case L11: no flag of somebody else is taken for a file
	} {
		_, err := parse(strings.Fields(args))
		if cli.Status(err) != cli.StatusUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: status %d, %v", args, cli.Status(err), err)
		}
	}
}

func TestHelp(t *testing.T) {
	texts := map[string]*cli.Usage{"os-loop": usage(), "os-loop-status": statusUsage(), "os-loop-send": sendUsage(), "os-loop-check": checkUsage(),
		"os-loop-stop": orderUsage("stop", "ISSUE")}
	for name, u := range texts {
		args := []string{"--help"}
		env := &cli.Env{Args: append(strings.Fields(strings.TrimPrefix(u.Name, "os-loop")), args...)}
		err := start(t.Context(), env)
		var out *cli.Output
		if !errors.As(err, &out) {
			t.Fatalf("%s: %v", name, err)
		}
		path := filepath.Join("testdata", "help", name+".golden")
		if *update {
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(out.Text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if out.Text != string(want) {
			t.Errorf("%s: help has changed; go test -update writes it:\n%s", name, out.Text)
		}
	}
}

// Each verb is in the help, and each in the help is a verb.
func TestVerbs(t *testing.T) {
	all := verbs()
	for _, v := range verbLines {
		if all[v[0]] == nil {
			t.Errorf("%s is in the help only", v[0])
		}
		delete(all, v[0])
	}
	for name := range all {
		t.Errorf("%s is not in the help", name)
	}
}

func TestReport(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	s := &loop.State{PID: 7}
	s.Paused = true
	s.Tracker = "unavailable: no route"
	s.Holds = []schedule.Hold{{Backend: "codex", Reason: "auth", Until: wire.At(now.Add(time.Hour))}}
	s.Running = []schedule.Entry{{Identifier: "A-1", State: "Todo", RunID: "r1", Tokens: 5, Lifetime: schedule.Lifetime{Tokens: 10}}, {Identifier: "A-22", Asking: true}}
	s.Waiting = []schedule.Entry{{Identifier: "A-3", Reason: "stalled", DueAt: wire.At(now.Add(90 * time.Second))}}
	s.Skipped = []schedule.Skipped{{Identifier: "Ä\x1b[31m", Reason: "blocked by A-1 (Todo)"}}
	want := `os-loop 7, paused, tracker: unavailable: no route
codex is held until 2026-11-30T13:00:00Z: auth
ISSUE   STATUS   STATE  RUN  TOKENS  WHY
A-1     running  Todo   r1   15      -
A-22    asking   -      -    0       -
A-3     waiting  -      -    0       stalled, due in 1m30s
Ä?[31m  skipped  -      -    -       blocked by A-1 (Todo)
`
	if got := report(s, true, 0, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(strings.TrimSpace(table(rows(s, now), 20)), "\n") {
		if n := len([]rune(l)); n > 20 {
			t.Errorf("%q has %d columns", l, n)
		}
	}
	if got := report(&loop.State{PID: 7}, false, 0, now); got != "no os-loop runs; this is the last state\nnothing is claimed and nothing waits\n" {
		t.Errorf("an empty one: %q", got)
	}
}

// The examples pass the check that a newcomer is told to run.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*/WORKFLOW.md")
	if err != nil || len(files) < 3 {
		t.Fatalf("%q, %v", files, err)
	}
	bin := t.TempDir()
	for _, name := range []string{"os-poll", "os-workspace", "os-codex", "codex"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(file))); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		env := &cli.Env{
			Args: []string{"check", "--offline"}, Stdout: &out, Stderr: &out, Dir: dir, Now: time.Now,
			Environ: []string{"PATH=" + bin, "HOME=" + dir, "TMPDIR=" + dir, "LINEAR_API_KEY=key"},
		}
		if err := start(t.Context(), env); err != nil || strings.Contains(out.String(), "FAIL") {
			t.Errorf("%s: %v\n%s", file, err, out.String())
		}
	}
}

// What keeps it from working has a line and a status of its own.
func TestCheckFinds(t *testing.T) {
	for text, want := range map[string]struct {
		status int
		line   string
	}{
		"---\nagnet: {}\n---\nx": {cli.StatusConfig, "agnet"},
		"---\nrouting: {harness: x, harnesses: {x: {command: ./no.sh}}}\n---\nx":                  {cli.StatusUnavailable, "no.sh"},
		"---\nworkspace: {root: /proc/nothing}\n---\nx":                                           {cli.StatusState, "/proc"},
		"---\nrouting: {harness: x, harnesses: {x: {command: \"unclosed 'quote\"}}}\n---\nx":      {cli.StatusConfig, "quote"},
		"---\ntracker: {terminal_states: []}\n---\nx":                                             {cli.StatusConfig, ""},
		"---\ncodex: {command: /nowhere/codex app-server}\nworkspace: {root: workspaces}\n---\nx": {cli.StatusUnavailable, "/nowhere/codex"},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"WORKFLOW.md": text, "os-poll": "", "os-workspace": "", "os-codex": "", "codex": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		env := &cli.Env{
			Args: []string{"check", "--offline"}, Stdout: &out, Stderr: &out, Dir: dir, Now: time.Now,
			Environ: []string{"PATH=" + dir, "HOME=" + dir, "TMPDIR=" + dir},
		}
		err := start(t.Context(), env)
		if cli.Status(err) != want.status || !strings.Contains(out.String(), want.line) {
			t.Errorf("%q: status %d, want %d with %q\n%s", text, cli.Status(err), want.status, want.line, out.String())
		}
	}
}
