package harness

import (
	"errors"
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

func parse(args []string) (*Options, error) {
	o := NewOptions(&cli.Usage{Name: "os-test"})
	fs := o.usage.Flags()
	o.AddTo(fs)
	o.AddInputWait(fs)
	return o, o.Parse(fs, args)
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		ok   func(*Options) bool
	}{
		{"", func(o *Options) bool {
			return !o.prompted && o.Resume == session.ResumeAuto && o.Grace == 10*time.Second && o.Approvals == approval.ByPolicy
		}},
		{"hello", func(o *Options) bool { return o.prompted && o.prompt == "hello" }},
		{"-", func(o *Options) bool { return o.prompted && o.prompt == "-" }},
		{"-- rehearse", func(o *Options) bool { return o.prompt == "rehearse" }},
		{"--prompt-file p.md", func(o *Options) bool { return o.prompted && o.PromptFile == "p.md" }},
		{"--stall 0", func(o *Options) bool { return o.Duration("stall", o.Stall, time.Hour) == 0 }},
		{"--timeout 5s", func(o *Options) bool { return o.Duration("stall", o.Stall, time.Hour) == time.Hour }},
		{"--env A --env B=c=d --env E=", func(o *Options) bool {
			allow, set := o.splitEnv()
			return reflect.DeepEqual(allow, []string{"A"}) && reflect.DeepEqual(set, map[string]string{"B": "c=d", "E": ""})
		}},
		{"--approvals mailbox --approval-wait 5s", func(o *Options) bool {
			return o.Approvals == approval.Mailbox && o.ApprovalWait == 5*time.Second && o.InputWait == defaultWait
		}},
		{"--max-tokens 9000000000", func(o *Options) bool { return o.MaxTokens == 9e9 && o.Given("max-tokens") }},
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
		{"--timeout", "-1s"}, {"--input-wait", "-1s"}, {"--env", "=x"}, {"--resume", ""}, {"--nonsense"}, {"--max-tokens", "-1"},
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

func testCommand(args ...string) (*Command, error) {
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
	return &Command{Env: env, Options: o, Workflow: w}, nil
}

func TestAgentEnv(t *testing.T) {
	c, err := testCommand("--env", "ADDED=x", "--env", "TMPDIR=/tmp")
	if err != nil {
		t.Fatal(err)
	}
	place := session.Place{RunID: "r1", State: "/state/A-1", Workspace: &wire.Workspace{Path: "/ws/A-1"}}
	got := c.AgentEnv(place)
	want := []string{"ADDED=x", "KEPT=1", "OS_RUN_ID=r1", "OS_STATE_DIR=/state/A-1", "OS_WORKFLOW=/flow/copy.md", "OS_WORKSPACE=/ws/A-1", "PATH=/bin", "TMPDIR=" + state.TempDir("r1")}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("environment\n%q, want\n%q", got, want)
	}
	host := strings.Join(c.HostEnv(), "\n")
	if !strings.Contains(host, "BOARD_KEY=k") || !strings.Contains(host, "OS_WORKFLOW_DIR=/flow") || strings.Contains(host, "OS_LOCK_FD") {
		t.Errorf("tools run with\n%s", host)
	}
}

// Standard input that ends in a read that never returns does not keep the command.
func TestPromptFromStdin(t *testing.T) {
	c, err := testCommand("-")
	if err != nil {
		t.Fatal(err)
	}
	c.Env.Stdin = strings.NewReader("do it\n")
	if text, err := c.prompt(t.Context()); err != nil || text != "do it\n" {
		t.Errorf("prompt %q, %v", text, err)
	}
	c.Env.Stdin = strings.NewReader(" \n")
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
