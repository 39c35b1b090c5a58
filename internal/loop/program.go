package loop

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

const (
	// askGrace is what os-poll may take beyond the limit that it keeps itself.
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
	r, err := proc.Ask(ctx, proc.Spec{Argv: argv, Dir: p.dir, Env: p.environ}, stdin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Err.Close() }() // its end is all that counts
	return &reply{exit: r.Exit, out: r.Out, stderr: proc.Tail(r.Err, maxReason)}, nil
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
	if text := strings.TrimSpace(proc.Tail(r.out, maxReason)); text != "" {
		s.Lines = strings.Split(text, "\n")
	}
	return s, nil
}
