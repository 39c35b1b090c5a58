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
	"ostoolkit/internal/schedule"
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
		{"--listen 0", options{listen: "0", onExit: "stop", grace: 10e9}},
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
	texts := map[string]*cli.Usage{"os-loop": usage(), "os-loop-status": statusUsage(), "os-loop-send": sendUsage(), "os-loop-check": checkUsage(), "os-loop-events": eventsUsage(),
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
			Environ: []string{"PATH=" + bin + ":/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "LINEAR_API_KEY=key"},
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
		"---\nhooks: {before_run: 'if true; then'}\n---\nx":                                       {cli.StatusConfig, "before_run: sh cannot read it"},
		"---\nhooks: {after_create: 'no-such-program --now'}\n---\nx":                             {cli.StatusUnavailable, `"no-such-program" is not to be found`},
		"---\nserver: {port: 65000, token_env: NO_TOKEN}\n---\nx":                                 {cli.StatusConfig, "NO_TOKEN, which is not set"},
	} {
		dir := t.TempDir()
		const empty = "#!/bin/sh\n"
		for name, content := range map[string]string{"WORKFLOW.md": text, "os-poll": empty, "os-workspace": empty, "os-codex": empty, "codex": empty} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		env := &cli.Env{
			Args: []string{"check", "--offline"}, Stdout: &out, Stderr: &out, Dir: dir, Now: time.Now,
			Environ: []string{"PATH=" + dir + ":/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir},
		}
		err := start(t.Context(), env)
		if cli.Status(err) != want.status || !strings.Contains(out.String(), want.line) {
			t.Errorf("%q: status %d, want %d with %q\n%s", text, cli.Status(err), want.status, want.line, out.String())
		}
	}
}
