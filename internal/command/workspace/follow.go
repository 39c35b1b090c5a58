package workspace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/run"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// follower prints what a run's log gets, in a goroutine of its own: a reader of stdout
// who is slow must not hold up the run. The goroutine owns the files.
type follower struct {
	over chan struct{} // closed: print what is there and end
	task sync.WaitGroup
}

// follow begins to follow the run where --follow asks for it. Where that is not
// possible the run goes on without.
func (c *command) follow(life *run.Life) {
	if !c.followed {
		return
	}
	path := life.RunDir().Events()
	log, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		c.env.Warnf("follow the run: %v", err)
		return
	}
	changes, err := watch.Open([]string{filepath.Dir(path)}, watch.Options{Warn: c.env.Warnf, Forbid: c.env.Getenv("OS_WATCH") == "off"})
	if err != nil {
		_ = log.Close() // read only
		c.env.Warnf("follow the run: %v", err)
		return
	}
	f := &follower{over: make(chan struct{})}
	f.task.Go(func() {
		defer func() { _ = log.Close() }() // as above
		defer changes.Close()
		if err := c.relay(&tail{log: log, changed: changes.C(), over: f.over}, life.RunID()); err != nil {
			c.env.Warnf("follow the run: %v", err)
		}
	})
	c.follower = f
}

// followedUp returns once all that the run has logged is printed.
func (c *command) followedUp() {
	if c.follower == nil {
		return
	}
	close(c.follower.over)
	c.follower.task.Wait()
	c.follower = nil
}

// relay prints the records in a log, as they are, without the run's own outcome: that is
// printed once it has been judged. What is no record is a script's chatter.
func (c *command) relay(log io.Reader, runID string) error {
	lines := wire.NewReader(log, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Err != nil {
			continue
		}
		rec, err := wire.Decode(line.Bytes, "")
		if err != nil {
			continue
		}
		if out, ok := rec.(*wire.Outcome); ok && out.RunID == runID {
			continue
		}
		err = c.out.Write(&wire.Unknown{Raw: line.Bytes})
		if errors.Is(err, cli.ErrStdoutClosed) {
			return nil // the run is not its reader's
		}
		if err != nil {
			return err
		}
	}
}

// tail reads a file that grows, to the end that it has when over is closed.
type tail struct {
	log     io.Reader
	changed <-chan struct{}
	over    <-chan struct{}
	last    bool
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		n, err := t.log.Read(p)
		if n > 0 || err != io.EOF || t.last {
			return n, err
		}
		select {
		case <-t.changed:
		case <-t.over:
			t.last = true
		}
	}
}
