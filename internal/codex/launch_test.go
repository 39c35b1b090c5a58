package codex

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidwall/gjson"
)

func TestArgv(t *testing.T) {
	shell := func(text string) []string { return []string{"bash", "-lc", text} }
	tests := []struct {
		command, program string
		want             []string
	}{
		{"codex app-server", "", []string{"codex", "app-server"}},
		{"  codex   app-server ", "", []string{"codex", "app-server"}},
		{`codex -c 'model="a b"' app-server`, "", []string{"codex", "-c", `model="a b"`, "app-server"}},
		{`codex -c 'x={a=1}' app-server`, "", []string{"codex", "-c", "x={a=1}", "app-server"}},
		{`codex a\ b`, "", []string{"codex", "a b"}},
		{"codex app-server", "/opt/codex", []string{"/opt/codex", "app-server"}},
		{"codex app-server | tee log", "", shell("codex app-server | tee log")},
		{`$HOME/codex app-server`, "", shell("$HOME/codex app-server")},
		{`codex -c "x=$Y" app-server`, "", shell(`codex -c "x=$Y" app-server`)},
		{"A=1 codex app-server", "", shell("A=1 codex app-server")},
		{"~/bin/codex app-server", "", shell("~/bin/codex app-server")},
		{"codex app-server 2>err", "/o p/c", shell("'/o p/c' app-server 2>err")},
	}
	for _, tt := range tests {
		got, err := Launch{Command: tt.command, Program: tt.program}.Argv()
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q with %q is %q, %v, want %q", tt.command, tt.program, got, err, tt.want)
		}
	}
	for _, command := range []string{"", "  ", "codex 'unclosed"} {
		if argv, err := (Launch{Command: command}).Argv(); err == nil {
			t.Errorf("%q is %q, want an error", command, argv)
		}
	}
}

func TestSandboxCheck(t *testing.T) {
	thread := func(sandbox string) Thread { return Thread{Sandbox: sandbox, WritableRoots: []string{"/t", "/r"}} }
	with := func(key string, value any) Thread {
		th := thread(sandboxWorkspaceWrite)
		th.Overrides = map[string]any{sandboxPrefix + key: value}
		return th
	}
	const good = `{"type":"workspaceWrite","writableRoots":["/r","/t"],"networkAccess":false,"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`
	tests := []struct {
		name   string
		thread Thread
		got    string
		said   bool
		ok     bool
	}{
		{"as asked for", thread(sandboxWorkspaceWrite), good, true, true},
		{"not said", thread(sandboxWorkspaceWrite), ``, false, true},
		{"another", thread(sandboxWorkspaceWrite), `{"type":"dangerFullAccess"}`, true, false},
		{"read-only", thread(sandboxReadOnly), `{"type":"readOnly","networkAccess":false}`, true, true},
		{"wider than read-only", thread(sandboxReadOnly), good, true, false},
		{"with /tmp", thread(sandboxWorkspaceWrite), `{"type":"workspaceWrite","writableRoots":["/r","/t"],"excludeTmpdirEnvVar":true}`, true, false},
		{"another root", thread(sandboxWorkspaceWrite), `{"type":"workspaceWrite","writableRoots":["/r","/t","/x"],"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`, true, false},
		{"a root less", thread(sandboxWorkspaceWrite), `{"type":"workspaceWrite","writableRoots":["/r"],"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`, true, false},
		{"with network", thread(sandboxWorkspaceWrite), `{"type":"workspaceWrite","writableRoots":["/r","/t"],"networkAccess":true,"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`, true, false},
		{"network was asked for", with("network_access", true), `{"type":"workspaceWrite","writableRoots":["/r","/t"],"networkAccess":true,"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`, true, true},
		{"a root was asked for", with("writable_roots", []any{"/x"}), `{"type":"workspaceWrite","writableRoots":["/r","/t","/x"],"excludeTmpdirEnvVar":true,"excludeSlashTmp":true}`, true, true},
		{"a word of a newer Codex", thread("new-sandbox"), `{"type":"newSandbox"}`, true, true},
	}
	for _, tt := range tests {
		said, err := tt.thread.check(gjson.Parse(tt.got))
		if said != tt.said || (err == nil) != tt.ok {
			t.Errorf("%s: said %t, %v; want %t and good %t", tt.name, said, err, tt.said, tt.ok)
		}
	}
}

// write makes files below dir and returns dir as it is without links.
func write(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Case C38: what a commit in a linked worktree needs, and nothing in other folders.
func TestWorktreeRoots(t *testing.T) {
	dir := write(t, t.TempDir(), map[string]string{
		"repo/.git/objects/x": "", "repo/.git/refs/x": "", "repo/.git/config": "", "repo/.git/hooks/x": "",
		"repo/.git/worktrees/tree/commondir":    "../..\n",
		"other/.git/worktrees/victim/gitdir":    "elsewhere\n",
		"other/.git/worktrees/victim/commondir": "../..\n",
		"plain/file":                            "",
	})
	common := filepath.Join(dir, "repo", ".git")
	write(t, dir, map[string]string{
		"tree/.git":                       "gitdir: " + filepath.Join(common, "worktrees", "tree") + "\n",
		"repo/.git/worktrees/tree/gitdir": filepath.Join(dir, "tree", ".git") + "\n",
		"forged/.git":                     "gitdir: " + filepath.Join(dir, "other", ".git", "worktrees", "victim") + "\n",
		"stolen/.git":                     "gitdir: " + filepath.Join(common, "worktrees", "tree") + "\n",
	})
	want := []string{filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "worktrees", "tree")}
	if got := WorktreeRoots(filepath.Join(dir, "tree")); !slices.Equal(got, want) {
		t.Errorf("roots %q, want %q", got, want)
	}
	for _, name := range []string{"repo", "plain", "forged", "stolen", "nothing"} {
		if got := WorktreeRoots(filepath.Join(dir, name)); got != nil {
			t.Errorf("%s has the roots %q, want none", name, got)
		}
	}
}
