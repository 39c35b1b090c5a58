package workspace

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/proc"
)

// gitLimit bounds the whole look into one folder.
const gitLimit = 30 * time.Second

// Unsaved tells what work in p's folder is nowhere else, in words that follow the
// folder's name, or "": changes that are not committed, files that git does not know
// and does not ignore, and commits that no remote-tracking ref has. In a linked
// worktree, whose branches lie elsewhere, only a detached HEAD can have such commits.
// Without a repository in the folder, or in a folder right below it, there is nothing
// to tell. An error means that nobody can say.
//
// An agent may have written all that lies there, so that git never reads the
// repository's own configuration; see repository. The caller holds the lock.
func (s *Store) Unsaved(ctx context.Context, p Place) (reason string, err error) {
	_, reason, err = unsaved(ctx, p, func(tree string) *gitLook { return s.look(p, tree) })
	return reason, err
}

// unsaved is Unsaved that also tells whether there is a repository at all.
func unsaved(ctx context.Context, p Place, look func(tree string) *gitLook) (found bool, reason string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitLimit, fmt.Errorf("git took longer than %v", gitLimit))
	defer cancel()
	trees, err := worktrees(p.Path)
	if err != nil {
		return false, "", err
	}
	for _, tree := range trees {
		err := look(tree).in(ctx, func(ctx context.Context, g *gitLook) (err error) {
			reason, err = g.unsaved(ctx)
			return err
		})
		if rel, _ := filepath.Rel(p.Path, tree); rel != "." && reason != "" {
			reason = fmt.Sprintf("has a repository in %q that %s", rel, reason)
		}
		if err != nil || reason != "" {
			return true, reason, err
		}
	}
	return len(trees) > 0, "", nil
}

// worktrees returns the folders that have a repository: path itself, or those in it.
func worktrees(path string) ([]string, error) {
	if has, err := hasGit(path); err != nil || has {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("look for repositories: %w", err)
	}
	var trees []string
	for _, e := range entries {
		tree := filepath.Join(path, e.Name())
		if !e.IsDir() {
			continue
		}
		has, err := hasGit(tree)
		if err != nil {
			return nil, err
		}
		if has {
			trees = append(trees, tree)
		}
	}
	return trees, nil
}

