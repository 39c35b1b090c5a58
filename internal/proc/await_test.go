package proc_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"ostoolkit/internal/proc"
)

func TestAwaitAndSignalTo(t *testing.T) {
	c, err := proc.Start(proc.Spec{Argv: []string{"sleep", "60"}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	p := proc.Process{Pid: c.Pid(), Started: c.Started(), Name: "sleep"}
	cause := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := proc.Await(ctx, p); !errors.Is(err, cause) {
		t.Errorf("await with an ended context: %v", err)
	}
	// Somebody else with that pid is not meant.
	other := p
	other.Started = "1"
	if err := proc.SignalTo(other, syscall.SIGKILL); err != nil {
		t.Errorf("signal an older process: %v", err)
	}
	if err := proc.Await(t.Context(), other); err != nil {
		t.Errorf("await an older process: %v", err)
	}
	if !proc.Alive(p.Pid, p.Started) {
		t.Fatal("the wrong process was signalled")
	}
	if err := proc.SignalTo(p, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := proc.Await(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if got := c.Exit().Signal; got != syscall.SIGTERM {
		t.Errorf("ended by %v", got)
	}
	if err := errors.Join(proc.SignalTo(p, syscall.SIGKILL), proc.Await(t.Context(), p)); err != nil {
		t.Errorf("after its end: %v", err)
	}
}
