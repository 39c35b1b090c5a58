package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// The values of Thread.Sandbox.
const (
	sandboxReadOnly       = "read-only"
	sandboxWorkspaceWrite = "workspace-write"
	sandboxFull           = "danger-full-access"
)

// sandboxTypes is how the server calls them in its answers.
var sandboxTypes = map[string]string{
	sandboxReadOnly:       "readOnly",
	sandboxWorkspaceWrite: "workspaceWrite",
	sandboxFull:           "dangerFullAccess",
}

// sandboxPrefix begins the names of overrides that belong into workspaceWrite.
const sandboxPrefix = "sandbox_workspace_write."

// writeSandbox is Codex's configuration of workspace-write.
type writeSandbox struct {
	ExcludeSlashTmp     bool     `json:"exclude_slash_tmp"`
	ExcludeTmpdirEnvVar bool     `json:"exclude_tmpdir_env_var"`
	WritableRoots       []string `json:"writable_roots"`
	NetworkAccess       bool     `json:"network_access"`
}

// workspaceWrite leaves out /tmp and TMPDIR, which are shared with other agents and
// with ourselves: a private TMPDIR is a root of its own. Only the network and more
// roots can be given by overrides.
func (t *Thread) workspaceWrite() writeSandbox {
	w := writeSandbox{ExcludeSlashTmp: true, ExcludeTmpdirEnvVar: true, WritableRoots: []string{}, NetworkAccess: false}
	w.WritableRoots = append(w.WritableRoots, t.WritableRoots...)
	if more, ok := t.Overrides[sandboxPrefix+"writable_roots"].([]any); ok {
		for _, root := range more {
			w.WritableRoots = append(w.WritableRoots, fmt.Sprint(root))
		}
	}
	if on, ok := t.Overrides[sandboxPrefix+"network_access"].(bool); ok {
		w.NetworkAccess = on
	}
	return w
}

// check compares the sandbox that the server says it uses with the one that was
// asked for. An agent with more rights than its operator meant must not start. It
// reports false if the server does not say.
func (t *Thread) check(got gjson.Result) (said bool, err error) {
	want, known := sandboxTypes[t.Sandbox]
	switch {
	case !known:
		return true, nil // a word of a newer Codex, or Codex's own default
	case !got.IsObject():
		return false, nil
	case got.Get("type").String() != want:
		return true, differs("sandbox " + got.Get("type").String())
	case t.Sandbox != sandboxWorkspaceWrite:
		return true, nil
	}
	return true, t.workspaceWrite().check(got)
}

func (w writeSandbox) check(got gjson.Result) error {
	var roots []string
	for _, r := range got.Get("writableRoots").Array() {
		roots = append(roots, r.String())
	}
	slices.Sort(roots)
	wanted := slices.Sorted(slices.Values(w.WritableRoots))
	switch {
	case !got.Get("excludeSlashTmp").Bool() || !got.Get("excludeTmpdirEnvVar").Bool():
		return differs("a writable /tmp")
	case got.Get("networkAccess").Bool() != w.NetworkAccess:
		return differs(fmt.Sprintf("network access %v", got.Get("networkAccess").Bool()))
	case !slices.Equal(roots, wanted):
		return differs(fmt.Sprintf("the writable roots %q", roots))
	}
	return nil
}

func differs(what string) error {
	return session.Failf(wire.CauseProtocol, "app-server opened the thread with %s, which is not what was asked for", what)
}

// WorktreeRoots returns what an agent in the linked git worktree at dir must be able
// to write to commit there: objects, refs and logs of the repository and the
// worktree's own folder, but neither config nor hooks, with which it could plant a
// program that git runs outside the sandbox. Anything else, a plain clone too, has
// none.
//
// The agent could have rewritten the file .git to name another repository, so the
// worktree's folder there has to name dir in turn.
func WorktreeRoots(dir string) []string {
	gitDir, err := readPath(filepath.Join(dir, ".git"), "gitdir: ", dir)
	if err != nil {
		return nil
	}
	back, err := readPath(filepath.Join(gitDir, "gitdir"), "", gitDir)
	if err != nil || !samePath(back, filepath.Join(dir, ".git")) {
		return nil
	}
	common, err := readPath(filepath.Join(gitDir, "commondir"), "", gitDir)
	if err != nil || filepath.Dir(gitDir) != filepath.Join(common, "worktrees") {
		return nil
	}
	var roots []string
	for _, path := range []string{filepath.Join(common, "objects"), filepath.Join(common, "refs"), filepath.Join(common, "logs"), gitDir} {
		if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
			roots = append(roots, path)
		}
	}
	return roots
}

// RepositoryRoots returns the whole repository of the worktree at dir, config and hooks
// included, for an operator who wants the agent to commit in a plain clone. It can plant
// programs there that git runs outside the sandbox: nobody should run git in such a
// folder with the folder's own configuration.
func RepositoryRoots(dir string) []string {
	dotGit := filepath.Join(dir, ".git")
	if fi, err := os.Lstat(dotGit); err == nil && fi.IsDir() {
		return []string{dotGit}
	}
	roots := WorktreeRoots(dir)
	if len(roots) == 0 {
		return nil
	}
	// The worktree's own folder lies in <common>/worktrees.
	return []string{filepath.Dir(filepath.Dir(roots[len(roots)-1]))}
}

// readPath reads a file that holds one path after prefix, relative to base.
func readPath(file, prefix, base string) (string, error) {
	fi, err := os.Lstat(file)
	if err != nil {
		return "", err
	}
	if !fi.Mode().IsRegular() {
		return "", fmt.Errorf("%q is not a file", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), prefix)
	if !ok || path == "" {
		return "", fmt.Errorf("%q does not name a path", file)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.EvalSymlinks(path)
}

func samePath(a, b string) bool {
	one, err1 := os.Lstat(a)
	two, err2 := os.Lstat(b)
	return err1 == nil && err2 == nil && os.SameFile(one, two)
}
