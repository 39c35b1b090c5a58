package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// listen makes the root context and the goroutine that owns the process's
// signals. release stops both and waits.
func (e *Env) listen(parent context.Context) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	e.hurry, e.hangup = make(chan struct{}), make(chan struct{}, 1)
	signals := make(chan os.Signal, 4)
	// SIGPIPE is caught so that a write to a closed pipe returns an error; it is not
	// ignored, since an ignored signal would stay ignored in every child.
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		e.dispatch(signals, done, cancel)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-gone
		cancel(nil)
	}
}

func (e *Env) dispatch(signals <-chan os.Signal, done <-chan struct{}, cancel context.CancelCauseFunc) {
	stops := 0
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			sig := s.(syscall.Signal)
			switch {
			case sig == syscall.SIGPIPE:
			case sig == syscall.SIGHUP && e.reloads.Load():
				select {
				case e.hangup <- struct{}{}:
				default: // a reload is pending already
				}
			case stops == 0:
				stops++
				cancel(&Interrupted{sig})
			case stops == 1:
				stops++
				close(e.hurry)
			}
		}
	}
}

// CatchHangup makes SIGHUP, from now on, a request to reload instead of a request
// to stop. The channel holds at most one request.
func (e *Env) CatchHangup() <-chan struct{} {
	e.reloads.Store(true)
	return e.hangup
}
