package workspace

import (
	"context"
	"testing"
)

// What an agent does shows in the fingerprint of its folder, and doing the same again
// does not.
func TestFingerprint(t *testing.T) {
	const (
		clone  = "git clone -q ../../origin .; "
		commit = "echo two > file; git commit -qam two; "
	)
	for name, tt := range map[string]struct {
		script, work string
		same         bool
	}{
		"nothing done":                  {clone, "", true},
		"an empty folder":               {"", "", true},
		"a file without git":            {"", "echo x > file", false},
		"the same file again":           {"echo x > file", "sleep 0.01; rm file; echo x > file", true},
		"another text of the same size": {"echo x > file", "echo y > file", false},
		"another mode":                  {"echo x > file", "chmod 755 file", false},
		"a link":                        {"", "ln -s /etc/passwd link", false},
		"a pipe that nobody writes to":  {"mkfifo pipe", "", true},
		"a commit":                      {clone, commit, false},
		"a change":                      {clone, "echo two > file", false},
		"the same change again":         {clone + "echo two > file", "git stash -q; echo two > file", true},
		"a change that was staged":      {clone + "echo two > file", "git add file", true},
		"a change beyond a change":      {clone + "echo two > file", "echo three > file", false},
		"a file that git does not know": {clone, "echo x > new", false},
		"its text":                      {clone + "echo x > new", "echo y > new", false},
		"an ignored file":               {clone, "echo x > x.o", true},
		"no commit yet":                 {"git init -q; touch file", "git add file", false},
		"no commit yet, a change":       {"git init -q; touch file; git add file", "echo x > file", false},
		"a sha256 repository":           {"git init -q --object-format=sha256; touch f; git add f", "git commit -qm f", false},
		"a linked worktree":             {"git -C ../../origin worktree add -q $PWD -b work", commit, false},
		"a repository inside":           {"git clone -q ../../origin inner", "cd inner; " + commit, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, p, _ := tree(t)
			shell(t, p.Path, tt.script)
			before := fingerprintOf(t, s, p)
			shell(t, p.Path, tt.work)
			if after := fingerprintOf(t, s, p); (before == after) != tt.same {
				t.Errorf("%q, then %q", before, after)
			}
		})
	}
}

func fingerprintOf(t *testing.T, s *Store, p Place) string {
	t.Helper()
	print, err := s.Fingerprint(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	if len(print) != 32 {
		t.Errorf("%q", print)
	}
	return print
}
