package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// EventsOptions say which lines of a scheduler's log are wanted.
type EventsOptions struct {
	Since  time.Time // nothing older; zero: everything
	Issues []string  // only what is of these, by id, or by identifier in any case; none: all
	// More brings a hint when the log may have grown: it is followed then, through
	// rotations and the death of its writer, until the context ends. nil: what is there
	// now.
	More <-chan struct{}
	// Idle is called, where it is not nil, whenever there is nothing more for now. Its
	// error ends the reading.
	Idle func() error
}

// Events calls each for every line of the log that is wanted, the oldest first and
// without its LF; its bytes are valid until each returns. It returns how many damaged
// lines were passed over, and the first error of each, of Idle or of a file. The end
// of the context is none.
func Events(ctx context.Context, root state.Root, o EventsOptions, each func(line []byte) error) (damaged int, err error) {
	c := Config{Root: root}
	log := &rotated{ctx: ctx, path: c.path(LogFile), more: o.More, idle: o.Idle}
	defer log.close()
	for err == nil {
		var there bool
		if there, err = log.next(); !there {
			break
		}
		var n int
		n, err = o.read(log, each)
		damaged += n
	}
	if ctx.Err() != nil {
		err = nil
	}
	return damaged, err
}

// read passes on one file.
func (o *EventsOptions) read(log io.Reader, each func([]byte) error) (damaged int, err error) {
	lines := wire.NewReader(log, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return damaged, nil
		}
		if err != nil {
			return damaged, err
		}
		wanted, whole := o.wants(line)
		if !whole {
			damaged++
		}
		if wanted {
			if err := each(line.Bytes); err != nil {
				return damaged, err
			}
		}
	}
}

// wants reports whether a line is wanted, and whether it is one at all.
func (o *EventsOptions) wants(line wire.Line) (wanted, whole bool) {
	var rec struct {
		Time       wire.Time `json:"time"`
		IssueID    string    `json:"issue_id"`
		Identifier string    `json:"identifier"`
	}
	if line.Err != nil || json.Unmarshal(line.Bytes, &rec) != nil {
		return false, false
	}
	if rec.Time.Before(o.Since) {
		return false, true
	}
	of := func(name string) bool { return name == rec.IssueID || strings.EqualFold(name, rec.Identifier) }
	return len(o.Issues) == 0 || slices.ContainsFunc(o.Issues, of), true
}

// rotated reads a log and what was put aside of it, one file after the other: next
// goes to the next one, Read ends where nothing can be added to this one any more.
type rotated struct {
	ctx  context.Context
	path string
	more <-chan struct{} // nil: nothing is waited for
	idle func() error
	f    *os.File // nil before the first
}

func (r *rotated) close() {
	if r.f != nil {
		_ = r.f.Close() // read only
	}
}

// next opens the next file. It reports false where there is none and none is waited
// for.
func (r *rotated) next() (bool, error) {
	for {
		f, err := r.successor()
		if err != nil {
			return false, err
		}
		if f != nil {
			r.close()
			r.f = f
			return true, nil
		}
		if r.more == nil {
			return false, nil
		}
		if err := r.wait(); err != nil {
			return false, err
		}
	}
}

// successor opens the file after this one, or returns nil. The log is put aside as a
// whole and then begun anew, so that a file that is not the log any more is complete.
// What is put aside is not always this file: the log may have been put aside twice
// since it was opened.
func (r *rotated) successor() (*os.File, error) {
	if r.f != nil && r.isLog() {
		return nil, nil
	}
	for _, path := range []string{r.path + asideSuffix, r.path} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the log: %w", err)
		}
		if r.f == nil || !same(f, r.f) {
			return f, nil
		}
		_ = f.Close() // it is open already
	}
	return nil, nil
}

// isLog reports whether the open file may still grow: it is the log, or the log is
// just being put aside.
func (r *rotated) isLog() bool {
	now, err := os.Stat(r.path)
	if err != nil {
		return true
	}
	own, err := r.f.Stat()
	return err != nil || os.SameFile(now, own)
}

func same(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// Read implements io.Reader on the open file.
func (r *rotated) Read(p []byte) (int, error) {
	for {
		grows := r.isLog() // asked before the read: what is written meanwhile is not lost
		n, err := r.f.Read(p)
		if n > 0 || err != io.EOF || !grows || r.more == nil {
			return n, err
		}
		if err := r.wait(); err != nil {
			return 0, err
		}
	}
}

func (r *rotated) wait() error {
	if r.idle != nil {
		if err := r.idle(); err != nil {
			return err
		}
	}
	select {
	case <-r.more:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}
