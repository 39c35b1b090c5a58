package session

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"ostoolkit/internal/cli"
)

// maxPending bounds in bytes what is kept for stdout where the log is broken and
// the reader slow at the same time. Beyond it events are dropped, never an outcome.
const maxPending = 16 << 20

// copier copies what is appended to a file to a writer, in a goroutine of its own.
// The file is the buffer between the two.
type copier struct {
	f      *os.File
	w      io.Writer
	buf    []byte
	kick   chan struct{} // something is there; holds one
	ending chan struct{} // closed: copy what is there and end
	gone   chan struct{} // closed: w failed
	done   chan struct{} // closed: the goroutine has ended
	err    error         // why w failed; read it after gone or done

	mu      sync.Mutex
	pending []byte // lines that the file could not take
}

// newCopier starts at the present end of the file at path.
func newCopier(path string, w io.Writer) (*copier, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	c := &copier{f: f, w: w, buf: make([]byte, 64<<10), kick: make(chan struct{}, 1), ending: make(chan struct{}),
		gone: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c, nil
}

func (c *copier) wake() {
	select {
	case c.kick <- struct{}{}:
	default: // it will look anyway
	}
}

// append hands over a line that the file could not take.
func (c *copier) append(line []byte) {
	c.mu.Lock()
	if len(c.pending) < maxPending || bytes.Contains(line, []byte(`"type":"outcome"`)) {
		c.pending = append(c.pending, line...)
	}
	c.mu.Unlock()
	c.wake()
}

func (c *copier) run() {
	defer close(c.done)
	defer func() { _ = c.f.Close() }() // read only
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		last := false
		select {
		case <-c.kick:
		case <-look.C:
			// An agent may work for long without an event that would find this out.
			if cli.ReaderGone(c.w) {
				c.err = cli.ErrStdoutClosed
			}
		case <-c.ending:
			last = true
		}
		if c.err == nil {
			c.err = c.copy()
		}
		if c.err != nil {
			close(c.gone)
			return
		}
		if last {
			return
		}
	}
}

func (c *copier) copy() error {
	if _, err := io.CopyBuffer(onlyWriter{c.w}, onlyReader{c.f}, c.buf); err != nil {
		return err
	}
	c.mu.Lock()
	rest := c.pending
	c.pending = nil
	c.mu.Unlock()
	if len(rest) == 0 {
		return nil
	}
	_, err := c.w.Write(rest)
	return err
}

// onlyReader and onlyWriter hide the files' own ways to copy: each piece must pass
// through the writer's Write, which knows a closed stdout and may drop lines.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// close returns at the latest when ctx is done; the goroutine then ends with the
// write that is under way, and so at the latest with the process.
func (c *copier) close(ctx context.Context) error {
	close(c.ending)
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return fmt.Errorf("nobody read stdout in time")
	}
}

// onlyOutcomes drops every line that is not an outcome.
type onlyOutcomes struct {
	w    io.Writer
	rest []byte // the beginning of a line
}

// Write passes on the outcome lines in p, which is not cut at line ends.
func (o *onlyOutcomes) Write(p []byte) (int, error) {
	o.rest = append(o.rest, p...)
	for {
		i := bytes.IndexByte(o.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := o.rest[:i+1]
		o.rest = o.rest[i+1:]
		if !bytes.HasPrefix(line, []byte(`{"v":1,"type":"outcome"`)) {
			continue
		}
		if _, err := o.w.Write(line); err != nil {
			return 0, err
		}
	}
}
