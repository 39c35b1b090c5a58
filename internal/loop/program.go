package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

const (
	// askGrace is the time from TERM to KILL for a program over its limit.
	askGrace = 2 * time.Second
	// maxReason bounds what is quoted of a program's stderr, in bytes.
	maxReason = 4 << 10
)

// programs runs the other commands and waits for them, except the supervisors of runs.
// Safe for concurrent use.
type programs struct {
	dir      string
	environ  []string
	workflow string
	warn     func(format string, args ...any)

	mu   sync.Mutex
	told string // the warnings that were passed on last
}

// newPrograms returns programs that read the copy of the workflow where there is one:
// the file may be in the middle of an edit.
func newPrograms(c *Config) *programs {
	p := &programs{dir: c.Workflow.Dir, environ: c.Environ, workflow: c.Workflow.Path, warn: c.Warn}
	if c.Schedule.Mode != schedule.PlanOnly {
		p.workflow = c.path(copyFile)
		p.environ = proc.Environ(c.Environ, nil, c.Workflow.Environ())
	}
	return p
}

// reply is what a program left. Its output lies in a file without a name.
type reply struct {
	exit   proc.Exit
	out    *os.File
	stderr string
}

func (r *reply) close() {
	if r != nil && r.out != nil {
		_ = r.out.Close() // it has no name and nothing is to be kept
	}
}

// reason is the last line that a program said, without its name.
func (r *reply) reason() string {
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		line := strings.TrimSpace(lines[i])
		if _, text, ok := strings.Cut(line, ": "); ok && !strings.HasPrefix(text, "hint: ") {
			return text
		} else if !ok && line != "" {
			return line
		}
	}
	return "it ended with " + r.exit.String()
}

// ask runs argv to its end, at most for limit. An exit status is no error.
func (p *programs) ask(ctx context.Context, limit time.Duration, stdin []byte, argv ...string) (*reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s gave no answer within %v", argv[0], limit))
	defer cancel()
	files, err := scratch(stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = errors.Join(files[0].Close(), files[2].Close()) }() // as in close
	child, err := proc.Start(proc.Spec{Argv: argv, Dir: p.dir, Env: p.environ, Stdin: files[0], Stdout: files[1], Stderr: files[2]})
	if err != nil {
		_ = files[1].Close() // nothing is in it
		return nil, err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Stop(nil, child.Send(syscall.SIGTERM, askGrace), child.Send(syscall.SIGKILL, askGrace))
		_ = files[1].Close() // half an answer is none
		return nil, context.Cause(ctx)
	}
	return &reply{exit: child.Exit(), out: files[1], stderr: tailOf(files[2])}, nil
}

// scratch returns files for stdin, stdout and stderr that vanish with their last
// descriptor, so that no program can be held up by a reader.
func scratch(stdin []byte) (files [3]*os.File, err error) {
	for i := range files {
		if files[i], err = os.CreateTemp("", "os-loop-*"); err == nil {
			err = os.Remove(files[i].Name())
		}
		if err != nil {
			err = fmt.Errorf("make a scratch file: %w", err)
			break
		}
	}
	if err == nil {
		_, err = files[0].Write(stdin)
	}
	if err == nil {
		_, err = files[0].Seek(0, io.SeekStart)
	}
	if err != nil {
		for _, f := range files {
			if f != nil {
				_ = f.Close() // as in close
			}
		}
	}
	return files, err
}

// tailOf returns the end of what a program wrote.
func tailOf(f *os.File) string {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	text := make([]byte, min(size, maxReason))
	n, _ := f.ReadAt(text, size-int64(len(text))) // what can be read is good enough for a message
	return string(bytes.ToValidUTF8(text[:n], []byte("\ufffd")))
}

// records calls each for every record that the program printed.
func (r *reply) records(implied string, each func(wire.Record)) error {
	if _, err := r.out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines := wire.NewReader(r.out, wire.MaxRecord)
	for {
		line, err := lines.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil && line.Err != nil {
			err = line.Err
		}
		if err != nil {
			return fmt.Errorf("line %d of the answer: %w", line.Number, err)
		}
		rec, err := wire.Decode(line.Bytes, implied)
		if err != nil {
			return fmt.Errorf("line %d of the answer: %w", line.Number, err)
		}
		each(rec)
	}
}

// passOn tells what os-poll warned of, unless it said the same the last time.
func (p *programs) passOn(r *reply) {
	text := strings.TrimSpace(r.stderr)
	p.mu.Lock()
	again := text == p.told
	p.told = text
	p.mu.Unlock()
	if text == "" || again {
		return
	}
	for line := range strings.Lines(text) {
		p.warn("%s", strings.TrimSpace(line))
	}
}

// categoryOf has a word for each exit status of os-poll that is a failure.
var categoryOf = map[int]string{
	cli.StatusConfig:      wire.CauseConfig,
	cli.StatusAuth:        wire.CauseAuth,
	cli.StatusTemporary:   wire.RateLimited,
	cli.StatusProtocol:    wire.CauseProtocol,
	cli.StatusUnavailable: wire.CauseUnavailable,
	cli.StatusNoInput:     wire.CauseConfig,
}

// Said is how a program ended and what it said.
type Said struct {
	Status int
	Lines  []string // of its stdout, as far as they are few
	Reason string   // the last line of its stderr
}

// Ask runs another command for a person who wants to know how it ends.
func Ask(ctx context.Context, environ []string, flow *workflow.Workflow, limit time.Duration, argv ...string) (*Said, error) {
	p := &programs{dir: flow.Dir, environ: environ}
	r, err := p.ask(ctx, limit, nil, argv...)
	if err != nil {
		return nil, err
	}
	defer r.close()
	s := &Said{Status: r.exit.Status(), Reason: r.reason()}
	if text := strings.TrimSpace(tailOf(r.out)); text != "" {
		s.Lines = strings.Split(text, "\n")
	}
	return s, nil
}
