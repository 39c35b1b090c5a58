package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/run"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// supervised tells whether os-workspace run has started us, with a PROMPT, for the
// folder that we work in. Its run is ours then: a lock of our own would wait for it in
// vain.
func (o *Options) supervised(env *cli.Env) bool {
	for _, name := range []string{"OS_RUN_ID", "OS_LOCK_FD", "OS_STATE_DIR", "OS_WORKSPACE"} {
		if env.Getenv(name) == "" {
			return false
		}
	}
	ours, err := filepath.EvalSymlinks(absolute(env.Dir, o.Cwd))
	if err != nil {
		return false
	}
	theirs, err := filepath.EvalSymlinks(env.Getenv("OS_WORKSPACE"))
	return o.prompted && err == nil && ours == theirs
}

// workspace is what the PROMPT is worked on in: the supervisor's run, or the folder
// --cwd.
func (c *Command) workspace() (*wire.Workspace, error) {
	if c.supervised {
		rec, err := recorded(state.Dir(c.Env.Getenv("OS_STATE_DIR")), c.Env.Getenv("OS_RUN_ID"))
		if err != nil {
			return nil, cli.Errorf(cli.StatusState, "%w", err)
		}
		return rec, nil
	}
	cwd := c.path(c.Options.Cwd)
	if fi, err := os.Stat(cwd); err != nil || !fi.IsDir() {
		return nil, cli.Errorf(cli.StatusNoInput, "working folder %q is missing", c.Options.Cwd)
	}
	home, err := c.Env.Home()
	if err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	rec, err := run.Direct(cwd, c.Env.Getenv("XDG_STATE_HOME"), home)
	if err != nil {
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	if !utf8.ValidString(rec.Path) {
		// In a record, or a request, it would be the name of another folder.
		return nil, cli.Errorf(cli.StatusNoInput, "the name of working folder %q is not UTF-8", rec.Path)
	}
	return rec, nil
}

// recorded reads the record that a run was begun with.
func recorded(dir state.Dir, runID string) (*wire.Workspace, error) {
	if err := state.CheckRunID(runID); err != nil {
		return nil, fmt.Errorf("OS_RUN_ID: %v", err)
	}
	path := dir.Run(runID).Record()
	line, err := state.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec, err := wire.Decode(line, "workspace")
	if err != nil {
		return nil, fmt.Errorf("read %q: %v", path, err)
	}
	ws, ok := rec.(*wire.Workspace)
	if !ok || ws.Run == nil || ws.Run.ID != runID || ws.StateDir != string(dir) {
		return nil, fmt.Errorf("%q is not the record of run %q", path, runID)
	}
	return ws, nil
}
