package codex

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// stepped is a session without a server, in a bubble of synctest where time passes at
// once. Its goroutine does nothing but step.
func stepped(t *testing.T) *driver {
	w := newWorld(t, nil)
	d := newDriver(t.Context(), w.cfg)
	t.Cleanup(d.Close)
	d.frames = make(chan frame)
	d.peer = &peer{conn: &conn{writes: make(chan []byte, 9), broken: make(chan error, 1)}}
	d.Inbox = &session.Inbox{}
	return d
}

// stopFor keeps the session's goroutine from running for that long, as SIGSTOP does.
func (d *driver) stopFor(long time.Duration) {
	d.Beside(func(context.Context) { d.Post(func() { <-time.After(long) }) })
}

// A limit of a request counts the time in which the session runs.
func TestRequestLimitCountsSteps(t *testing.T) {
	const limit = 10 * time.Second
	for _, stopped := range []time.Duration{0, limit / 2, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			d := stepped(t)
			if stopped > 0 {
				d.stopFor(stopped)
			}
			begun := time.Now()
			_, err := d.call("x/y", nil, limit)
			var end *session.Ending
			if !errors.As(err, &end) || end.Category != wire.CauseProtocol || end.Message != "app-server did not answer x/y within 10s" {
				t.Errorf("stopped for %s: %v", stopped, err)
			}
			// The first tick only starts the clock, and a stop counts as two at most.
			if ran := time.Since(begun) - stopped; ran < limit-2*session.Tick || ran > limit+2*session.Tick {
				t.Errorf("stopped for %s: given up after %s besides", stopped, ran)
			}
		})
	}
}

// So does the wait for the answers to steers, and for the last frames of a server that
// is going.
func TestOtherLimitsCountSteps(t *testing.T) {
	tests := map[string]struct {
		wait  func(*driver)
		limit time.Duration
	}{
		"steers": {func(d *driver) {
			d.steers = 1
			if err := d.hearSteers(); err != nil {
				t.Error(err)
			}
		}, 10 * time.Second},
		"last frames": {func(d *driver) {
			d.fade("it went")
			for d.End == nil {
				_ = d.step() // the end is what is waited for
			}
		}, drainLimit},
		"a turn with a system error": {func(d *driver) {
			d.thread, d.turn = "T1", &turn{id: "U1", active: true}
			f := parseFrame(wire.Line{Bytes: []byte(`{"method":"thread/status/changed","params":{"threadId":"T1","status":{"type":"systemError"}}}`)})
			d.handle(&f)
			for d.End == nil {
				_ = d.step()
			}
			if d.End.Category != wire.CauseProvider {
				t.Errorf("ended as %+v", d.End)
			}
		}, systemError},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			d := stepped(t)
			d.stopFor(time.Hour)
			begun := time.Now()
			tt.wait(d)
			if ran := time.Since(begun) - time.Hour; ran < tt.limit-2*session.Tick || ran > tt.limit+2*session.Tick {
				t.Errorf("%s: given up after %s besides", name, ran)
			}
		})
	}
}

// A frame that the server takes in two pieces, with more than a slice of silence between
// them, arrives whole.
func TestFrameInPieces(t *testing.T) {
	t.Parallel()
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(ourIn, ourOut, nil, nil)
	long := strings.Repeat("x", 1<<20) // more than any pipe holds
	if err := c.send(long); err != nil {
		t.Fatal(err)
	}
	c.closeInput()
	<-time.After(writeSlice + writeSlice/4)
	got, err := io.ReadAll(theirIn)
	if want := `"` + long + `"` + "\n"; err != nil || string(got) != want {
		t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
	}
	c.close()
	if err := errors.Join(theirIn.Close(), theirOut.Close()); err != nil {
		t.Error(err)
	}
}
