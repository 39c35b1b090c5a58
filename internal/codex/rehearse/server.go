package rehearse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

const (
	// maxFrame bounds a frame of the client in bytes.
	maxFrame = 64 << 20
	// flushWait bounds the wait for a client that does not read its last frames.
	flushWait = time.Second
)

// server is one app-server process. Its loop owns every field; what runs beside it
// (the reader, the writer and one runner a turn) reaches it only through channels.
type server struct {
	env     *cli.Env
	command string // run for each turn
	self    string // this program, for OS_TOOL
	home    string // the folder of rollouts

	ctx     context.Context // ends with the client or with a signal
	out     chan []byte     // to the writer
	events  chan event      // from the runners
	runners sync.WaitGroup

	greeted bool // initialize was answered
	threads map[string]*thread
	nextID  int64 // of our own requests, from 0
	calls   map[int64]*toolCall
}

// event is something that a runner tells the loop.
type event interface{ apply(s *server) }

func newServer(env *cli.Env, command, self, home string) *server {
	return &server{
		env: env, command: command, self: self, home: home,
		out:     make(chan []byte, 64),
		events:  make(chan event),
		threads: make(map[string]*thread),
		calls:   make(map[int64]*toolCall),
	}
}

// serve runs until stdin or ctx ends, ends what runs, and flushes stdout.
func (s *server) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	s.ctx = ctx
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write(stop)
	}()
	s.loop(s.read())
	stop(nil)
	s.runners.Wait()
	s.closeThreads()
	close(s.out)
	select {
	case <-written:
	case <-time.After(flushWait):
		return nil // nobody reads; the process ends now, and the writer with it
	}
	if err := context.Cause(ctx); errors.Is(err, errWrite) {
		return err
	}
	return nil
}

func (s *server) loop(lines <-chan wire.Line) {
	for {
		select {
		case <-s.ctx.Done():
			return
		case ev := <-s.events:
			ev.apply(s)
		case line, ok := <-lines:
			if !ok {
				return
			}
			s.receive(line)
		}
	}
}

// read hands on the client's lines and closes the channel after the last. It ends
// with the server, at the latest when the read that is under way returns.
func (s *server) read() <-chan wire.Line {
	lines := make(chan wire.Line)
	go func() {
		defer close(lines)
		in := wire.NewReader(s.env.Stdin, maxFrame)
		for {
			line, err := in.Next()
			if err != nil {
				return
			}
			line.Bytes = append([]byte(nil), line.Bytes...)
			select {
			case lines <- line:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	return lines
}

// errWrite is the cause of an end by a failed write; what it wraps says why.
var errWrite = errors.New("write to the client")

// write is the one writer of stdout. After a failure it goes on emptying the
// channel, so that the loop never waits for it.
func (s *server) write(stop context.CancelCauseFunc) {
	failed := false
	for line := range s.out {
		if failed {
			continue
		}
		if _, err := s.env.Stdout.Write(line); err != nil {
			failed = true
			stop(fmt.Errorf("%w: %w", errWrite, err))
		}
	}
}

// send puts one frame on stdout. It waits for a slow client as long as the server
// lives, and drops the frame after that.
func (s *server) send(v any) {
	line, err := wire.Encode(v)
	if err != nil {
		s.env.Warnf("encode a frame: %v", err)
		return
	}
	line = append(line, '\n')
	select {
	case s.out <- line:
		return
	default:
	}
	select {
	case s.out <- line:
	case <-s.ctx.Done():
	}
}

func (s *server) notify(method string, params any) {
	s.send(notification{method, params, s.env.Now().UnixMilli()})
}

func (s *server) reply(id json.RawMessage, result any) { s.send(reply{ID: id, Result: result}) }

// receive handles one line of the client.
func (s *server) receive(line wire.Line) {
	var f frame
	if line.Err == wire.ErrTooLong {
		s.env.Warnf("line %d: %v", line.Number, line.Err)
		return
	}
	if err := json.Unmarshal(line.Bytes, &f); err != nil {
		s.env.Warnf("line %d is not a frame: %v", line.Number, err)
		return
	}
	switch {
	case f.Method == "":
		s.answered(f)
	case f.ID != nil:
		s.request(f)
	}
	// Of the client's notifications only `initialized` is known, and it asks nothing.
}

// request answers one request of the client.
func (s *server) request(f frame) {
	handle, known := handlers[f.Method]
	var fault *rpcError
	switch {
	case f.Method == "initialize" && s.greeted:
		fault = invalid("Already initialized")
	case f.Method != "initialize" && !s.greeted:
		fault = invalid("Not initialized")
	case !known:
		fault = invalid("Invalid request: unknown variant `%s`", f.Method)
	default:
		fault = handle(s, f.ID, f.Params)
	}
	if fault != nil {
		s.send(reply{ID: f.ID, Error: fault})
	}
}

// decodeParams reads the params of a request, of which the members in required must
// be there.
func decodeParams(raw json.RawMessage, params any, required ...string) *rpcError {
	var members map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &members); err != nil {
			return invalid("Invalid request: %v", err)
		}
	}
	for _, name := range required {
		if _, ok := members[name]; !ok {
			return invalid("Invalid request: missing field `%s`", name)
		}
	}
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, params); err != nil {
		return invalid("Invalid request: %v", err)
	}
	return nil
}

// closeThreads gives the threads free for another process.
func (s *server) closeThreads() {
	for _, t := range s.threads {
		if err := t.rollout.Close(); err != nil {
			s.env.Warnf("close thread %s: %v", t.ID, err)
		}
	}
}
