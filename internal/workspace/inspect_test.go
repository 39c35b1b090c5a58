package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// found tells whether i has a finding of this level and name with the text in it.
func found(i *Inspection, level, name, text string) bool {
	for _, f := range i.Findings {
		if f.Level == level && f.Name == name && strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

func TestInspectMakesNothing(t *testing.T) {
	c := configIn(canonicalDir(t))
	i := Inspect(c)
	if i.Store != nil || !found(i, FindingOK, "root", "is not there yet") {
		t.Errorf("got %+v", i)
	}
	missing(t, c.Root, c.StateRoot)
	must(t, os.Mkdir(c.Root, 0o700))
	i = Inspect(c)
	if i.Store != nil || !found(i, FindingOK, "state", "is not there yet") || !found(i, FindingOK, "owner", "nobody yet") {
		t.Errorf("got %+v", i)
	}
	missing(t, c.StateRoot, filepath.Join(c.Root, state.OwnerFile))
}

func TestInspectFindsFaults(t *testing.T) {
	for _, tt := range []struct {
		name, level, what, text string
		change                  func(t *testing.T, c *Config, p Place)
	}{
		{"nothing", FindingOK, "manifests", "1, none broken", func(*testing.T, *Config, Place) {}},
		{"state in the root", FindingError, "state", "lies in the workspace root", func(t *testing.T, c *Config, _ Place) {
			c.StateRoot = filepath.Join(c.Root, "state")
			must(t, os.Mkdir(c.StateRoot, 0o700))
		}},
		{"a link that leads nowhere", FindingOK, "root", "not there yet", func(t *testing.T, c *Config, _ Place) {
			c.Root += "2"
			must(t, os.Symlink("nowhere", c.Root))
		}},
		{"another host", FindingError, "owner", "this root belongs to host here, not to there", func(_ *testing.T, c *Config, _ Place) { c.Host = "there" }},
		{"another user", FindingError, "owner", "this root belongs to uid", func(_ *testing.T, c *Config, _ Place) { c.UID++ }},
		{"an owner file that is torn", FindingError, "owner", "is damaged", func(t *testing.T, c *Config, _ Place) {
			must(t, os.WriteFile(filepath.Join(c.Root, state.OwnerFile), nil, 0o600))
		}},
		{"state that others can write", FindingError, "state", "can be written by others", func(t *testing.T, c *Config, _ Place) {
			must(t, os.Chmod(c.StateRoot, 0o777))
		}},
		{"a broken manifest", FindingError, "manifests", "is damaged", func(t *testing.T, _ *Config, p Place) {
			must(t, os.WriteFile(p.Dir.IssueFile(), []byte("{"), 0o600))
		}},
		{"a workspace of another root", FindingWarning, "manifests", "outside this root", func(t *testing.T, _ *Config, p Place) {
			must(t, state.WriteJSON(p.Dir.IssueFile(), Manifest{ID: "1", Identifier: "A-1", Key: "A-1", Path: "/elsewhere/A-1"}))
		}},
		{"a link for a folder", FindingError, "manifests", "is a symbolic link", func(t *testing.T, _ *Config, p Place) {
			must(t, os.Remove(p.Path), os.Symlink("nowhere", p.Path))
		}},
		{"a folder that is gone", FindingWarning, "workspaces", "the folder of A-1 is gone", func(t *testing.T, _ *Config, p Place) { must(t, os.Remove(p.Path)) }},
		{"a stranger", FindingWarning, "workspaces", "belongs to no issue", func(t *testing.T, c *Config, _ Place) {
			must(t, os.Mkdir(filepath.Join(c.Root, "B-1"), 0o700))
		}},
		{"a temp file", FindingWarning, "temp files", ".issue.json17", func(t *testing.T, _ *Config, p Place) {
			temp := filepath.Join(string(p.Dir), ".issue.json17")
			must(t, os.WriteFile(temp, nil, 0o600), os.Chtimes(temp, noon.Add(-time.Hour), noon.Add(-time.Hour)))
		}},
		{"a workspace that is not ready", FindingWarning, "workspaces", "A-1 is not ready", func(t *testing.T, _ *Config, p Place) {
			must(t, rewrite(p.Dir, func(m *Manifest) { m.AfterCreateDoneAt = wire.Time{} }))
		}},
		{"one that is half removed", FindingWarning, "workspaces", "A-1 is half removed", func(t *testing.T, _ *Config, p Place) {
			must(t, rewrite(p.Dir, func(m *Manifest) { m.RemovingAt = wire.At(noon) }))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configIn(canonicalDir(t))
			s := open(t, c)
			p := place(t, s, "1", "A-1")
			ensure(t, s, p)
			tt.change(t, &c, p)
			if i := Inspect(c); !found(i, tt.level, tt.what, tt.text) {
				t.Errorf("%s %s: no %q in %+v", tt.level, tt.what, tt.text, i.Findings)
			}
		})
	}
}

// rewrite changes a manifest on disk.
func rewrite(dir state.Dir, change func(*Manifest)) error {
	var m Manifest
	err := state.ReadJSON(dir.IssueFile(), &m)
	change(&m)
	return errors.Join(err, state.WriteJSON(dir.IssueFile(), m))
}
