package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

func call(run func(context.Context, *cli.Env) error) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := &cli.Env{Stdout: &out, Stderr: &errs, Now: time.Now}
	status = cli.Main("os-test", env, run)
	return status, out.String(), errs.String()
}

func TestMainTurnsErrorsIntoStatuses(t *testing.T) {
	base := errors.New("something broke")
	tests := []struct {
		name   string
		err    error
		status int
		stderr string
	}{
		{"none", nil, 0, ""},
		{"plain", base, 1, "os-test: something broke\n"},
		{"with a status", cli.Errorf(cli.StatusConfig, "read %q: %w", "x", base), 78, "os-test: read \"x\": something broke\n"},
		{"usage with a hint", cli.WithHint(cli.Usagef("no verb"), "os-test --help"), 64, "os-test: no verb\nos-test: hint: os-test --help\n"},
		{"status alone", cli.Exit(cli.StatusStalled), 11, ""},
		{"status 0", cli.Exit(cli.StatusOK), 0, ""},
		{"stdout closed", fmt.Errorf("print: %w", cli.ErrStdoutClosed), 0, ""},
		{"signal", fmt.Errorf("stop: %w", &cli.Interrupted{Signal: syscall.SIGTERM}), 143, "os-test: stop: stopped by terminated\n"},
	}
	for _, tt := range tests {
		status, stdout, stderr := call(func(context.Context, *cli.Env) error { return tt.err })
		if status != tt.status || stderr != tt.stderr || stdout != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", tt.name, status, stdout, stderr)
		}
	}
}

func TestHelpAndVersionGoToStdout(t *testing.T) {
	usage := cli.Usage{Name: "os-test verb", Synopsis: []string{"[flags] A", "B"}, About: "Tests.", Statuses: []int{0, 64}, Notes: map[int]string{0: "fine"}}
	for arg, want := range map[string]string{
		"--help":    "usage: os-test verb [flags] A\n       os-test verb B\n\nTests.\n\nFLAGS\n      --x string               an x\n  -h, --help                   print this help and exit\n      --version                print the version and exit\n\nEXIT STATUS\n  0    fine\n  64   the command line is wrong\n",
		"--version": "os-test " + cli.Version() + "\n",
	} {
		fs := usage.Flags()
		fs.String("x", "", "an x")
		_, err := usage.Parse(fs, []string{arg})
		status, stdout, stderr := call(func(context.Context, *cli.Env) error { return err })
		if status != 0 || stdout != want || stderr != "" {
			t.Errorf("%s: status %d, stderr %q, stdout:\n%s", arg, status, stderr, stdout)
		}
	}
}

func TestUnknownFlagIsAUsageError(t *testing.T) {
	usage := cli.Usage{Name: "os-test"}
	_, err := usage.Parse(usage.Flags(), []string{"--nope"})
	if cli.Status(err) != cli.StatusUsage || !strings.Contains(err.Error(), "--nope") {
		t.Errorf("%v", err)
	}
}

func TestSignals(t *testing.T) {
	status, _, stderr := call(func(ctx context.Context, env *cli.Env) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-ctx.Done()
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			return err
		}
		<-env.Hurry()
		return context.Cause(ctx)
	})
	if status != 130 || !strings.Contains(stderr, "interrupt") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestHangupReloadsOnceCaught(t *testing.T) {
	status, _, _ := call(func(ctx context.Context, env *cli.Env) error {
		reload := env.CatchHangup()
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			return err
		}
		select {
		case <-reload:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if status != 0 {
		t.Errorf("status %d", status)
	}
	status, _, _ = call(func(ctx context.Context, _ *cli.Env) error {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if status != 129 {
		t.Errorf("status %d without CatchHangup", status)
	}
}

func TestLookupEnvTakesTheLast(t *testing.T) {
	env := &cli.Env{Environ: []string{"A=1", "B", "A=2", "C="}}
	if v, ok := env.LookupEnv("A"); v != "2" || !ok {
		t.Errorf("A is %q, %v", v, ok)
	}
	if v, ok := env.LookupEnv("C"); v != "" || !ok {
		t.Errorf("C is %q, %v", v, ok)
	}
	if _, ok := env.LookupEnv("B"); ok {
		t.Error("B is set")
	}
}

// Case P16: cron leaves HOME unset.
func TestHomeWithoutHOME(t *testing.T) {
	for _, environ := range [][]string{nil, {"HOME="}, {"HOME=~"}} {
		home, err := (&cli.Env{Environ: environ}).Home()
		if err != nil || !strings.HasPrefix(home, "/") {
			t.Errorf("%q: %q, %v", environ, home, err)
		}
	}
	if home, _ := (&cli.Env{Environ: []string{"HOME=/h"}}).Home(); home != "/h" {
		t.Errorf("home %q", home)
	}
}
