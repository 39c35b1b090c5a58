package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

const (
	maxLog     = 64 << 20 // bytes of the log before it is put aside
	maxPending = 4096     // records that wait for a reader of stdout
	drainWait  = time.Second
)

// printer writes records to the log and to stdout. The log comes first: it is what
// the next os-loop knows of what was printed. A reader of stdout who is slow loses
// records in the end, and holds up nothing.
type printer struct {
	stdout io.Writer
	warn   func(string, ...any)
	path   string
	log    *state.Log // nil: nothing is kept
	size   int64

	lines  chan []byte
	done   chan struct{}
	closed chan struct{} // closed once nobody reads stdout any more; set to nil when that was seen
	lost   bool
	broken bool
}

func newPrinter(stdout io.Writer, warn func(string, ...any)) *printer {
	p := &printer{stdout: stdout, warn: warn, lines: make(chan []byte, maxPending), done: make(chan struct{}), closed: make(chan struct{})}
	go p.run(p.closed)
	return p
}

func (p *printer) open(path string) error {
	log, err := state.OpenLog(path)
	if err != nil {
		return err
	}
	info, err := log.File().Stat()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	p.path, p.log, p.size = path, log, info.Size()
	return nil
}

// run is the goroutine that waits for the reader of stdout.
func (p *printer) run(closed chan<- struct{}) {
	defer close(p.done)
	var failed error
	for line := range p.lines {
		if failed != nil {
			continue
		}
		if _, failed = p.stdout.Write(line); failed != nil {
			if !errors.Is(failed, cli.ErrStdoutClosed) {
				p.warn("print: %v", failed)
			}
			close(closed)
		}
	}
}

func (p *printer) print(rec wire.Record) {
	line, err := wire.Marshal(rec)
	if err != nil {
		p.warn("%v", err)
		return
	}
	line = append(line, '\n')
	p.keep(line)
	select {
	case p.lines <- line:
	default:
		if !p.lost {
			p.lost = true
			p.warn("nobody reads stdout: records go to %s only", p.path)
		}
	}
}

// keep appends to the log. A log that cannot be written is told once, and the work
// goes on.
func (p *printer) keep(line []byte) {
	if p.log == nil {
		return
	}
	err := p.rotate()
	if err == nil {
		_, err = p.log.Write(line)
	}
	if err == nil {
		p.size += int64(len(line))
		return
	}
	if !p.broken {
		p.broken = true
		p.warn("write the log: %v", err)
	}
}

func (p *printer) rotate() error {
	if p.size < maxLog {
		return nil
	}
	if err := errors.Join(p.log.Close(), os.Rename(p.path, p.path+asideSuffix)); err != nil {
		return err
	}
	return p.open(p.path)
}

// close waits for the reader of stdout, but not for long.
func (p *printer) close() {
	close(p.lines)
	timer := time.NewTimer(drainWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
	if p.log != nil {
		if err := p.log.Close(); err != nil {
			p.warn("close the log: %v", err)
		}
	}
}

// forgetPrinted takes those outcomes away that a log has already.
func forgetPrinted(path string, missing map[string]*wire.Outcome) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	lines := wire.NewReader(f, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %q: %w", path, err)
		}
		if !bytes.Contains(line.Bytes, []byte(`"type":"outcome"`)) {
			continue
		}
		if rec, err := wire.Decode(line.Bytes, ""); err == nil {
			if out, ok := rec.(*wire.Outcome); ok {
				delete(missing, out.RunID)
			}
		}
	}
}