func hasGit(path string) (bool, error) {
	_, err := os.Lstat(filepath.Join(path, ".git"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a repository: %w", err)
	}
	return true, nil
}

// gitLook is one look at a repository. It belongs to one goroutine.
type gitLook struct {
	tree    string
	dir     string            // git's GIT_DIR: ours, made for this look and removed after it
	marks   map[string]string // by which a git that outlived us is found
	environ []string
	repo    *repository
}

// look prepares a look at one worktree of p's folder.
func (s *Store) look(p Place, tree string) *gitLook {
	marks := map[string]string{"OS_HOOK": "unsaved", "OS_STATE_DIR": string(p.Dir)}
	return &gitLook{tree: tree, dir: filepath.Join(string(p.Dir), "git"), marks: marks, environ: s.config.Environ}
}

// in calls do while the look's own GIT_DIR is there.
func (g *gitLook) in(ctx context.Context, do func(context.Context, *gitLook) error) (err error) {
	if g.repo, err = findRepository(g.tree); err != nil {
		return err
	}
	// A look that was killed left its folder.
	if err := os.RemoveAll(g.dir); err != nil {
		return fmt.Errorf("make a folder for git: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(g.dir)) }()
	if err := g.repo.shadow(ctx, g); err != nil {
		return err
	}
	return do(ctx, g)
}

func (g *gitLook) unsaved(ctx context.Context) (string, error) {
	for _, look := range []func(context.Context) (string, error){g.changes, g.submodules, g.commits} {
		if reason, err := look(ctx); err != nil || reason != "" {
			return reason, err
		}
	}
	return "", nil
}

// changes looks at the files.
func (g *gitLook) changes(ctx context.Context) (string, error) {
	first, err := g.first(ctx, func([]byte) bool { return true },
		"status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames")
	if err != nil || len(first) < 4 {
		return "", err
	}
	if bytes.HasPrefix(first, []byte("??")) {
		return fmt.Sprintf("has files that are not in git, such as %q", first[3:]), nil
	}
	return fmt.Sprintf("has uncommitted changes, such as in %q", first[3:]), nil
}

// submodules refuses to judge a submodule that is checked out: git would look into it
// with the configuration that it finds there.
func (g *gitLook) submodules(ctx context.Context) (string, error) {
	const gitlink = "160000 "
	found, err := g.first(ctx, func(entry []byte) bool {
		_, path, ok := bytes.Cut(entry, []byte("\t"))
		if !ok || !bytes.HasPrefix(entry, []byte(gitlink)) {
			return false
		}
		has, err := hasGit(filepath.Join(g.tree, string(path)))
		return has || err != nil
	}, "ls-files", "--stage", "-z")
	if err != nil || found == nil {
		return "", err
	}
	_, path, _ := bytes.Cut(found, []byte("\t"))
	return "", fmt.Errorf("the submodule %q is not looked into", path)
}

// commits looks for commits that go with the folder.
func (g *gitLook) commits(ctx context.Context) (string, error) {
	args := []string{"rev-list", "--max-count=1"}
	if g.repo.detached != "" {
		args = append(args, g.repo.detached)
	}
	switch {
	case g.repo.own:
		// A stash is a ref without a pattern of its own.
		args = append(args, "--branches", "--glob=refs/stas[h]", "--not", "--remotes")
	case g.repo.detached != "":
		args = append(args, "--not", "--glob=refs/*")
	default:
		return "", nil // its branch stays where it is
	}
	commit, err := g.first(ctx, func([]byte) bool { return true }, append(args, "--")...)
	if err != nil || len(commit) == 0 {
		return "", err
	}
	return fmt.Sprintf("has commits that are nowhere else, such as %.12s", commit), nil
}

// first runs git and returns the first entry of its output that match takes, or nil.
func (g *gitLook) first(ctx context.Context, match func(entry []byte) bool, args ...string) (found []byte, err error) {
	err = g.each(ctx, func(entry []byte) (bool, error) {
		if !match(entry) {
			return true, nil
		}
		found = bytes.Clone(entry)
		return false, nil
	}, args...)
	return found, err
}

// each runs git and calls do for the entries of its output, which end in NUL or LF,
// as long as do wants more.
func (g *gitLook) each(ctx context.Context, do func(entry []byte) (more bool, err error), args ...string) error {
	out, err := g.git(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // read only from here on
	entries := bufio.NewScanner(out)
	entries.Buffer(nil, 1<<20)
	entries.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexAny(data, "\x00\n"); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for entries.Scan() {
		if more, err := do(entries.Bytes()); err != nil || !more {
			return err
		}
	}
	return entries.Err()
}

// git runs one git command to its end and returns its output. Any status but 0 is an
// error with git's last words.
func (g *gitLook) git(ctx context.Context, args ...string) (*os.File, error) {
	r, err := proc.Ask(ctx, proc.Spec{Argv: append(gitArgv(), args...), Dir: g.tree, Env: g.env()}, nil)
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	defer func() { _ = r.Err.Close() }() // only a message is read from it
	if !r.Exit.Success() {
		err = errors.New(lastWords(r.Err, r.Exit.String()))
	} else {
		_, err = r.Out.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = r.Out.Close() // it is not looked at
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return r.Out, nil
}

// gitArgv is git with every setting that starts a program, or that believes what an
// agent may have left, turned off, whatever its configuration says.
func gitArgv() []string {
	return []string{
		"git", "--no-optional-locks", "--no-pager", "--literal-pathspecs",
		"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
		"-c", "core.commitGraph=false", "-c", "core.attributesFile=/dev/null", "-c", "core.excludesFile=/dev/null",
	}
}

// env is git's whole environment.
func (g *gitLook) env() []string {
	keep := func(name string) bool { return name == "PATH" || name == "TMPDIR" }
	all := map[string]string{
		"GIT_DIR":                          g.dir,
		"GIT_WORK_TREE":                    g.tree,
		"GIT_INDEX_FILE":                   filepath.Join(g.dir, "index"),
		"GIT_OBJECT_DIRECTORY":             filepath.Join(g.dir, "objects"),
		"GIT_ALTERNATE_OBJECT_DIRECTORIES": gitQuote(filepath.Join(g.repo.common, "objects")),
		"GIT_CONFIG_GLOBAL":                os.DevNull,
		"GIT_CONFIG_SYSTEM":                os.DevNull,
		"GIT_CONFIG_NOSYSTEM":              "1",
		"GIT_ATTR_NOSYSTEM":                "1",
		"GIT_NO_REPLACE_OBJECTS":           "1",
		"GIT_NO_LAZY_FETCH":                "1",
		"GIT_TERMINAL_PROMPT":              "0",
		"HOME":                             g.dir,
		"LC_ALL":                           "C",
	}
	maps.Copy(all, g.marks)
	return proc.Environ(g.environ, func(name string) bool { return !keep(name) }, all)
}

// gitQuote makes a path fit for a list of paths with colons between them.
func gitQuote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// lastWords is the last line of what git said on stderr, or instead.
func lastWords(errs *os.File, instead string) string {
	lines := strings.Split(strings.TrimSpace(proc.Tail(errs, 4<<10)), "\n")
	return cmp.Or(lines[len(lines)-1], instead)
}
