package ostoolkit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"ostoolkit/internal/cli"
)

// trackMain is the program "track NAME CMD ARG…": it runs CMD, writes NAME.pid
// when it has started and NAME.status when it has ended, and ends with its status.
// Scripts start what they signal with it, since testscript tells neither the pid
// nor the exact status of a background command. A first signal to track itself is
// passed on, a second kills.
func trackMain(env *cli.Env) int { return cli.Main("track", env, track) }

func track(ctx context.Context, env *cli.Env) error {
	if len(env.Args) < 2 {
		return cli.Usagef("track NAME CMD ARG… is what it wants")
	}
	name, argv := filepath.Join(env.Dir, env.Args[0]), env.Args[1:]
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := replace(name+".pid", strconv.Itoa(cmd.Process.Pid)+"\n")
	done := ctx.Done()
	for {
		select {
		case <-done:
			var sig *cli.Interrupted
			if errors.As(context.Cause(ctx), &sig) {
				_ = cmd.Process.Signal(sig.Signal) // it may have ended just now
			}
			done = nil
		case <-env.Hurry():
			_ = cmd.Process.Kill() // as above
			<-ended
			return errors.Join(err, cli.Exit(128+int(syscall.SIGKILL)))
		case <-ended:
			status := exitStatus(cmd.ProcessState)
			return errors.Join(err, replace(name+".status", strconv.Itoa(status)+"\n"), cli.Exit(status))
		}
	}
}

// replace makes a small file appear whole.
func replace(path, text string) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
