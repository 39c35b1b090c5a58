package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Bounds of a fingerprint.
const (
	maxPrintFiles = 20_000   // files that git does not have, or all where there is no git
	maxPrintBytes = 64 << 20 // of their content; beyond it their sizes count
)

// Fingerprint returns a hash of what lies in p's folder: 32 hex digits that are the same
// as long as nothing was done there. Of a git repository HEAD counts, the changes
// against it, and the files that git neither knows nor ignores; of any other folder
// all files. Times do not count: an agent that writes the same text again gets nowhere.
// The caller holds the lock.
func (s *Store) Fingerprint(ctx context.Context, p Place) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gitLimit, fmt.Errorf("git took longer than %v", gitLimit))
	defer cancel()
	trees, err := worktrees(p.Path)
	if err != nil {
		return "", err
	}
	f := &fingerprint{ctx: ctx, sum: sha256.New()}
	for _, tree := range trees {
		if err := s.look(p, tree).in(ctx, f.repository); err != nil {
			return "", err
		}
	}
	if len(trees) == 0 {
		if err := f.folder(p.Path); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(f.sum.Sum(nil)[:16]), nil
}

// fingerprint belongs to one goroutine.
type fingerprint struct {
	ctx   context.Context
	sum   hash.Hash
	files int
	bytes int64 // of content
}

// repository adds what is in a repository, and what lies beside it.
func (f *fingerprint) repository(ctx context.Context, g *gitLook) error {
	f.add("repository", g.tree)
	diffs := [][]string{{"HEAD"}}
	if err := f.output(ctx, g, "rev-parse", "--verify", "--quiet", "HEAD"); err != nil {
		diffs = [][]string{{"--cached"}, {}} // no commit yet
	}
	for _, against := range diffs {
		args := append([]string{"diff", "--binary", "--full-index", "--no-color", "--no-renames",
			"--no-ext-diff", "--no-textconv", "--ignore-submodules=all"}, against...)
		if err := f.output(ctx, g, append(args, "--")...); err != nil {
			return err
		}
	}
	return g.each(ctx, func(name []byte) (bool, error) {
		path := filepath.Join(g.tree, string(name))
		fi, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		return true, f.file(path, string(name), fi)
	}, "ls-files", "--others", "--exclude-standard", "-z")
}

// output adds what one git command prints.
func (f *fingerprint) output(ctx context.Context, g *gitLook, args ...string) error {
	out, err := g.git(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // read only
	f.add("git", args[0])
	_, err = io.Copy(f.sum, out)
	return err
}

// folder adds every file below path.
func (f *fingerprint) folder(path string) error {
	return filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil // it is on its way, or not ours to read
		case err != nil:
			return err
		case e.IsDir():
			return f.ctx.Err()
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		return f.file(name, rel, fi)
	})
}

// file adds one file: its name, kind and size, and its content as long as that is not
// too much. A link is not followed.
func (f *fingerprint) file(path, name string, fi fs.FileInfo) error {
	if f.files++; f.files > maxPrintFiles {
		return fmt.Errorf("%q has more than %d files to look at", filepath.Dir(path), maxPrintFiles)
	}
	f.add(name, fmt.Sprint(fi.Mode(), fi.Size()))
	if !fi.Mode().IsRegular() || f.bytes+fi.Size() > maxPrintBytes {
		return f.ctx.Err()
	}
	// What is a file now may be a pipe by the time that it is opened.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return f.ctx.Err() // gone, or not ours to read: its name and size count
	}
	defer func() { _ = file.Close() }() // read only
	n, err := io.Copy(f.sum, io.LimitReader(file, fi.Size()))
	f.bytes += n
	if err != nil {
		f.add(name, strings.ToValidUTF8(err.Error(), "?"))
	}
	return f.ctx.Err()
}

// add adds words that cannot run into each other.
func (f *fingerprint) add(words ...string) {
	for _, w := range words {
		fmt.Fprintf(f.sum, "%d:%s\n", len(w), w)
	}
}
