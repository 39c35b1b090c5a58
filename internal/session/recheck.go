package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/wire"
)

const (
	recheckLimit = time.Minute
	recheckGrace = time.Second // from TERM to KILL for one that is over it
)

// Recheck is a command that reads an issue again: the issue's record on its stdin, an
// issue or gone record on its stdout.
type Recheck struct {
	Command string // given to sh -c
	Dir     string
	Env     []string // KEY=value
	Stderr  *os.File // nil: none
	Issue   *wire.Issue
}

// Run returns the issue as it is now, nil if it is gone. An answer counts whatever
// the exit status is.
func (r *Recheck) Run(ctx context.Context) (*wire.Issue, error) {
	ctx, cancel := context.WithTimeout(ctx, recheckLimit)
	defer cancel()
	record, err := wire.Marshal(r.Issue)
	if err != nil {
		return nil, err
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("recheck: %v", err)
	}
	answer, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recheck: %v", err), in.Close(), feed.Close())
	}
	child, err := proc.Start(proc.Spec{
		Argv: []string{"sh", "-c", r.Command}, Dir: r.Dir, Env: r.Env,
		Stdin: in, Stdout: out, Stderr: r.Stderr,
	})
	closed := errors.Join(in.Close(), out.Close())
	if err = errors.Join(err, closed); err != nil {
		return nil, errors.Join(fmt.Errorf("recheck: %v", err), feed.Close(), answer.Close())
	}
	return r.talk(ctx, child, feed, answer, append(record, '\n'))
}

// talk feeds the command and reads its answer, both at once and both given up with
// ctx.
func (r *Recheck) talk(ctx context.Context, child *proc.Child, feed, answer *os.File, record []byte) (*wire.Issue, error) {
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		_, _ = feed.Write(record) // one that does not read its input is no failure
		_ = feed.Close()
	}()
	unwatch := context.AfterFunc(ctx, func() {
		child.Stop(nil, child.Send(syscall.SIGTERM, recheckGrace), child.Send(syscall.SIGKILL, recheckGrace))
		_ = feed.SetWriteDeadline(time.Now())
		_ = answer.SetReadDeadline(time.Now())
	})
	issue, found, err := r.read(answer)
	select {
	case <-child.Done():
	case <-ctx.Done():
	}
	unwatch()
	_ = answer.Close() // read only
	_ = feed.SetWriteDeadline(time.Now())
	<-fed
	switch {
	case found:
		return issue, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("recheck: %v", context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("recheck: %v", err)
	}
	return nil, fmt.Errorf("recheck printed no record of the issue and ended with %v", child.Exit())
}

// read returns the first issue or gone record of the issue, and takes the rest of
// the output so that its writer is not held up.
func (r *Recheck) read(answer *os.File) (issue *wire.Issue, found bool, err error) {
	lines := wire.NewReader(answer, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return issue, found, nil
		}
		if err != nil {
			return issue, found, err
		}
		if found || line.Bytes == nil {
			continue
		}
		rec, err := wire.Decode(line.Bytes, "")
		if err != nil {
			continue // its own messages belong on its stderr
		}
		switch rec := rec.(type) {
		case *wire.Issue:
			issue, found = rec, rec.ID == r.Issue.ID
		case *wire.Gone:
			issue, found = nil, rec.ID == r.Issue.ID
		}
	}
}
