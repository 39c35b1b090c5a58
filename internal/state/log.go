package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"ostoolkit/internal/wire"
)

// Log is a file of whole lines that is only appended to. It may be written from
// several goroutines, and by one process at a time.
type Log struct {
	mu sync.Mutex
	f  *os.File
}

// OpenLog opens the log at path for appending. Where its last line has no end,
// because its writer died in the middle, it is ended first, so that the next line
// stands alone.
func OpenLog(path string) (*Log, error) {
	f, err := openPlain(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := endTornLine(f); err != nil {
		_ = f.Close() // the error above is the one to tell
		return nil, fmt.Errorf("open log %q: %w", path, err)
	}
	return &Log{f: f}, nil
}

func endTornLine(f *os.File) error {
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, fi.Size()-1); err != nil && err != io.EOF {
		return err
	}
	if last[0] == '\n' {
		return nil
	}
	_, err = f.Write([]byte("\n"))
	return err
}

// Write appends p, which must be whole lines.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Write(p)
}

// File is the open file, to be given to a child as its stdout.
func (l *Log) File() *os.File { return l.f }

// Close closes the log.
func (l *Log) Close() error { return l.f.Close() }

// LastOutcome returns the last outcome of the run in the log at path, or nil where
// there is none. Lines that do not parse, and a torn last one, are passed over and
// counted.
func LastOutcome(path, runID string) (out *wire.Outcome, damaged int, err error) {
	f, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	lines := wire.NewReader(f, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return out, damaged, nil
		}
		if err != nil {
			return out, damaged, fmt.Errorf("read log %q: %w", path, err)
		}
		if line.Err != nil {
			damaged++
			continue
		}
		// A log has hundreds of thousands of lines, and few that are worth decoding.
		if !bytes.Contains(line.Bytes, []byte("outcome")) && json.Valid(line.Bytes) {
			continue
		}
		rec, err := wire.Decode(line.Bytes, "")
		if err != nil {
			damaged++
			continue
		}
		if o, ok := rec.(*wire.Outcome); ok && o.RunID == runID && o.Known() {
			out = o
		}
	}
}
