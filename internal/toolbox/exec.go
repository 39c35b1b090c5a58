package toolbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/wire"
)

const (
	// maxStderr bounds what a failure quotes of the tool's stderr, in bytes.
	maxStderr = 4 << 10
	// termWait is the time from TERM to KILL for a tool over its limit.
	termWait = 500 * time.Millisecond
	// drainWait bounds the wait for output that is still in the pipe when the tool is
	// gone. Only a process that left the tool's group can make us wait that long.
	drainWait = 200 * time.Millisecond
)

// problem is why a command gave no result.
type problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Stderr  string `json:"stderr,omitempty"` // the end of it
	Output  string `json:"output,omitempty"` // of a tool that printed and exited non-zero
}

func (p *problem) forPeople() error {
	if p.Stderr == "" {
		return errors.New(p.Message)
	}
	return fmt.Errorf("%s: %s", p.Message, p.Stderr)
}

func failure(p *problem) Result {
	b, err := wire.Encode(map[string]*problem{"error": p})
	if err != nil {
		return Result{Text: p.Message}
	}
	return Result{Text: string(b)}
}

// output is what one command left.
type output struct {
	stdout  []byte
	problem *problem // nil: it exited 0 within its bounds
}

// run runs argv with stdin and waits until it, its group and its pipes are done.
func (b *Box) run(ctx context.Context, argv []string, stdin []byte, timeout time.Duration) output {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tool, err := b.start(argv, stdin, cancel)
	if err != nil {
		return output{problem: &problem{Code: "not_started", Message: fmt.Sprintf("start %q: %v", argv[0], err)}}
	}
	tool.wait(limited)
	out := output{stdout: tool.stdout.kept}
	switch exit := tool.child.Exit(); {
	case tool.stdout.over:
		out.problem = tool.problem("output_too_large", "printed more than %d bytes", b.limit)
	case ctx.Err() != nil:
		out.problem = tool.problem("cancelled", "was stopped: %v", context.Cause(ctx))
	case limited.Err() != nil:
		out.problem = tool.problem("timeout", "did not end within %v", timeout)
	case !exit.Success():
		out.problem = tool.problem("exit_status", "ended with %v", exit)
		out.problem.Output = text(out.stdout)
	}
	return out
}

// running is a tool command and the goroutines at its pipes.
type running struct {
	child  *proc.Child
	pipes  []*os.File // our ends
	done   sync.WaitGroup
	stdout sink
	stderr sink
}

// start starts argv. tooMuch is called once its output is over the limit.
func (b *Box) start(argv []string, stdin []byte, tooMuch func()) (*running, error) {
	var theirs, ours []*os.File
	defer func() { closeAll(theirs) }()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return nil, err
		}
		theirs, ours = append(theirs, w), append(ours, r)
	}
	theirs[0], ours[0] = ours[0], theirs[0] // the tool reads its stdin and writes the rest
	child, err := proc.Start(proc.Spec{
		Argv: argv, Dir: b.dir, Env: b.env,
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
	})
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	t := &running{child: child, pipes: ours}
	t.stdout = sink{limit: b.limit, full: tooMuch}
	t.stderr = sink{limit: maxStderr, tail: true}
	t.done.Go(func() {
		// A tool that does not read its arguments is no failure.
		_, _ = ours[0].Write(stdin)
		_ = ours[0].Close()
	})
	t.done.Go(func() { t.stdout.drain(ours[1]) })
	t.done.Go(func() { t.stderr.drain(ours[2]) })
	return t, nil
}

// wait returns when the tool is gone and its output has been read. When ctx ends
// first the tool is ended; its children go with it in any case.
func (t *running) wait(ctx context.Context) {
	select {
	case <-t.child.Done():
	case <-ctx.Done():
		t.child.Stop(nil, t.child.Send(syscall.SIGTERM, termWait), t.child.Send(syscall.SIGKILL, termWait))
		<-t.child.Done()
	}
	for _, f := range t.pipes {
		_ = f.SetDeadline(time.Now().Add(drainWait))
	}
	t.done.Wait()
	closeAll(t.pipes)
}

func (t *running) problem(code, format string, args ...any) *problem {
	return &problem{
		Code:    code,
		Message: "the tool " + fmt.Sprintf(format, args...),
		Stderr:  text(t.stderr.kept),
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closed already, or a pipe of which nothing is wanted any more
	}
}

// sink keeps a bounded part of a stream and reads on to its end, so that the writer
// never blocks. One goroutine owns it until drain returns.
type sink struct {
	limit int
	tail  bool   // keep the end, not the beginning
	full  func() // called at the first byte over the limit
	kept  []byte
	over  bool
}

func (s *sink) drain(r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		s.add(buf[:n])
		if err != nil {
			return
		}
	}
}

func (s *sink) add(p []byte) {
	s.kept = append(s.kept, p...)
	if len(s.kept) <= s.limit {
		return
	}
	if s.tail {
		s.kept = append(s.kept[:0], s.kept[len(s.kept)-s.limit:]...)
	} else {
		s.kept = s.kept[:s.limit]
	}
	if !s.over && s.full != nil {
		s.full()
	}
	s.over = true
}
