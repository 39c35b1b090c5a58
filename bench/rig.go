package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
)

// commands are the five that are built and measured.
var commands = []string{"os-poll", "os-workspace", "os-codex", "os-openhands", "os-loop"}

// stopLimit is how long a child may take for a polite stop when the bench is
// interrupted: more than the grace of any command.
const stopLimit = 15 * time.Second

// minimal is the least Go program that prints something and ends.
const minimal = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"minimal\\n\") }\n"

// rig is the temporary folder with all programs and the environment of what runs in
// it: no home, state or agent of a person.
type rig struct {
	quick   bool
	module  string // the module's folder
	dir     string
	self    string // this program
	environ []string
	search  string // the PATH of the person
}

func newRig(ctx context.Context, env *cli.Env, quick bool) (*rig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	dir, err := os.MkdirTemp("", "os-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the bench: %w", err)
	}
	r := &rig{quick: quick, dir: dir, self: self, search: env.Getenv("PATH")}
	r.environ = []string{
		"HOME=" + r.path("home"), "XDG_STATE_HOME=" + r.path("state"), "XDG_CACHE_HOME=" + r.path("cache"),
		"CODEX_HOME=" + r.path("codex"), "PATH=" + r.path("bin") + string(filepath.ListSeparator) + r.search,
		"LC_ALL=C", "TZ=UTC",
	}
	if err := r.build(ctx, env); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) close() error { return os.RemoveAll(r.dir) }

func (r *rig) path(parts ...string) string {
	return filepath.Join(append([]string{r.dir}, parts...)...)
}

// rounds is n, or few where a first look is enough.
func (r *rig) rounds(n, few int) int {
	if r.quick {
		return few
	}
	return n
}

// build compiles the five commands and the minimal program with the same toolchain.
func (r *rig) build(ctx context.Context, env *cli.Env) error {
	for _, dir := range []string{"home", "cache", "codex", "bin", "minimal"} {
		if err := os.Mkdir(r.path(dir), 0o700); err != nil {
			return err
		}
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}")
	list.Dir, list.Env = env.Dir, env.Environ
	dir, err := list.Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	r.module = strings.TrimSpace(string(dir))
	source := r.path("minimal", "main.go")
	if err := os.WriteFile(source, []byte(minimal), 0o600); err != nil {
		return err
	}
	ours := []string{"build", "-o", r.path("bin") + string(filepath.Separator)}
	for _, name := range commands {
		ours = append(ours, "./cmd/"+name)
	}
	for _, args := range [][]string{ours, {"build", "-o", r.path("bin", "minimal"), source}} {
		build := exec.CommandContext(ctx, "go", args...)
		build.Dir, build.Env = r.module, env.Environ
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w\n%s", err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// command prepares a program of the rig, or one of the PATH. It is stopped politely
// when ctx ends, so that it can take away what it has made itself.
func (r *rig) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := r.path("bin", name)
	if _, err := os.Stat(path); err != nil {
		path = name
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = r.dir, r.environ
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	return cmd
}

// session is a command in a folder and a state of its own, which tidy removes.
func (r *rig) session(ctx context.Context, command string, flags ...string) (cmd *exec.Cmd, tidy func() error, err error) {
	dir, err := os.MkdirTemp(r.dir, "session-")
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{"--cwd", dir, "--resume", "never", "--quiet"}, flags...)
	cmd = r.command(ctx, command, append(args, "say hello")...)
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "XDG_STATE_HOME="+filepath.Join(dir, ".state"))
	return cmd, func() error { return os.RemoveAll(dir) }, nil
}

// timed runs a command that must succeed. What it says on stderr is part of the error.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	from := time.Now()
	err := cmd.Run()
	took := time.Since(from)
	if err != nil {
		return 0, fmt.Errorf("run %q: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(said.Bytes()))
	}
	return took, nil
}

// timedPipe runs from | to and waits for both.
func timedPipe(from, to *exec.Cmd) (time.Duration, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	from.Stdout, to.Stdin = w, r
	begin := time.Now()
	fromErr, toErr := from.Start(), to.Start()
	err = errors.Join(fromErr, toErr, w.Close(), r.Close())
	if fromErr == nil {
		err = errors.Join(err, from.Wait())
	}
	if toErr == nil {
		err = errors.Join(err, to.Wait())
	}
	return time.Since(begin), err
}
