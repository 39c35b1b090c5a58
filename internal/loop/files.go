package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// memory is schedule.json: the record, and whose it is, since an issue that never ran
// has no other file.
type memory struct {
	IssueID    string `json:"issue_id"`
	Identifier string `json:"identifier"`
	schedule.Record
}

// dir returns the state folder of an issue.
func (c *Config) dir(identifier string) (state.Dir, error) {
	key, err := state.Key(identifier)
	return c.Root.Issue(key), err
}

// save writes schedule.json. An issue whose record cannot be written gets no run.
func (d *driver) save(a schedule.Save) {
	dir, err := d.dir(a.Identifier)
	if err == nil {
		err = state.MakeDir(string(dir))
	}
	if err == nil {
		err = state.WriteJSON(dir.Schedule(), memory{a.IssueID, a.Identifier, a.Record})
	}
	if err == nil {
		delete(d.unsaved, a.IssueID)
		return
	}
	d.unsaved[a.IssueID] = err
	d.warnAbout("remember "+a.Identifier, err)
}

func (d *driver) drop(a schedule.Drop) {
	dir, err := d.dir(a.Identifier)
	if err == nil {
		err = os.Remove(dir.Schedule())
	}
	if !errors.Is(err, fs.ErrNotExist) {
		d.warnAbout("forget "+a.Identifier, err)
	}
}

// readMemories returns every schedule.json by issue key. One that is damaged is told,
// and hides no other.
func (d *driver) readMemories() (map[string]memory, error) {
	folders, err := os.ReadDir(d.Root.Issues())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list what is remembered: %w", err)
	}
	all := map[string]memory{}
	for _, f := range folders {
		var m memory
		err := state.ReadJSON(d.Root.Issue(f.Name()).Schedule(), &m)
		if err == nil {
			all[f.Name()] = m
		} else if !errors.Is(err, fs.ErrNotExist) {
			d.warnAbout("what was remembered is lost", err)
		}
	}
	return all, nil
}

// holdFile is where the hold of a backend lies.
func (c *Config) holdFile(backend string) (string, error) {
	key, err := state.Key(backend)
	return c.path(holdsDir, key+".json"), err
}

func (c *Config) writeHold(h schedule.Hold) error {
	path, err := c.holdFile(h.Backend)
	if err != nil {
		return err
	}
	return state.WriteJSON(path, h)
}

func (c *Config) clearHold(backend string) error {
	path, err := c.holdFile(backend)
	if err != nil {
		return err
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *driver) readHolds() ([]schedule.Hold, error) {
	files, err := os.ReadDir(d.path(holdsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list holds: %w", err)
	}
	var holds []schedule.Hold
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		var h schedule.Hold
		if err := state.ReadJSON(d.path(holdsDir, f.Name()), &h); err != nil {
			d.warnAbout("read a hold", err)
			continue
		}
		if h.Backend != "" {
			holds = append(holds, h)
		}
	}
	return holds, nil
}

// runFile is what is read of run.json, which internal/run writes.
type runFile struct {
	RunID    string `json:"run_id"`
	Status   string `json:"status"`
	PID      int    `json:"pid"`
	PIDStart string `json:"pid_start"`

	StartedAt   wire.Time `json:"started_at"`
	Outcome     string    `json:"outcome"`     // of an ended one
	Fingerprint string    `json:"fingerprint"` // of the folder, after the run
}

const runEnded = "ended"

// readRun returns run.json, or nil where the issue never ran.
func readRun(dir state.Dir) (*runFile, error) {
	var m runFile
	err := state.ReadJSON(dir.RunFile(), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return &m, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// startFiles are the small files of one supervisor: what it reads and what it prints.
type startFiles struct{ base string }

func (c *Config) startFiles(runID string) startFiles { return startFiles{c.path(runsDir, runID)} }

// in is the supervisor's stdin. It is locked, and the supervisor has it open for as
// long as it lives: that is how the next os-loop finds one that has not begun yet.
func (s startFiles) in() string  { return s.base + inSuffix }
func (s startFiles) out() string { return s.base + ".out" }
func (s startFiles) err() string { return s.base + ".err" }

const inSuffix = ".in"

func (s startFiles) remove() error {
	var errs []error
	for _, path := range []string{s.out(), s.err(), s.in()} {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leftStarts returns the run ids of starts that nobody has finished with.
func (c *Config) leftStarts() ([]string, error) {
	found, err := filepath.Glob(c.path(runsDir, "*"+inSuffix))
	for i, path := range found {
		found[i] = strings.TrimSuffix(filepath.Base(path), inSuffix)
	}
	return found, err
}
