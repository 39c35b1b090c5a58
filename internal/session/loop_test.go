package session

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ostoolkit/internal/wire"
)

// drift is a driver without a peer.
type drift struct{ *Loop }

func newDrift(ctx context.Context, t *testing.T, out io.Writer, limits Limits) *drift {
	t.Helper()
	p := testPlace(t)
	em, err := NewEmitter(p, testOutput(out))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = em.Close(context.Background()) }) // stdout may be broken
	d := &drift{NewLoop(ctx, Config{Emitter: em, Limits: limits, Now: time.Now})}
	d.Inbox = &Inbox{em: em}
	t.Cleanup(d.Close)
	return d
}

func (d *drift) step() error {
	select {
	case job := <-d.Jobs():
		job()
	case now := <-d.Ticks():
		if end := d.Tick(now); end != nil {
			d.Exceeded(end)
		}
	}
	return d.Err()
}

func (d *drift) forever() bool { return false }

func (d *drift) ends(t *testing.T, outcome, message string) {
	t.Helper()
	var end *Ending
	if err := Until(d.step, d.forever); !errors.As(err, &end) || end.Outcome != outcome || end.Message != message {
		t.Errorf("the session ended with %+v, want %s: %s", err, outcome, message)
	}
}

func TestLoopIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newDrift(ctx, t, io.Discard, Limits{})
	cancel()
	d.ends(t, wire.Cancelled, "the session was told to stop")
	d.Fail(Failf(wire.CauseInternal, "later"))
	if d.End.Category != wire.CauseShutdown {
		t.Errorf("the first reason does not stand: %+v", d.End)
	}
}

// deaf is a stdout whose reader has gone.
type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLoopEndsWithItsReader(t *testing.T) {
	d := newDrift(t.Context(), t, deaf{}, Limits{})
	d.Warn("code", "somebody should read this")
	d.ends(t, wire.Cancelled, "nobody reads the events any more")
}

func TestLoopExceedsALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrift(t.Context(), t, io.Discard, Limits{Total: time.Minute})
		begun := time.Now()
		d.ends(t, wire.TimedOut, "the run is over its limit of 1m0s")
		if took := time.Since(begun); took < time.Minute || took > time.Minute+2*Tick {
			t.Errorf("after %s", took)
		}
	})
}

func TestLoopAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrift(t.Context(), t, io.Discard, Limits{})
		begun, due := time.Now(), false
		d.After(time.Minute, func() { due = true })
		d.After(time.Hour, func() { t.Error("a job of a closed session ran") })
		if err := Until(d.step, func() bool { return due }); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		d.Close()
	})
}

// What is awaited runs beside the session, whose end it hears.
func TestAwait(t *testing.T) {
	d := newDrift(t.Context(), t, io.Discard, Limits{})
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		got, err := Await(d.Loop, d.step, func(context.Context) (string, error) { return "result", want })
		if got != "result" || !errors.Is(err, want) {
			t.Errorf("Await: %q, %v, want %v", got, err, want)
		}
	}
	heard := make(chan struct{})
	_, err := Await(d.Loop, d.step, func(ctx context.Context) (string, error) {
		d.Post(func() { d.Fail(Failf(wire.CauseInternal, "enough")) })
		<-ctx.Done()
		close(heard)
		return "too late", nil
	})
	var end *Ending
	if !errors.As(err, &end) || end.Message != "enough" {
		t.Errorf("Await of an ending session: %v", err)
	}
	d.Close()
	<-heard
	d.Close() // does nothing
	d.Post(func() { t.Error("a job of a closed session ran") })
}

// A recheck does not keep the session from hearing that it is to stop.
func TestPlanIsRecheckedBeside(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := newDrift(ctx, t, io.Discard, Limits{})
	plan := d.Plan(Plan{MaxTurns: 9, Recheck: func(ctx context.Context) (*wire.Issue, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}}, d.step)
	end := plan.Run(ctx, false, func(Prompt) error { return nil })
	if end.Outcome != wire.Cancelled || end.Category != wire.CauseShutdown {
		t.Errorf("the run ended with %+v", end)
	}
}
