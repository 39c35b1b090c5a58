package rehearse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"ostoolkit/internal/proc"
)

const (
	// termWait is the time from TERM to KILL for a command that is to end.
	termWait = 500 * time.Millisecond
	// drainWait bounds the wait for output of processes that left the command's group.
	drainWait = 200 * time.Millisecond
	// maxOutput bounds the output that an item keeps, and one line of it, in bytes.
	maxOutput = 64 << 10
	// maxSocketPath is what every system takes as the path of a socket, in bytes.
	maxSocketPath = 100
)

// job is what a runner has of its turn. It owns the command, its pipes, the tool
// socket and the folder of both, until run returns.
type job struct {
	turn      *turn // a name to put on events; only the loop looks inside
	events    chan<- event
	dir       string // private: the socket, the shim of OS_TOOL, the steer file
	steerFile string
	cwd       string
	argv      []string
	env       []string
	prompt    string
	hurry     <-chan struct{} // closed when there is no time for TERM
}

// newJob prepares the folder and the environment of a turn's command.
func (s *server) newJob(tn *turn, prompt string) (*job, error) {
	dir, err := privateDir(s.env.Getenv("TMPDIR"))
	if err != nil {
		return nil, fmt.Errorf("make the turn's folder: %v", err)
	}
	j := &job{
		turn: tn, events: s.events, dir: dir,
		steerFile: filepath.Join(dir, "steer"),
		cwd:       tn.thread.Cwd,
		argv:      []string{"sh", "-c", s.command},
		prompt:    prompt,
		hurry:     s.env.Hurry(),
	}
	j.env = proc.Environ(s.env.Environ, nil, map[string]string{
		"OS_TOOL": j.shim(), "OS_STEER_FILE": j.steerFile,
	})
	if err := j.fill(s.self); err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("fill the turn's folder: %v", err)
	}
	return j, nil
}

// privateDir makes a folder below tmp; where a socket's path would be too long for
// the system there, below /tmp.
func privateDir(tmp string) (string, error) {
	const name = "rehearse-"
	if tmp == "" || len(tmp)+len("/"+name+"0123456789/"+socketName) > maxSocketPath {
		tmp = "/tmp"
	}
	return os.MkdirTemp(tmp, name)
}

func (j *job) shim() string   { return filepath.Join(j.dir, "os-tool") }
func (j *job) socket() string { return filepath.Join(j.dir, socketName) }

// fill writes the files of the folder. OS_TOOL is one word without blanks, however
// this program's own path looks, so that a script may quote it or not.
func (j *job) fill(self string) error {
	if err := os.WriteFile(j.steerFile, nil, 0o600); err != nil {
		return err
	}
	text := fmt.Sprintf("#!/bin/sh\nexec %s rehearse tool --socket %s \"$@\"\n", quote(self), quote(j.socket()))
	return os.WriteFile(j.shim(), []byte(text), 0o700)
}

// quote makes one word for sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// post hands an event to the loop, unless the server has ended.
func (j *job) post(ctx context.Context, ev event) {
	select {
	case j.events <- ev:
	case <-ctx.Done():
	}
}

// run runs the command until it ends or ctx does, and reports to the loop as long as
// the server lives.
func (j *job) run(ctx, server context.Context) {
	defer os.RemoveAll(j.dir)
	end := exited{turn: j.turn}
	tools, err := j.listen()
	if err == nil {
		err = j.runCommand(ctx, server, &end)
		tools.close()
	}
	end.err = err
	j.post(server, end)
}

