package peertest

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ostoolkit/internal/cli"
)

// LiveEnd is the text that, steered into a turn, is its last.
const LiveEnd = "end"

// LiveOptions are what a live server does besides answering.
type LiveOptions struct {
	// Turn is how long a turn lasts; 0: until the text LiveEnd is steered into it.
	Turn time.Duration
	// Lag lies between taking a steered text and reading it. Who is killed in between
	// has lost the text, as the real server loses it while a command runs.
	Lag time.Duration
	// Threads is the folder of what was read, kept for a later resume; "": nothing is.
	Threads string
	// Arrived is told of each frame before anything is done about it, by the goroutine
	// that reads. nil: nobody is.
	Arrived func(frame []byte)
}

// ServeLive is an app-server without a transcript: it answers what a client asks in
// sessions of plain turns, at any time and in any order, until the client closes its
// stdin or ctx ends. Like all stand-ins here it shares no code with the client.
func ServeLive(ctx context.Context, env *cli.Env, o LiveOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &live{env: env, o: o, thread: &liveThread{}}
	defer func() { _ = s.thread.close() }() // every line of it is written already
	frames := make(chan []byte)
	go s.read(ctx, frames)
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-frames:
			if !ok {
				return nil
			}
			err = s.handle(line)
		case <-s.due:
			err = s.readTexts()
		case <-s.over:
			err = s.complete("completed")
		}
		if err != nil {
			return err
		}
	}
}

// live is the state of one server. The goroutine of ServeLive owns it.
type live struct {
	env    *cli.Env
	o      LiveOptions
	thread *liveThread
	turn   string           // "" while none runs
	over   <-chan time.Time // the end of the turn
	unread []string         // client ids of texts that were taken
	due    <-chan time.Time // when they are read
	items  int
}

// liveRequest is what a live server reads of a frame.
type liveRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ThreadID string `json:"threadId"`
		ClientID string `json:"clientUserMessageId"`
		Input    []struct {
			Text string `json:"text"`
		} `json:"input"`
	} `json:"params"`
}

// read ends with stdin, or with ctx once the read that is under way returns: at the
// latest with the process.
func (s *live) read(ctx context.Context, frames chan<- []byte) {
	defer close(frames)
	in := bufio.NewReaderSize(s.env.Stdin, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if s.o.Arrived != nil {
			s.o.Arrived(line)
		}
		select {
		case frames <- line:
		case <-ctx.Done():
			return
		}
	}
}

type members = map[string]any

func (s *live) handle(line []byte) error {
	var r liveRequest
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("decode a frame: %w", err)
	}
	switch r.Method {
	case "initialize":
		return s.answer(r, members{"userAgent": "live/1 (x)"})
	case "thread/start":
		return s.startThread(r)
	case "thread/resume":
		return s.resumeThread(r)
	case "thread/items/list":
		return s.answer(r, members{"data": s.thread.entries, "nextCursor": nil})
	case "turn/start":
		return s.startTurn(r)
	case "turn/steer":
		return s.steer(r)
	case "turn/interrupt":
		if s.turn == "" {
			return s.refuse(r, "no active turn to interrupt")
		}
		return errors.Join(s.answer(r, members{}), s.complete("interrupted"))
	}
	if r.ID == nil {
		return nil // a notification asks for nothing
	}
	return s.refuse(r, "Invalid request: unknown variant `"+r.Method+"`")
}

func (s *live) startThread(r liveRequest) error {
	id, err := s.newID()
	if err == nil {
		s.thread, err = createLiveThread(s.o.Threads, id)
	}
	if err != nil {
		return err
	}
	return s.answer(r, members{"thread": members{"id": id}})
}

func (s *live) resumeThread(r liveRequest) error {
	t, err := openLiveThread(s.o.Threads, r.Params.ThreadID)
	if err != nil {
		return s.refuse(r, err.Error())
	}
	s.thread = t
	return s.answer(r, members{"thread": members{"id": t.id}})
}

func (s *live) startTurn(r liveRequest) error {
	id, err := s.newID()
	if err != nil {
		return err
	}
	s.turn = id
	if s.o.Turn > 0 {
		s.over = time.After(s.o.Turn)
	}
	turn := members{"id": id, "status": "inProgress"}
	err = errors.Join(s.answer(r, members{"turn": turn}),
		s.send(members{"method": "turn/started", "params": members{"threadId": s.thread.id, "turn": turn}}))
	if err == nil && r.Params.ClientID != "" {
		err = s.say(r.Params.ClientID)
	}
	return err
}

func (s *live) steer(r liveRequest) error {
	if s.turn == "" {
		return s.refuse(r, "no active turn to steer")
	}
	if err := s.answer(r, members{"turnId": s.turn}); err != nil {
		return err
	}
	s.unread = append(s.unread, r.Params.ClientID)
	s.due = time.After(s.o.Lag)
	if len(r.Params.Input) == 1 && r.Params.Input[0].Text == LiveEnd {
		return s.complete("completed")
	}
	return nil
}

// readTexts reads all texts that were taken.
func (s *live) readTexts() error {
	texts := s.unread
	s.unread, s.due = nil, nil
	for _, client := range texts {
		if err := s.say(client); err != nil {
			return err
		}
	}
	return nil
}

// say has read a text of the user: it becomes part of the thread and is shown.
func (s *live) say(client string) error {
	s.items++
	item := members{"type": "userMessage", "id": fmt.Sprintf("item_%d", s.items), "clientId": client}
	if err := s.thread.add(s.turn, client, item); err != nil {
		return err
	}
	return errors.Join(s.item("item/started", item), s.item("item/completed", item))
}

// complete ends the running turn. One that was interrupted reads nothing more.
func (s *live) complete(status string) error {
	var errs []error
	if status == "completed" {
		errs = append(errs, s.readTexts(), s.item("item/completed", members{"type": "agentMessage", "id": "answer", "text": "done"}))
	}
	turn := members{"id": s.turn, "status": status}
	s.turn, s.over, s.unread, s.due = "", nil, nil, nil
	return errors.Join(append(errs, s.send(members{"method": "turn/completed", "params": members{"threadId": s.thread.id, "turn": turn}}))...)
}

func (s *live) item(method string, item members) error {
	return s.send(members{"method": method, "params": members{"threadId": s.thread.id, "turnId": s.turn, "item": item}})
}

func (s *live) answer(r liveRequest, result members) error {
	return s.send(members{"id": r.ID, "result": result})
}

func (s *live) refuse(r liveRequest, message string) error {
	return s.send(members{"id": r.ID, "error": members{"code": -32600, "message": message}})
}

func (s *live) send(frame members) error {
	line, err := json.Marshal(frame)
	if err != nil {
		return fmt.Errorf("encode a frame: %w", err)
	}
	if _, err := s.env.Stdout.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write to the client: %w", err)
	}
	return nil
}

func (s *live) newID() (string, error) {
	var b [8]byte
	if _, err := io.ReadFull(s.env.Rand, b[:]); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}
