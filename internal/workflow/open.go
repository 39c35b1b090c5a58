package workflow

import (
	"errors"
	"io/fs"
	"os"

	"ostoolkit/internal/cli"
)

// Open finds and loads the workflow of a command, prints its warnings and gives its
// errors their exit status: 66 for a named file that is missing, 78 for one that is
// wrong. flag is the value of --workflow. Without a file, and with none named,
// defaults stand.
func Open(flag string, env *cli.Env) (*Workflow, error) {
	home, err := env.Home()
	if err != nil {
		return nil, cli.Errorf(cli.StatusConfig, "%w", err)
	}
	o := Options{LookupEnv: env.LookupEnv, Home: home, Temp: tempDir(env), Dir: env.Dir}
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

// tempDir is os.TempDir for the command's own environment.
func tempDir(env *cli.Env) string {
	if dir := env.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	return os.TempDir()
}
