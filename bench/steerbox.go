package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// steerCodex starts an os-codex whose turn lasts until it is told to end.
func (r *rig) steerCodex(ctx context.Context) (s *steered, err error) {
	pipe := r.path("steer.pipe")
	if s, err = newSteered(pipe); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	server := fmt.Sprintf("%s %s %s", quote(r.self), steerServer, quote(pipe))
	cmd, tidy, err := r.codexSession(ctx, server, "--sandbox", "danger-full-access")
	if err != nil {
		cancel()
		return nil, err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(err, tidy())
	}
	s.end = func() error {
		defer cancel()
		_, err := s.send(ctx, peertest.LiveEnd)
		if err != nil {
			cancel() // or it would go on
		}
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("os-codex: %w: %s", waitErr, bytes.TrimSpace(said.Bytes())))
		}
		return errors.Join(err, tidy())
	}
	if s.box, err = r.steerBox(ctx, s); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
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
	stop, polled := make(chan struct{}), make(chan error, 1)
	go func() { polled <- poll(s.box, in, stop) }()
	s.end = func() error {
		close(stop)
		return errors.Join(<-polled, in.Close(), server.Wait())
	}
	return s, nil
}

// poll hands over what lies in the box, until stop.
func poll(box string, to io.Writer, stop <-chan struct{}) error {
	tick := time.NewTicker(pollEach)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		files, err := filepath.Glob(filepath.Join(box, "*.request.json"))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := handOver(file, to); err != nil {
				return err
			}
		}
	}
}

func handOver(file string, to io.Writer) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var request map[string]string
	if err := json.Unmarshal(data, &request); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	params := map[string]any{"threadId": thread, "expectedTurnId": turn, "input": []map[string]string{{"type": "text", "text": request["text"]}}}
	return (&client{in: to}).send(map[string]any{"id": 1, "method": "turn/steer", "params": params})
}
