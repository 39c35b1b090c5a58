package workspace

import (
	"context"
	"errors"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// afterStop is for how long a verb still takes records once we are told to stop. What
// run has read is nobody else's any more, so that it gets an outcome; to end belongs
// what a harness upstream prints, which is being stopped as we are. The others stop at
// once.
var afterStop = map[string]time.Duration{
	"run": 100 * time.Millisecond,
	"end": 12 * time.Second,
}

// intake hands out the records of standard input, until we are told to stop.
type intake struct {
	records <-chan wire.Input
	hurry   <-chan struct{}
	wait    time.Duration
	over    <-chan time.Time // set by the stop
}

func (i *intake) next(ctx context.Context) (wire.Input, bool) {
	if i.over == nil {
		select {
		case in, ok := <-i.records:
			return in, ok
		case <-ctx.Done():
			i.over = time.After(i.wait)
		}
	}
	select {
	case in, ok := <-i.records:
		return in, ok
	case <-i.over:
	case <-i.hurry:
	}
	return wire.Input{}, false
}

// each calls do for every record on standard input. A bad line and a failed record
// are one message each, and the rest goes on, unless nobody reads our stdout any more;
// the exit status is the first that is not 0, or 65 where only lines were bad.
func (c *command) each(ctx context.Context, do func(context.Context, wire.Record) error) error {
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	in := &intake{records: wire.Records(reading, c.env.Stdin, "issue"), hurry: c.env.Hurry(), wait: afterStop[c.verb]}
	var all tally
	for !all.closed {
		input, ok := in.next(ctx)
		if !ok {
			break
		}
		if input.Err != nil && input.Number == 0 {
			return input.Err
		}
		c.tell(all.add(c.one(ctx, input, do)))
	}
	if all.status == cli.StatusOK && ctx.Err() != nil && !c.told {
		return context.Cause(ctx)
	}
	return all.result()
}

func (c *command) one(ctx context.Context, in wire.Input, do func(context.Context, wire.Record) error) error {
	if in.Err != nil {
		return cli.Errorf(cli.StatusData, "standard input line %d: %w", in.Number, in.Err)
	}
	return do(ctx, in.Record)
}

// tally sums up the errors of many records.
type tally struct {
	status int  // the first that is neither 0 nor 65
	bad    bool // a line was bad
	closed bool // stdout was closed
}

// add counts err and returns it.
func (t *tally) add(err error) error {
	t.closed = t.closed || errors.Is(err, cli.ErrStdoutClosed)
	switch s := cli.Status(err); {
	case s == cli.StatusData:
		t.bad = true // a failure of another record weighs more
	case t.status == cli.StatusOK:
		t.status = s
	}
	return err
}

func (t *tally) result() error {
	if t.status == cli.StatusOK && t.bad {
		return cli.Exit(cli.StatusData)
	}
	return cli.Exit(t.status)
}

// tell prints the message of err. A status alone has none, and of a reader that has
// gone nobody wants to hear.
func (c *command) tell(err error) {
	var exit *cli.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.Err == nil:
	case exit == nil && errors.Is(err, cli.ErrStdoutClosed):
	default:
		c.env.Errorf("%v", err)
	}
}
