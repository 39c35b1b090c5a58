package workflow

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ostoolkit/internal/cli"
)

func openIn(dir, flag string, environ ...string) (*Workflow, string, error) {
	var errs bytes.Buffer
	env := &cli.Env{Stderr: &errs, Environ: append([]string{"HOME=/home/ada"}, environ...), Dir: dir}
	w, err := Open(flag, env)
	return w, errs.String(), err
}

// A copy means what its original means, wherever it lies, and goes by its name.
func TestOpenACopy(t *testing.T) {
	dir := t.TempDir()
	original, copied := filepath.Join(dir, fileName), filepath.Join(t.TempDir(), "copy.md")
	text := "---\nworkspace: {root: ws}\nno_such_key: 1\n---\nhello\n"
	if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w, said, err := openIn(dir, copied, "OS_WORKFLOW="+fileName, "OS_WORKFLOW_DIR="+dir)
	if err != nil {
		t.Fatal(err)
	}
	if w.Path != copied || w.Name != original || w.Dir != dir || w.Workspace.Root != filepath.Join(dir, "ws") || string(w.Text) != text {
		t.Errorf("path %q, name %q, folder %q, root %q, text %q", w.Path, w.Name, w.Dir, w.Workspace.Root, w.Text)
	}
	if !strings.Contains(said, "warning: WORKFLOW.md:3: ") || len(w.Warnings) != 1 {
		t.Errorf("warned %q, %v", said, w.Warnings)
	}
	if got := w.Environ(); got["OS_WORKFLOW"] != original || got["OS_WORKFLOW_DIR"] != dir {
		t.Errorf("variables %v", got)
	}
}

// OS_WORKFLOW alone gives a file that a flag names neither another name nor another
// folder; OS_WORKFLOW_DIR alone only the folder.
func TestOpenOneVariableAlone(t *testing.T) {
	dir := write(t, "---\nworkspace: {root: ws}\n---\nhello\n")
	path := filepath.Join(dir, fileName)
	for _, tt := range []struct{ flag, env, root string }{
		{path, "OS_WORKFLOW=/elsewhere/flow.md", filepath.Join(dir, "ws")},
		{path, "OS_WORKFLOW_DIR=/elsewhere/", "/elsewhere/ws"},
		{"", "OS_WORKFLOW_DIR=/elsewhere", "/elsewhere/ws"},
	} {
		w, said, err := openIn(dir, tt.flag, tt.env)
		if err != nil || said != "" || w.Name != path || w.Workspace.Root != tt.root {
			t.Errorf("%q, %q: %+v, said %q, %v", tt.flag, tt.env, w, said, err)
		}
	}
}

func TestOpenRefusesARelativeFolder(t *testing.T) {
	_, _, err := openIn(write(t, "hello\n"), "", "OS_WORKFLOW_DIR=here")
	if cli.Status(err) != cli.StatusConfig || !strings.Contains(err.Error(), `OS_WORKFLOW_DIR is "here"`) {
		t.Errorf("%v", err)
	}
}