// runCommand starts the command and waits for it and for its output.
func (j *job) runCommand(ctx, server context.Context, end *exited) error {
	child, ours, err := j.start()
	if err != nil {
		return err
	}
	out := &gathered{emit: func(text string) { j.post(server, wrote{j.turn, text}) }}
	var pipes sync.WaitGroup
	pipes.Go(func() {
		// A command that does not read its prompt is no failure.
		_, _ = io.WriteString(ours[0], j.prompt)
		_ = ours[0].Close()
	})
	pipes.Go(func() { out.drain(ours[1], &out.stdout) })
	pipes.Go(func() { out.drain(ours[2], &out.stderr) })
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Stop(j.hurry, child.Send(syscall.SIGTERM, termWait), child.Send(syscall.SIGKILL, termWait))
		<-child.Done()
	}
	for _, f := range ours {
		_ = f.SetDeadline(time.Now().Add(drainWait))
	}
	pipes.Wait()
	closeAll(ours)
	end.status, end.exit = child.Exit().Status(), child.Exit().String()
	end.output = string(bytes.ToValidUTF8(out.head, []byte("\uFFFD")))
	end.answer, end.reason = out.stdout.lastLine(), out.stderr.lastLine()
	end.wordsOut = out.stdout.words
	return nil
}

// start starts the command and returns our ends of its stdin, stdout and stderr. It
// has a session of its own, as the commands of the real server have.
func (j *job) start() (child *proc.Child, ours []*os.File, err error) {
	var theirs []*os.File
	defer func() { closeAll(theirs) }()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return nil, nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	ours[0], theirs[0] = theirs[0], ours[0] // the command reads its stdin and writes the rest
	child, err = proc.Start(proc.Spec{
		Argv: j.argv, Dir: j.cwd, Env: j.env, Session: true,
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2],
	})
	if err != nil {
		closeAll(ours)
		return nil, nil, err
	}
	return child, ours, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // closed already, or a pipe of which nothing is wanted any more
	}
}

// gathered is the output of a command. Two goroutines fill it, one a stream.
type gathered struct {
	emit           func(text string)
	mu             sync.Mutex
	head           []byte // the beginning of both streams, as they came
	stdout, stderr stream
}

// stream is what one goroutine keeps of one stream.
type stream struct {
	current []byte // the line that is being written
	last    []byte // the last one before it that is not blank
	words   int64
	inWord  bool
}

func (g *gathered) drain(r io.Reader, s *stream) {
	buf := make([]byte, 32<<10)
	kept := 0 // bytes of a character that is not whole yet
	for {
		n, err := r.Read(buf[kept:])
		text := buf[:kept+n]
		whole := len(text)
		if err == nil {
			whole = wholeRunes(text)
		}
		if whole > 0 {
			g.add(text[:whole], s)
		}
		kept = copy(buf, text[whole:])
		if err != nil {
			return
		}
	}
}

func (g *gathered) add(p []byte, s *stream) {
	s.add(p)
	g.mu.Lock()
	g.head = append(g.head, p[:min(len(p), maxOutput-len(g.head))]...)
	g.mu.Unlock()
	g.emit(string(bytes.ToValidUTF8(p, []byte("\uFFFD"))))
}

// wholeRunes returns how much of p does not end in the middle of a character.
func wholeRunes(p []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if tail := p[len(p)-back:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(p) - back
			}
			break
		}
	}
	return len(p)
}

func (s *stream) add(p []byte) {
	for line := range bytes.Lines(p) {
		text, ended := bytes.CutSuffix(line, []byte("\n"))
		s.current = append(s.current, text[:min(len(text), maxOutput-len(s.current))]...)
		if ended {
			s.endLine()
		}
	}
	for _, c := range p {
		blank := c == ' ' || c == '\n' || c == '\t' || c == '\r'
		if !blank && !s.inWord {
			s.words++
		}
		s.inWord = !blank
	}
}

func (s *stream) endLine() {
	if len(bytes.TrimSpace(s.current)) > 0 {
		s.current, s.last = s.last, s.current
	}
	s.current = s.current[:0]
}

// lastLine returns the last line that is not blank, once the stream has ended.
func (s *stream) lastLine() string {
	s.endLine()
	return strings.TrimSpace(strings.ToValidUTF8(string(s.last), "\uFFFD"))
}
