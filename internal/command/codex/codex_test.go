package codex

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
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

func TestSendHelp(t *testing.T) {
	err := harness.Send(t.Context(), &cli.Env{Dir: t.TempDir()}, usage.Name, []string{"--help"})
	var out *cli.Output
	if !errors.As(err, &out) {
		t.Fatalf("--help: %v", err)
	}
	checkGolden(t, "os-codex-send", out.Text)
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
		{"--approval-policy on-request", func(o *options) bool { return o.approvalPolicy == "on-request" }},
		{`--approval-policy {"granular":{"rules":true}}`, func(o *options) bool {
			return reflect.DeepEqual(o.approvalPolicy, map[string]any{"granular": map[string]any{"rules": true}})
		}},
		{`--config a=1 --config b.c=text --config d=[true]`, func(o *options) bool {
			return reflect.DeepEqual(o.overrides, map[string]any{"a": 1.0, "b.c": "text", "d": []any{true}})
		}},
		{"--goal x", func(o *options) bool { return o.goal == "x" && o.goalWait == 20*time.Second }},
		{"--goal-wait 0", func(o *options) bool { return o.goalWait == 0 }},
		{"--tools a --tools b", func(o *options) bool { return len(o.Tools) == 2 && o.Given("tools") }},
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
		{"--config", "novalue"}, {"--config", "=x"}, {"--approval-policy", "{bad"}, {"--nonsense"}, {"--goal", " "},
		{"--goal", "x", "--continue", "y"}, {"--goal-wait", "-1s"}, {"two", "words"},
	} {
		_, err := parse(args)
		if cli.Status(err) != cli.StatusUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
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

func testDriver(t *testing.T, args ...string) (*harness.Command, driver) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Dir: "/here", Environ: []string{"PATH=/bin"}}
	return &harness.Command{Env: env, Options: o.Options, Workflow: workflow.Defaults(workflow.Options{}, "/flow")}, driver{o}
}

func TestThreadPrefersFlags(t *testing.T) {
	place := session.Place{RunID: "r1", Workspace: &wire.Workspace{Path: t.TempDir(), Route: &wire.Route{Model: "routed", Effort: "low"}}}
	c, d := testDriver(t)
	c.Workflow.Codex.TurnSandboxPolicy = map[string]any{"type": "workspaceWrite", "writableRoots": []any{"/mine"}}
	th := d.thread(c, place)
	if th.Model != "routed" || th.Effort != "low" || th.Sandbox != "workspace-write" || th.ApprovalPolicy != "never" {
		t.Errorf("thread %+v", th)
	}
	roots := th.TurnPolicy["writableRoots"]
	if want := []any{"/mine", state.TempDir("r1")}; !reflect.DeepEqual(roots, want) {
		t.Errorf("roots of a turn %q, want %q", roots, want)
	}
	_, flags := testDriver(t, "--model", "m", "--effort", "high", "--sandbox", "read-only", "--approval-policy", "untrusted")
	c.Options = flags.options.Options
	th = flags.thread(c, place)
	if th.Model != "m" || th.Effort != "high" || th.Sandbox != "read-only" || th.ApprovalPolicy != "untrusted" || th.TurnPolicy != nil {
		t.Errorf("thread %+v", th)
	}
}
