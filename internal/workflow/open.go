package workflow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ostoolkit/internal/cli"
)

// Open finds and loads the workflow of a command, prints its warnings and gives its
// errors their exit status: 66 for a named file that is missing, 78 for one that is
// wrong. flag is the value of --workflow. Without a file, and with none named,
// defaults stand.
//
// With OS_WORKFLOW_DIR relative paths and commands in the file are relative to that
// folder. A file that flag names is then taken for a copy of the one that OS_WORKFLOW
// names, if that is set, and goes by its name.
func Open(flag string, env *cli.Env) (*Workflow, error) {
	o, err := optionsOf(flag, env)
	if err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	path, explicit := Find(flag, env.LookupEnv, env.Dir)
	w, warnings, err := Load(path, o)
	for _, warning := range warnings {
		env.Warnf("%s", warning)
	}
	switch {
	case err == nil:
		return w, nil
	case errors.Is(err, fs.ErrNotExist) && explicit:
		return nil, cli.Errorf(cli.StatusNoInput, "workflow %q is missing", path)
	case errors.Is(err, fs.ErrNotExist):
		return Defaults(o, env.Dir), nil
	}
	return nil, &cli.ExitError{Status: cli.StatusConfig, Err: err}
}

// optionsOf says what a file means to a command.
func optionsOf(flag string, env *cli.Env) (Options, error) {
	home, err := env.Home()
	if err != nil {
		return Options{}, err
	}
	o := Options{LookupEnv: env.LookupEnv, Home: home, Temp: tempDir(env), Dir: env.Dir, Base: env.Getenv(dirVariable)}
	if o.Base == "" {
		return o, nil
	}
	// A child that inherits it works in another folder.
	if !filepath.IsAbs(o.Base) {
		return o, fmt.Errorf("%s is %q, which is not absolute", dirVariable, o.Base)
	}
	o.Base = filepath.Clean(o.Base)
	if name := env.Getenv(variable); flag != "" && name != "" {
		o.Name, err = absolute(name, env.Dir)
	}
	return o, err
}

// Environ returns the variables under which another command takes a file that its
// --workflow names for a copy of this one, with the same meaning and name.
func (w *Workflow) Environ() map[string]string {
	return map[string]string{variable: w.Name, dirVariable: w.Dir}
}

// tempDir is os.TempDir for the command's own environment.
func tempDir(env *cli.Env) string {
	if dir := env.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}
