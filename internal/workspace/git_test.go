package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ostoolkit/internal/proc"
)

// shell runs a script in dir, with a git that knows an author and no settings.
func shell(t *testing.T, dir, script string) {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	child, err := proc.Start(proc.Spec{
		Argv: []string{"/bin/sh", "-ec", script}, Dir: dir, Stdout: log, Stderr: log,
		Env: proc.Environ(os.Environ(), proc.GitLocation, map[string]string{
			"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": t.TempDir(),
			"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b",
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if !child.Exit().Success() {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("%s: %v\n%s", script, child.Exit(), text)
	}
}

// tree is an empty workspace beside a repository "origin" with one commit.
func tree(t *testing.T) (s *Store, p Place, dir string) {
	t.Helper()
	if _, err := proc.LookPath("git", "", os.Getenv); err != nil {
		t.Skip("no git")
	}
	dir = canonicalDir(t)
	s = open(t, configIn(dir))
	p = place(t, s, "1", "G-1")
	must(t, p.Dir.Make())
	ensure(t, s, p)
	shell(t, dir, `git init -qb main origin; cd origin; echo '*.o' > .gitignore; echo one > file; git add .; git commit -qm one`)
	return s, p, dir
}

func TestUnsaved(t *testing.T) {
	const (
		clone  = "git clone -q ../../origin .; "
		linked = "git -C ../../origin worktree add -q $PWD -b work; "
		commit = "echo two > file; git commit -qam two; "
	)
	for name, tt := range map[string]struct{ script, reason, unknown string }{
		"no repository":                    {script: "echo x > file"},
		"a fresh repository":               {script: "git init -q"},
		"a fresh clone":                    {script: clone},
		"a shallow clone":                  {script: "git clone -q --depth 1 file://$PWD/../../origin ."},
		"a clone that borrows objects":     {script: "git clone -q --reference ../../origin file://$PWD/../../origin ."},
		"a sha256 repository":              {script: "git init -q --object-format=sha256"},
		"packed refs":                      {script: clone + "git pack-refs --all; git gc -q"},
		"an ignored file":                  {script: clone + "echo x > x.o; echo y > y; echo y >> .git/info/exclude"},
		"pushed commits":                   {script: clone + "git switch -qc work; " + commit + "git push -q origin work"},
		"a detached HEAD that is known":    {script: clone + "git checkout -q --detach"},
		"a tag of the remote":              {script: "cd ../../origin; git checkout -q --detach; " + commit + "git tag t; git checkout -q main; cd -; " + clone},
		"a changed file":                   {script: clone + "echo two > file", reason: `has uncommitted changes, such as in "file"`},
		"a staged file":                    {script: clone + "echo two > new; git add new", reason: `such as in "new"`},
		"a removed file":                   {script: clone + "rm file", reason: `such as in "file"`},
		"a file that git does not know":    {script: clone + "mkdir d; echo x > d/new", reason: `has files that are not in git, such as "d/"`},
		"files and no commit":              {script: "git init -q; touch file", reason: `such as "file"`},
		"commits without a remote":         {script: "git init -q; touch file; git add file; git commit -qm one", reason: "has commits that are nowhere else"},
		"a commit":                         {script: clone + commit, reason: "has commits that are nowhere else, such as "},
		"a commit on another branch":       {script: clone + "git switch -qc work; " + commit + "git switch -q main", reason: "has commits"},
		"a commit on a packed branch":      {script: clone + "git switch -qc work; " + commit + "git switch -q main; git pack-refs --all", reason: "has commits"},
		"a commit on a detached HEAD":      {script: clone + "git checkout -q --detach; " + commit, reason: "has commits"},
		"a commit in a shallow clone":      {script: "git clone -q --depth 1 file://$PWD/../../origin .; " + commit, reason: "has commits"},
		"a sha256 commit":                  {script: "git init -q --object-format=sha256; touch f; git add f; git commit -qm f", reason: "has commits"},
		"a stash":                          {script: clone + "echo two > file; git stash -q", reason: "has commits"},
		"a repository inside":              {script: "git clone -q ../../origin inner; cd inner; " + commit, reason: `has a repository in "inner" that has commits`},
		"a clean repository inside":        {script: "git clone -q ../../origin inner; touch beside"},
		"a linked worktree":                {script: linked},
		"commits in a linked worktree":     {script: linked + commit},
		"changes in a linked worktree":     {script: linked + "echo two > file", reason: `such as in "file"`},
		"a linked detached HEAD":           {script: linked + "git checkout -q --detach; " + commit, reason: "has commits"},
		"a linked detached HEAD, known":    {script: linked + commit + "git checkout -q --detach"},
		"a replaced commit":                {script: clone + commit + "git replace HEAD origin/main", reason: "has commits"},
		"another extension":                {script: clone + "git config core.repositoryformatversion 1; git config extensions.partialClone origin", unknown: `extension "partialclone"`},
		"another format":                   {script: clone + "git config core.repositoryformatversion 7", unknown: `format is "7"`},
		"a broken configuration":           {script: clone + "echo '[' > .git/config", unknown: "bad config"},
		"a broken HEAD":                    {script: clone + "echo x > .git/HEAD", unknown: `its HEAD is "x"`},
		"a broken index":                   {script: clone + "echo x > .git/index", unknown: "git status: "},
		"a link in place of .git":          {script: clone + "mv .git ../../moved; ln -s ../../moved .git", unknown: "neither a folder nor a file"},
		"a link in place of HEAD":          {script: clone + "mv .git/HEAD x; ln -s ../x .git/HEAD", unknown: "is a symbolic link"},
		"a lost repository":                {script: "echo gitdir: /nowhere > .git", unknown: "/nowhere"},
		"missing objects":                  {script: clone + commit + "rm -r .git/objects; mkdir .git/objects", unknown: "git "},
		"objects borrowed by a wrong path": {script: clone + "echo ../x > .git/objects/info/alternates", unknown: "borrows objects"},
		"a pipe in place of a file":        {script: clone + "rm .git/index; mkfifo .git/index", unknown: "is not a plain file"},
		"a submodule": {script: clone + "git -c protocol.file.allow=always submodule add -q file://$PWD/../../origin sub; git commit -qm sub; git push -q origin HEAD:work",
			unknown: `submodule "sub" is not looked into`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := tree(t)
			shell(t, p.Path, tt.script)
			reason, err := s.Unsaved(context.Background(), p)
			if (err != nil) != (tt.unknown != "") || err != nil && !strings.Contains(err.Error(), tt.unknown) {
				t.Errorf("error %v, want %q", err, tt.unknown)
			}
			if (reason != "") != (tt.reason != "") || !strings.Contains(reason, tt.reason) {
				t.Errorf("%q, want %q", reason, tt.reason)
			}
			if _, err := os.Lstat(filepath.Join(string(p.Dir), "git")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("git's folder is left: %v", err)
			}
		})
	}
}

// What an agent may plant in its repository must not run under its keeper.
func TestUnsavedRunsNothingOfTheAgent(t *testing.T) {
	const evil = `printf '#!/bin/sh\ntouch %s\ncat\n' $PWD/../../ran > ../../evil; chmod 755 ../../evil; evil=$PWD/../../evil; `
	for name, plant := range map[string]string{
		"core.fsmonitor":    `git config core.fsmonitor $evil`,
		"a clean filter":    `git config filter.x.clean $evil; echo '* filter=x' > .git/info/attributes; touch file`,
		"a filter process":  `git config filter.x.process $evil; git config filter.x.required true; echo '* filter=x' > .git/info/attributes; touch file`,
		"core.hooksPath":    `mkdir ../../hooks; cp $evil ../../hooks/post-index-change; git config core.hooksPath $PWD/../../hooks; touch file`,
		"a hook":            `cp $evil .git/hooks/post-index-change; touch file`,
		"include.path":      `printf '[core]\nfsmonitor = %s\n' $evil > ../../more; git config include.path $PWD/../../more`,
		"a textconv":        `git config diff.x.textconv $evil; echo '* diff=x' > .git/info/attributes; touch file`,
		"a pager and alias": `git config core.pager $evil; git config pager.status true; git config alias.rev-list "!$evil"`,
		"a fetch helper":    `git config remote.origin.uploadpack $evil; git config remote.origin.promisor true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, dir := tree(t)
			shell(t, p.Path, "git clone -q ../../origin .; "+evil+plant)
			reason, err := s.Unsaved(context.Background(), p)
			if reason != "" || err != nil {
				t.Errorf("%q, %v", reason, err)
			}
			if _, err := os.Lstat(filepath.Join(dir, "ran")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("the agent's program ran")
			}
			// The trap is a real one: git as everybody runs it steps into it.
			if strings.Contains(name, "filter") || name == "core.fsmonitor" || name == "include.path" {
				shell(t, p.Path, "touch -t 200101010000 file; git status > /dev/null 2>&1 || true; test -e ../../ran")
			}
		})
	}
}

func TestUnsavedWithATrackedFilter(t *testing.T) {
	s, p, dir := tree(t)
	shell(t, p.Path, `git clone -q ../../origin .; printf '#!/bin/sh\ntouch %s\ncat\n' $PWD/../../ran > ../../evil; chmod 755 ../../evil
		echo '* filter=x' > .gitattributes; git add .; git commit -qm x; git push -q origin HEAD:x
		git config filter.x.clean $PWD/../../evil; echo two > file`)
	reason, err := s.Unsaved(context.Background(), p)
	if !strings.Contains(reason, `"file"`) || err != nil {
		t.Errorf("%q, %v", reason, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the agent's program ran")
	}
}

func TestUnsavedWithoutGit(t *testing.T) {
	s, p, _ := tree(t)
	shell(t, p.Path, "git init -q")
	s.config.Environ = []string{"PATH=/nowhere"}
	if reason, err := s.Unsaved(context.Background(), p); reason != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%q, %v", reason, err)
	}
}

// A git that hangs is ended with the look.
func TestUnsavedCanBeAbandoned(t *testing.T) {
	s, p, dir := tree(t)
	shell(t, p.Path, `git init -q; mkfifo ../../begun; mkdir ../../bin; printf '#!/bin/sh\necho > %s\nexec sleep 60\n' $PWD/../../begun > ../../bin/git; chmod 755 ../../bin/git`)
	s.config.Environ = []string{"PATH=" + filepath.Join(dir, "bin") + ":/usr/bin:/bin"}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := s.Unsaved(ctx, p)
		done <- err
	}()
	_, err := os.ReadFile(filepath.Join(dir, "begun")) // a pipe: it ends once git has written
	must(t, err)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
