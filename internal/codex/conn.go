package codex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"ostoolkit/internal/wire"
)

const (
	frameQueue = 512         // frames that may wait for the session
	writeQueue = 256         // frames that may wait for the peer to read them
	writeSlice = time.Second // see writeFrame
	writeTries = 10          // slices in which the peer has to take one frame
)

// conn carries frames over the two pipes of an app-server. One goroutine reads, one
// writes; send, closeInput and close belong to the session's goroutine.
type conn struct {
	in, out *os.File // the server's stdin and stdout
	frames  chan frame
	writes  chan []byte
	broken  chan error // why the writer gave up; holds one
	quit    chan struct{}
	trace   *tracer
	skim    *skimmer // nil: every frame counts
	done    sync.WaitGroup
	shut    bool // no more writes
}

func newConn(in, out *os.File, trace *tracer, skim *skimmer) *conn {
	c := &conn{in: in, out: out, trace: trace, skim: skim,
		frames: make(chan frame, frameQueue), writes: make(chan []byte, writeQueue),
		broken: make(chan error, 1), quit: make(chan struct{})}
	c.done.Go(c.read)
	c.done.Go(c.write)
	return c
}

// read ends with the stream, or with close. The channel is closed then.
func (c *conn) read() {
	defer close(c.frames)
	lines := wire.NewReader(c.out, maxFrame)
	for {
		line, err := lines.Next()
		if err != nil {
			return // the end of the stream, or close
		}
		c.trace.frame("out", line.Bytes)
		if c.skim.drop(line.Bytes) {
			continue
		}
		select {
		case c.frames <- parseFrame(line):
		case <-c.quit:
			return
		}
	}
}

// write ends when the queue is closed or a write fails, and closes the pipe.
func (c *conn) write() {
	err := c.writeAll()
	if closeErr := c.in.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		return
	}
	c.broken <- err
	for range c.writes { // until closeInput: the session must not block on a dead peer
	}
}

func (c *conn) writeAll() error {
	for line := range c.writes {
		c.trace.frame("in", line)
		if err := c.writeFrame(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// writeFrame waits for the peer slice by slice, so that a process which was stopped in
// the middle of it loses one slice and not its session.
func (c *conn) writeFrame(line []byte) error {
	for try := 1; ; try++ {
		if err := c.in.SetWriteDeadline(time.Now().Add(writeSlice)); err != nil {
			return err
		}
		select {
		case <-c.quit: // close may have set its own deadline before ours
			return os.ErrClosed
		default:
		}
		n, err := c.in.Write(line)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || try == writeTries {
			return err
		}
		line = line[n:]
	}
}

// send queues one frame. It never blocks.
func (c *conn) send(v any) error {
	line, err := wire.Encode(v)
	if err != nil {
		return fmt.Errorf("encode a frame: %v", err)
	}
	if c.shut {
		return os.ErrClosed
	}
	select {
	case c.writes <- line:
		return nil
	default:
		return fmt.Errorf("app-server does not read: %d frames wait for it", writeQueue)
	}
}

// closeInput closes the server's stdin once all queued frames are written.
func (c *conn) closeInput() {
	if !c.shut {
		c.shut = true
		close(c.writes)
	}
}

// close gives both pipes up and waits for the goroutines.
func (c *conn) close() {
	c.closeInput()
	close(c.quit)
	_ = c.in.SetWriteDeadline(time.Now()) // a write that is under way is given up
	_ = c.out.Close()                     // so is the read
	c.done.Wait()
}

// tracer writes every frame to a file, as {"t":seconds,"dir":"in"|"out","frame":…},
// in being what we send. It is safe for concurrent use; a nil tracer does nothing.
type tracer struct {
	mu   sync.Mutex
	w    io.Writer
	now  func() time.Time
	from time.Time
}

func newTracer(w io.Writer, now func() time.Time) *tracer {
	if w == nil {
		return nil
	}
	return &tracer{w: w, now: now, from: now()}
}

func (t *tracer) frame(dir string, line []byte) {
	if t == nil {
		return
	}
	entry := struct {
		T     float64         `json:"t"`
		Dir   string          `json:"dir"`
		Frame json.RawMessage `json:"frame,omitempty"`
		Text  string          `json:"text,omitempty"`
	}{T: float64(t.now().Sub(t.from).Milliseconds()) / 1000, Dir: dir}
	if json.Valid(line) {
		entry.Frame = line
	} else {
		entry.Text = string(line)
	}
	b, err := wire.Encode(entry)
	if err != nil {
		return // a trace is a help for people, never a reason to fail
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.w.Write(append(b, '\n'))
}
