package codex

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/cli"
	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

var update = flag.Bool("update", false, "write the golden files")

func TestHelp(t *testing.T) {
	_, err := parse([]string{"--help"})
	var out *cli.Output
	if !errors.As(err, &out) {
		t.Fatalf("--help: %v", err)
	}
	checkGolden(t, "os-codex", out.Text)
}

func TestCheckHelp(t *testing.T) {
	err := check(t.Context(), &cli.Env{Dir: t.TempDir()}, []string{"--help"})
	var out *cli.Output
	if !errors.As(err, &out) {
		t.Fatalf("--help: %v", err)
	}
	checkGolden(t, "os-codex-check", out.Text)
}

func checkGolden(t *testing.T, name, text string) {
	t.Helper()
	golden := filepath.Join("testdata", "help", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("help is not %s; run go test -update and look at the difference:\n%s", golden, text)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		ok   func(*options) bool
	}{
		{"", func(o *options) bool {
			return !o.prompted && o.resume == "auto" && o.grace == 10*time.Second && o.approvals == approval.ByPolicy
		}},
		{"hello", func(o *options) bool { return o.prompted && o.prompt == "hello" }},
		{"-", func(o *options) bool { return o.prompted && o.prompt == "-" }},
		{"-- rehearse", func(o *options) bool { return o.prompt == "rehearse" }},
		{"--prompt-file p.md", func(o *options) bool { return o.prompted && o.promptFile == "p.md" }},
		{"--approval-policy on-request", func(o *options) bool { return o.approvalPolicy == "on-request" }},
		{`--approval-policy {"granular":{"rules":true}}`, func(o *options) bool {
			return reflect.DeepEqual(o.approvalPolicy, map[string]any{"granular": map[string]any{"rules": true}})
		}},
		{`--config a=1 --config b.c=text --config d=[true]`, func(o *options) bool {
			return reflect.DeepEqual(o.overrides, map[string]any{"a": 1.0, "b.c": "text", "d": []any{true}})
		}},
		{"--stall 0", func(o *options) bool { return o.duration("stall", o.stall, time.Hour) == 0 }},
		{"--timeout 5s", func(o *options) bool { return o.duration("stall", o.stall, time.Hour) == time.Hour }},
		{"--env A --env B=c=d --env E=", func(o *options) bool {
			allow, set := o.splitEnv()
			return reflect.DeepEqual(allow, []string{"A"}) && reflect.DeepEqual(set, map[string]string{"B": "c=d", "E": ""})
		}},
		{"--approvals mailbox --approval-wait 5s", func(o *options) bool {
			return o.approvals == approval.Mailbox && o.approvalWait == 5*time.Second && o.inputWait == defaultWait
		}},
		{"--goal x", func(o *options) bool { return o.goal == "x" && o.goalWait == 20*time.Second && o.maxTokens == 0 }},
		{"--max-tokens 9000000000 --goal-wait 0", func(o *options) bool { return o.maxTokens == 9e9 && o.goalWait == 0 }},
		{"--tools a --tools b", func(o *options) bool { return len(o.tools) == 2 && o.given["tools"] }},
	}
	for _, tt := range tests {
		o, err := parse(strings.Fields(tt.args))
		if err != nil || !tt.ok(o) {
			t.Errorf("%q: %+v, %v", tt.args, o, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"two", "words"}, {""}, {" "}, {"--prompt-file", "f", "x"}, {"--approvals", "always"}, {"--max-turns", "0"},
		{"--timeout", "-1s"}, {"--input-wait", "-1s"}, {"--config", "novalue"}, {"--config", "=x"}, {"--approval-policy", "{bad"}, {"--env", "=x"},
		{"--resume", ""}, {"--nonsense"}, {"--goal", " "}, {"--goal", "x", "--continue", "y"}, {"--goal-wait", "-1s"}, {"--max-tokens", "-1"},
	} {
		_, err := parse(args)
		if cli.Status(err) != cli.StatusUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
}

func TestNothingToDoOnATerminal(t *testing.T) {
	if isTerminal(strings.NewReader("")) || isTerminal(io.Discard) {
		t.Error("what has no descriptor is a terminal")
	}
}

func testCommand(args ...string) (*command, error) {
	o, err := parse(args)
	if err != nil {
		return nil, err
	}
	env := &cli.Env{Dir: "/here", Environ: []string{
		"PATH=/bin", "GITHUB_TOKEN=t", "BOARD_KEY=k", "OS_LOCK_FD=3", "OS_STATE_DIR=/old", "GIT_DIR=/x", "TMPDIR=/tmp", "KEPT=1",
		"OS_WORKFLOW=/flow/copy.md", "OS_WORKFLOW_DIR=/flow",
	}}
	w := workflow.Defaults(workflow.Options{}, "/flow")
	w.Tracker.Secrets = []string{"BOARD_KEY"}
	w.Agent.Env = []string{"KEPT"}
	return &command{env: env, options: o, workflow: w}, nil
}

func TestAgentEnv(t *testing.T) {
	c, err := testCommand("--env", "ADDED=x", "--env", "TMPDIR=/tmp")
	if err != nil {
		t.Fatal(err)
	}
	place := session.Place{RunID: "r1", State: "/state/A-1", Workspace: &wire.Workspace{Path: "/ws/A-1"}}
	got := c.agentEnv(place)
	want := []string{"ADDED=x", "KEPT=1", "OS_RUN_ID=r1", "OS_STATE_DIR=/state/A-1", "OS_WORKFLOW=/flow/copy.md", "OS_WORKSPACE=/ws/A-1", "PATH=/bin", "TMPDIR=" + state.TempDir("r1")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("environment\n%q, want\n%q", got, want)
	}
	host := strings.Join(c.hostEnv(), "\n")
	if !strings.Contains(host, "BOARD_KEY=k") || !strings.Contains(host, "OS_WORKFLOW_DIR=/flow") || strings.Contains(host, "OS_LOCK_FD") {
		t.Errorf("tools run with\n%s", host)
	}
}

func TestThreadPrefersFlags(t *testing.T) {
	place := session.Place{RunID: "r1", Workspace: &wire.Workspace{Path: t.TempDir(), Route: &wire.Route{Model: "routed", Effort: "low"}}}
	c, err := testCommand()
	if err != nil {
		t.Fatal(err)
	}
	c.workflow.Codex.TurnSandboxPolicy = map[string]any{"type": "workspaceWrite", "writableRoots": []any{"/mine"}}
	th := c.thread(place)
	if th.Model != "routed" || th.Effort != "low" || th.Sandbox != "workspace-write" || th.ApprovalPolicy != "never" {
		t.Errorf("thread %+v", th)
	}
	roots := th.TurnPolicy["writableRoots"]
	if want := []any{"/mine", state.TempDir("r1")}; !reflect.DeepEqual(roots, want) {
		t.Errorf("roots of a turn %q, want %q", roots, want)
	}
	flags, err := testCommand("--model", "m", "--effort", "high", "--sandbox", "read-only", "--approval-policy", "untrusted")
	if err != nil {
		t.Fatal(err)
	}
	flags.workflow = c.workflow
	th = flags.thread(place)
	if th.Model != "m" || th.Effort != "high" || th.Sandbox != "read-only" || th.ApprovalPolicy != "untrusted" || th.TurnPolicy != nil {
		t.Errorf("thread %+v", th)
	}
}

// Standard input that ends in a read that never returns does not keep the command.
func TestPromptFromStdin(t *testing.T) {
	c, err := testCommand("-")
	if err != nil {
		t.Fatal(err)
	}
	c.env.Stdin = strings.NewReader("do it\n")
	if text, err := c.prompt(t.Context()); err != nil || text != "do it\n" {
		t.Errorf("prompt %q, %v", text, err)
	}
	c.env.Stdin = strings.NewReader(" \n")
	if _, err := c.prompt(t.Context()); cli.Status(err) != cli.StatusNoInput {
		t.Errorf("an empty prompt: %v", err)
	}
}

func TestMakeTemp(t *testing.T) {
	id := "test-" + filepath.Base(t.TempDir()) + time.Now().String()
	dir, err := makeTemp(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi, err)
	}
	if again, err := makeTemp(id); err != nil || again != dir {
		t.Errorf("our own is not taken over: %v", err)
	}
	if err := errors.Join(os.Remove(dir), os.Symlink("/", dir)); err != nil {
		t.Fatal(err)
	}
	var refused *state.Refusal
	if _, err := makeTemp(id); !errors.As(err, &refused) {
		t.Errorf("a link is taken for a folder: %v", err)
	}
}

func TestDirectNeedsAFolder(t *testing.T) {
	var out, errs bytes.Buffer
	env := &cli.Env{Args: []string{"--cwd", "nowhere", "hello"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Environ: []string{"HOME=" + t.TempDir()}, Dir: t.TempDir(), Now: time.Now}
	if status := Main(env); status != cli.StatusNoInput || out.Len() != 0 {
		t.Errorf("status %d, stdout %q, stderr %q", status, out.String(), errs.String())
	}
}
