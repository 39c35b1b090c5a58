package harness

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// noSecrets is a driver of which only the secrets are asked.
type noSecrets struct{ Driver }

func (noSecrets) Secrets(*Command) []string { return []string{"a-secret-key"} }

// asking returns a command in whose PATH os-poll is that script.
func asking(t *testing.T, script string) *Command {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "os-poll"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Dir: dir, Environ: []string{"PATH=" + dir + ":/usr/bin:/bin"}}
	return &Command{Env: env, Options: o, Workflow: &workflow.Workflow{Path: "WORKFLOW.md"}, driver: noSecrets{}}
}

func TestNotes(t *testing.T) {
	comment := `echo '{"v":1,"type":"comment","id":"c","body":"half done with a-secret-key","updated_at":null}'`
	for _, tt := range []struct{ name, script, want, wrong string }{
		{"a comment", `test "$*" = "comment latest 1" && test $OS_WORKFLOW = WORKFLOW.md && ` + comment, "half done with [redacted]", ""},
		{"none", "exit 0", "", ""},
		{"no such issue", `echo '{"v":1,"type":"gone","id":"1"}'`, "", ""},
		{"no comments there", "echo os-poll: no comments >&2; exit 78", "", "exit status 78: os-poll: no comments"},
		{"no record", "echo hello", "", "read the notes"},
	} {
		got, err := asking(t, tt.script).Notes(&wire.Workspace{Issue: &wire.Issue{ID: "1"}})(t.Context())
		switch {
		case got != tt.want:
			t.Errorf("%s: notes %q, want %q", tt.name, got, tt.want)
		case tt.wrong == "" && err != nil, tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.wrong)
		}
	}
}

func TestNotesOfNobody(t *testing.T) {
	c := asking(t, "exit 0")
	if c.Notes(&wire.Workspace{}) != nil {
		t.Error("without an issue there are notes")
	}
	c.Workflow.Path = ""
	if c.Notes(&wire.Workspace{Issue: &wire.Issue{ID: "1"}}) != nil {
		t.Error("without a tracker there are notes")
	}
}

func TestNotesAreGivenUp(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no time"))
	defer cancel()
	if _, err := asking(t, "exec sleep 600").Notes(&wire.Workspace{Issue: &wire.Issue{ID: "1"}})(ctx); err == nil || !strings.Contains(err.Error(), "no time") {
		t.Errorf("an os-poll that never ends: %v", err)
	}
}
