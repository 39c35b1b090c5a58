// Package state is the layout of what outlives a process: the per-issue folders
// below a state root, their locks, their files that appear by rename, their logs of
// whole lines, and the file that says who owns a workspace root.
//
// It decides nothing about runs (internal/run does) and nothing about the agents'
// own folders (internal/workspace does). Paths are plain values and safe everywhere;
// a Lock and a Log belong to one process, a Log may be written from several
// goroutines.
package state

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	keyLimit = 100 // bytes of an identifier that go into its key
	dirMode  = 0o700
	fileMode = 0o600
)

// Key returns the folder name of an issue: its identifier with every character
// outside [A-Za-z0-9._-], and a leading dot, replaced by "_". Where that changed
// anything, or cut it, 16 hex digits of the identifier's SHA-256 follow, so that
// different identifiers get different folders. The same identifier has the same key
// for ever. An empty identifier has none.
func Key(identifier string) (string, error) {
	if identifier == "" {
		return "", fmt.Errorf("identifier is empty")
	}
	var b strings.Builder
	for i, r := range identifier {
		if !plain(r) || i == 0 && r == '.' {
			r = '_'
		}
		b.WriteRune(r)
	}
	key := b.String()
	if len(key) > keyLimit {
		key = key[:keyLimit]
	}
	if key == identifier {
		return key, nil
	}
	return key + "-" + digest(identifier, 16), nil
}

func plain(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return true
	}
	return r == '.' || r == '_' || r == '-'
}

// digest returns the first n hex digits of the SHA-256 of text.
func digest(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:n]
}

// NewRunID returns an id that sorts by time, is a safe file name and is unique.
func NewRunID(now time.Time, random io.Reader) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make a run id: %v", err)
	}
	stamp := strings.Replace(now.UTC().Format("20060102-150405.000"), ".", "-", 1)
	return stamp + "-" + hex.EncodeToString(b[:]), nil
}

// CheckRunID refuses a run id that somebody else made and that is no safe file name.
func CheckRunID(id string) error {
	key, err := Key(id)
	if err != nil || key != id || len(id) > 64 {
		return fmt.Errorf("run id %q is not 1 to 64 of A-Z a-z 0-9 . _ -", id)
	}
	return nil
}

// TempDir returns the private TMPDIR of a run. Its name follows from the run id, so
// that whoever settles the run can remove it; the id's random part makes it hard to
// foresee.
func TempDir(runID string) string { return "/tmp/os-" + digest(runID, 8) }

// Root is a state root: all that the commands remember of one workspace root.
type Root string

// DefaultRoot returns the state root of the workspace root dir: a folder of the
// user's state home, named after dir. home is the user's home, used where
// XDG_STATE_HOME is not an absolute path.
func DefaultRoot(dir, xdgStateHome, home string) Root {
	base := xdgStateHome
	if !filepath.IsAbs(base) {
		base = filepath.Join(home, ".local", "state")
	}
	return Root(filepath.Join(base, "os", filepath.Base(dir)+"-"+digest(dir, 12)))
}

// Issue returns the state folder of the issue with this key.
func (r Root) Issue(key string) Dir { return Dir(filepath.Join(string(r), "issues", key)) }

// Issues returns the folder that holds all of them.
func (r Root) Issues() string { return filepath.Join(string(r), "issues") }

// HookLock returns the lock file that hooks share by its name.
func (r Root) HookLock(name string) string { return filepath.Join(string(r), "locks", name) }

// Looks returns the folder for what git needs while somebody looks at a worktree without
// the issue's lock.
func (r Root) Looks() string { return filepath.Join(string(r), "looks") }

// Removed returns the folder that keeps the state folders of removed workspaces.
func (r Root) Removed() string { return filepath.Join(string(r), "removed") }

// Loop returns os-loop's own folder.
func (r Root) Loop() string { return filepath.Join(string(r), "loop") }

// Dir is the state folder of one issue, "state_dir" in records.
type Dir string

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }

// IssueFile says which issue the folder belongs to.
func (d Dir) IssueFile() string { return d.join("issue.json") }

// RunFile tells of the newest run.
func (d Dir) RunFile() string { return d.join("run.json") }

// Conversation is what the harness needs to go on with the session.
func (d Dir) Conversation() string { return d.join("conversation.json") }

// Schedule is os-loop's memory of the issue.
func (d Dir) Schedule() string { return d.join("schedule.json") }

// Lock is the lock file: held means a run is in flight.
func (d Dir) Lock() string { return d.join("lock") }

// Mailbox is the folder through which a running session is steered.
func (d Dir) Mailbox() string { return d.join("mailbox") }

// Runs is the folder of all run folders.
func (d Dir) Runs() string { return d.join("runs") }

// Run returns the folder of one run.
func (d Dir) Run(id string) RunDir { return RunDir(filepath.Join(d.Runs(), id)) }

// RunDir is the folder of one run.
type RunDir string

func (r RunDir) join(name string) string { return filepath.Join(string(r), name) }

// Record is the workspace record that the harness got on its stdin.
func (r RunDir) Record() string { return r.join("record.json") }

// Prompt is the text of the first turn.
func (r RunDir) Prompt() string { return r.join("prompt.md") }

// Rehydrated is the prompt of a session that stands in for one that was lost in the run.
func (r RunDir) Rehydrated() string { return r.join("rehydrate.md") }

// Events is the session's log, one record a line.
func (r RunDir) Events() string { return r.join("events.ndjson") }

// Outcome is the run's outcome record.
func (r RunDir) Outcome() string { return r.join("outcome.json") }

// FinalText is the agent's whole last message.
func (r RunDir) FinalText() string { return r.join("final.md") }

// HarnessLog is the harness's stderr.
func (r RunDir) HarnessLog() string { return r.join("harness.log") }

// PeerLog is the stderr of the agent process.
func (r RunDir) PeerLog() string { return r.join("stderr.log") }

// HookLog is the output of one hook.
func (r RunDir) HookLog(name string) string { return filepath.Join(string(r), "hooks", name+".log") }

// Make creates the folder with the mode of all state.
func (r RunDir) Make() error { return MakeDir(string(r)) }

// Make creates the folders of the issue.
func (d Dir) Make() error {
	for _, dir := range []string{string(d), d.Mailbox(), d.Runs()} {
		if err := MakeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Tidy removes the temp files of whoever was killed while writing a file of the issue.
// The caller holds the issue's lock. Files that are written without it are left alone.
func (d Dir) Tidy() error {
	return removeTemps(string(d), d.IssueFile(), d.RunFile(), d.Conversation())
}

// Tidy is Dir.Tidy for one run.
func (r RunDir) Tidy() error {
	return removeTemps(string(r), r.Record(), r.Prompt(), r.Rehydrated(), r.Outcome(), r.FinalText())
}

// Refusal is the error of a file that is there and must not be used. Nothing has
// been touched.
type Refusal struct{ Path, Reason string }

func (r *Refusal) Error() string { return fmt.Sprintf("%q %s", r.Path, r.Reason) }

// MakeDir creates a folder and its parents, 0700, and refuses a symlink in its place.
func MakeDir(path string) error {
	switch fi, err := os.Lstat(path); {
	case err == nil && fi.Mode()&os.ModeSymlink != 0:
		return &Refusal{path, "is a symbolic link"}
	case err == nil && !fi.IsDir():
		return &Refusal{path, "is not a folder"}
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	return nil
}
