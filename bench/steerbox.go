package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ostoolkit/internal/peertest"
)

// steered is a mailbox and the stand-in behind it, which tells of what arrives.
type steered struct {
	box     string
	arrived chan arrival // closed with the end of listen
	pipe    *os.File
	end     func() error // ends what reads the box
}

// arrival is a text that has come to the stand-in, and when.
type arrival struct {
	text string
	at   time.Duration
}

// newSteered makes the pipe on which a stand-in tells of arrivals. What reads the box is
// still to be started.
func newSteered(path string) (*steered, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	// For writing too: to open it then waits for nobody, and it has no end before ours.
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &steered{pipe: pipe, arrived: make(chan arrival, 1)}
	go s.listen()
	return s, nil
}

// listen ends with a line that is no arrival.
func (s *steered) listen() {
	defer close(s.arrived)
	for lines := bufio.NewScanner(s.pipe); lines.Scan(); {
		text, at, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return
		}
		s.arrived <- arrival{text, time.Duration(n)}
	}
}

// send puts a text into the box and returns what it took to arrive.
func (s *steered) send(ctx context.Context, text string) (time.Duration, error) {
	temp := filepath.Join(s.box, "."+text)
	if err := os.WriteFile(temp, []byte(`{"text":"`+text+`"}`+"\n"), 0o600); err != nil {
		return 0, err
	}
	from, err := monotonic()
	if err != nil {
		return 0, err
	}
	if err := os.Rename(temp, filepath.Join(s.box, text+".request.json")); err != nil {
		return 0, err
	}
	a, err := s.next(ctx)
	if err == nil && a.text != text {
		err = fmt.Errorf("text %q arrived, not %q", a.text, text)
	}
	return a.at - from, err
}

func (s *steered) next(ctx context.Context) (arrival, error) {
	select {
	case a, ok := <-s.arrived:
		if !ok {
			return a, errors.New("the stand-in said something else than arrivals")
		}
		return a, nil
	case <-ctx.Done():
		return arrival{}, context.Cause(ctx)
	case <-time.After(steerLimit):
		return arrival{}, fmt.Errorf("nothing arrived within %v", steerLimit)
	}
}

// close ends the reader of the box and waits for all that belongs to it.
func (s *steered) close() error {
	err := s.end()
	// To close a pipe does not end a read on every system; a line that is no arrival does.
	_, stopErr := s.pipe.WriteString("\n")
	for range s.arrived {
	}
	return errors.Join(err, stopErr, s.pipe.Close())
}

// opener prepares a session, which tidy tidies up behind.
type opener func(context.Context) (cmd *exec.Cmd, tidy func() error, err error)

// begin starts a session whose turn lasts until finish ends it, and waits for the turn.
func (s *steered) begin(ctx context.Context, r *rig, open opener, finish func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	cmd, tidy, err := open(ctx)
	if err != nil {
		cancel()
		return err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		cancel()
		return errors.Join(err, tidy())
	}
	s.end = func() error {
		defer cancel()
		err := finish(ctx)
		if err != nil {
			cancel() // or it would go on
		}
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), waitErr, bytes.TrimSpace(said.Bytes())))
		}
		return errors.Join(err, tidy())
	}
	if s.box, err = r.steerBox(ctx, s); err != nil {
		return errors.Join(err, s.close())
	}
	return nil
}

// steerCodex starts an os-codex whose turn lasts until it is told to end.
func (r *rig) steerCodex(ctx context.Context) (*steered, error) {
	pipe := r.path("steer.pipe")
	s, err := newSteered(pipe)
	if err != nil {
		return nil, err
	}
	server := fmt.Sprintf("%s %s %s", quote(r.self), steerServer, quote(pipe))
	open := func(ctx context.Context) (*exec.Cmd, func() error, error) {
		return r.codexSession(ctx, server, "--sandbox", "danger-full-access")
	}
	err = s.begin(ctx, r, open, func(ctx context.Context) error {
		_, err := s.send(ctx, peertest.LiveEnd)
		return err
	})
	return s, err
}

// steerBox waits for the turn and returns the mailbox of its session.
func (r *rig) steerBox(ctx context.Context, s *steered) (string, error) {
	if _, err := s.next(ctx); err != nil {
		return "", err
	}
	boxes, err := filepath.Glob(r.path("session-*", ".state", "os", "*", "issues", "*", "mailbox"))
	if err == nil && len(boxes) != 1 {
		err = fmt.Errorf("there are %d mailboxes", len(boxes))
	}
	if err != nil {
		return "", err
	}
	return boxes[0], nil
}

// steerPoller starts a loop that looks into a folder now and then.
func (r *rig) steerPoller(ctx context.Context) (*steered, error) {
	pipe := r.path("polled.pipe")
	s, err := newSteered(pipe)
	if err != nil {
		return nil, err
	}
	s.box = r.path("polled")
	server := r.command(ctx, r.self, steerServer, pipe)
	in, err := server.StdinPipe()
	if err == nil {
		err = os.Mkdir(s.box, 0o700)
	}
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return nil, err
	}
	s.poll(func(text string) error { return steerIn(in, text) }, func() error {
		return errors.Join(in.Close(), server.Wait())
	})
	return s, nil
}

// steerIn sends a text as a client of the app-server does.
func steerIn(to io.Writer, text string) error {
	params := map[string]any{"threadId": thread, "expectedTurnId": turn, "input": []map[string]string{{"type": "text", "text": text}}}
	return (&client{in: to}).send(map[string]any{"id": 1, "method": "turn/steer", "params": params})
}
