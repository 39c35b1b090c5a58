package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ostoolkit/internal/state"
)

// repository says where the parts of a worktree's repository lie.
type repository struct {
	gitDir   string // HEAD and index
	common   string // objects, refs and config
	own      bool   // it goes with the folder
	detached string // the commit that HEAD names by itself, or ""
}

// findRepository reads what ties the folder tree to its repository. It runs nothing.
func findRepository(tree string) (*repository, error) {
	dotGit := filepath.Join(tree, ".git")
	fi, err := os.Lstat(dotGit)
	if err != nil {
		return nil, fmt.Errorf("look for a repository: %w", err)
	}
	r := &repository{gitDir: dotGit, common: dotGit}
	switch {
	case fi.IsDir():
	case fi.Mode().IsRegular():
		if err := r.follow(dotGit); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%q is neither a folder nor a file", dotGit)
	}
	r.own = within(tree, r.common)
	return r, r.readHead()
}

// follow finds the repository of a linked worktree, or of one whose .git lies apart.
func (r *repository) follow(dotGit string) (err error) {
	if r.gitDir, err = pointer(dotGit, "gitdir: "); err != nil {
		return err
	}
	r.common, err = pointer(filepath.Join(r.gitDir, "commondir"), "")
	if errors.Is(err, fs.ErrNotExist) {
		r.common, err = r.gitDir, nil
	}
	return err
}

// pointer reads a file that names a folder, relative to its own or not.
func pointer(file, prefix string) (string, error) {
	data, err := state.ReadFile(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(strings.TrimRight(string(data), "\r\n"), prefix)
	if !ok || path == "" {
		return "", fmt.Errorf("%q names no folder", file)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(file), path)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("follow %q: %w", file, err)
	}
	return path, nil
}

func (r *repository) readHead() error {
	data, err := state.ReadFile(filepath.Join(r.gitDir, "HEAD"))
	if err != nil {
		return err
	}
	head := strings.TrimSpace(string(data))
	switch {
	case strings.HasPrefix(head, "ref: refs/heads/"):
	case (len(head) == 40 || len(head) == 64) && strings.Trim(head, "0123456789abcdef") == "":
		r.detached = head
	default:
		return fmt.Errorf("its HEAD is %.40q", head)
	}
	return nil
}

// shadow fills the look's own GIT_DIR: a configuration of ours, copies of what git
// reads beside objects and refs, and links to the refs. Objects are reached as those of
// an alternate, so that git has nowhere in the agent's folder to write. Hooks,
// attributes, includes and settings of the original are not there to be found.
func (r *repository) shadow(ctx context.Context, g *gitLook) error {
	for _, dir := range []string{"objects", "info"} {
		if err := os.MkdirAll(filepath.Join(g.dir, dir), 0o700); err != nil {
			return fmt.Errorf("make a folder for git: %w", err)
		}
	}
	if err := r.checkAlternates(); err != nil {
		return err
	}
	copies := [][2]string{
		{filepath.Join(r.gitDir, "HEAD"), "HEAD"},
		{filepath.Join(r.gitDir, "index"), "index"},
		{filepath.Join(r.common, "shallow"), "shallow"},
		{filepath.Join(r.common, "info", "exclude"), filepath.Join("info", "exclude")},
		{filepath.Join(r.common, "config"), "config.theirs"},
	}
	for _, c := range copies {
		if err := copyFile(c[0], filepath.Join(g.dir, c[1])); err != nil {
			return err
		}
	}
	for _, name := range []string{"refs", "packed-refs"} {
		if err := os.Symlink(filepath.Join(r.common, name), filepath.Join(g.dir, name)); err != nil {
			return fmt.Errorf("make a folder for git: %w", err)
		}
	}
	return r.configure(ctx, g)
}

// checkAlternates refuses objects that are borrowed by a path that only git's own rules
// resolve, or from something that is no folder.
func (r *repository) checkAlternates() error {
	data, err := state.ReadFile(filepath.Join(r.common, "objects", "info", "alternates"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		path := strings.TrimRight(line, "\n")
		fi, err := os.Stat(path)
		if !filepath.IsAbs(path) || err != nil || !fi.IsDir() {
			return fmt.Errorf("it borrows objects from %q", path)
		}
	}
	return nil
}

// copyFile copies a plain file, if it is there. The time is copied too: git compares
// that of the index with those of the files.
func copyFile(from, to string) error {
	data, err := state.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fi, err := os.Lstat(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err == nil {
		err = os.Chtimes(to, fi.ModTime(), fi.ModTime())
	}
	if err != nil {
		return fmt.Errorf("copy %q for git: %w", from, err)
	}
	return nil
}

// plainSettings are taken over from the repository's own configuration: without them
// git would see changes where there are none. Only these values can be given.
var plainSettings = map[string]string{
	"core.filemode":          "true false",
	"core.ignorecase":        "true false",
	"core.precomposeunicode": "true false",
	"core.symlinks":          "true false",
	"core.autocrlf":          "true false input",
	"core.eol":               "lf crlf native",
}

// configure writes the configuration. That of the original is only listed, without its
// includes, to learn its format: what git needs more than a plain one for is refused.
func (r *repository) configure(ctx context.Context, g *gitLook) error {
	ours := filepath.Join(g.dir, "config")
	if err := os.WriteFile(ours, []byte("[core]\nrepositoryformatversion = 0\nbare = false\n"), 0o600); err != nil {
		return fmt.Errorf("make a folder for git: %w", err)
	}
	theirs := filepath.Join(g.dir, "config.theirs")
	if _, err := os.Lstat(theirs); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	out, err := g.git(ctx, "config", "--file", theirs, "--no-includes", "--null", "--list")
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // read only
	lines, err := translate(out)
	if err == nil {
		err = os.WriteFile(ours, lines, 0o600)
	}
	return err
}

// translate turns a list of settings into our configuration.
func translate(list io.Reader) ([]byte, error) {
	core, extensions, version := &bytes.Buffer{}, &bytes.Buffer{}, "0"
	settings := bufio.NewReader(list)
	for {
		entry, err := settings.ReadString(0)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read its configuration: %w", err)
		}
		key, value, valued := strings.Cut(strings.TrimSuffix(entry, "\x00"), "\n")
		if !valued {
			value = "true"
		}
		section, name, _ := strings.Cut(key, ".")
		switch {
		case key == "core.repositoryformatversion":
			version = value
		case key == "extensions.objectformat" && (value == "sha1" || value == "sha256"):
			fmt.Fprintf(extensions, "objectformat = %s\n", value)
		case section == "extensions":
			return nil, fmt.Errorf("it uses the extension %q", name)
		case allowed(plainSettings[key], value):
			fmt.Fprintf(core, "%s = %s\n", name, value)
		}
	}
	if version != "0" && version != "1" {
		return nil, fmt.Errorf("its format is %q", version)
	}
	return fmt.Appendf(nil, "[core]\nbare = false\nrepositoryformatversion = %s\n%s[extensions]\n%s", version, core, extensions), nil
}

func allowed(values, value string) bool {
	for v := range strings.FieldsSeq(values) {
		if v == value {
			return true
		}
	}
	return false
}
