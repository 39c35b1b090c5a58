package peertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"ostoolkit/internal/cli"
)

// statusMismatch is the status of an app-server whose client sent something else
// than its transcript asks for.
const statusMismatch = 3

// AppServerMain runs `appserver FILE`: a stand-in for `codex app-server` that
// replays a transcript on standard input and output, and returns its exit status.
//
// It is for what the real server does seldom or never: to crash in mid-turn, to
// send half a frame, to be silent. It does not speak the protocol by itself, and it
// reads and writes its frames without any code of the toolkit, so that it cannot
// share a fault with the client under test.
//
// A transcript has one operation a line; blank lines and lines that begin with #
// are passed over. FRAME is a JSON object, N a number.
//
//	< FRAME      this frame must arrive next: each member given must be there and be
//	             equal, the strings "…" and "*" stand for any value
//	<? METHOD    read frames until one with this method arrives
//	> FRAME      send a frame; $ID is the id of the last request that arrived, $CLIENT
//	             the id that the client gave to its text
//	>TEXT        send bytes with Go escapes and no newline (TEXT begins with no space)
//	>big N       send one frame of N bytes
//	>many N [F]  send N delta frames, one write each; $N in the frame F is the number
//	err N        write N bytes without a newline on stderr
//	sleep DUR    wait, as 250ms
//	child CMD    start sh -c CMD, which keeps our streams, and leave it behind
//	eof          close stdout
//	hang         neither read nor write until a signal comes
//	hang hard    the same, and no signal but SIGKILL ends it
//	ready FILE   create FILE
//	wait FILE    wait until FILE exists
//	exit N       exit at once with status N
//
// FILE of ready and wait may hold $VARS and is relative to the working directory.
// After the last line it reads until the end of its input and exits 0, as it does,
// like the real server, on SIGTERM. A frame that does not match is told on stderr
// with the line of the transcript, and the status is 3. Every line that arrives is
// appended to the file that APPSERVER_LOG names.
func AppServerMain(env *cli.Env) int {
	return cli.Main("appserver", env, func(ctx context.Context, env *cli.Env) error {
		if len(env.Args) != 1 {
			return cli.Usagef("usage: appserver FILE")
		}
		script, err := readTranscript(env.Args[0])
		if err != nil {
			return err
		}
		player, err := newPlayer(env)
		if err != nil {
			return err
		}
		err = player.play(ctx, script)
		if errors.Is(err, errSignal) {
			return nil
		}
		return err
	})
}

// errSignal ends a replay in which a signal came.
var errSignal = errors.New("stopped by a signal")

// player is the state of one replay. One goroutine reads stdin; all else happens
// in the goroutine of play.
type player struct {
	env    *cli.Env
	frames chan received
	log    io.Writer
	// Of the last request that arrived: its id, and the client's id of its text.
	lastID, lastClient json.RawMessage
}

// received is one line of the client, or why there is none.
type received struct {
	line []byte
	err  error
}

func newPlayer(env *cli.Env) (*player, error) {
	p := &player{env: env, frames: make(chan received), log: io.Discard}
	if path := env.Getenv("APPSERVER_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the log of frames: %w", err)
		}
		p.log = f
	}
	return p, nil
}

func (p *player) play(ctx context.Context, script []step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go p.read(ctx)
	for _, run := range script {
		if err := run(ctx, p); err != nil {
			return err
		}
	}
	for {
		if _, err := p.next(ctx); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// read hands on the lines of stdin. It ends with the input, or with ctx once the
// read that is under way returns: at the latest with the process.
func (p *player) read(ctx context.Context) {
	in := bufio.NewReaderSize(p.env.Stdin, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			err = nil
		}
		select {
		case p.frames <- received{line, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// next returns the next frame and logs it.
func (p *player) next(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, errSignal
	case in := <-p.frames:
		if in.err != nil {
			return nil, in.err
		}
		if _, err := p.log.Write(in.line); err != nil {
			return nil, fmt.Errorf("log a frame: %w", err)
		}
		p.noteRequest(in.line)
		return in.line, nil
	}
}

func (p *player) noteRequest(line []byte) {
	var head struct {
		Method *string         `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params struct {
			Client json.RawMessage `json:"clientUserMessageId"`
		} `json:"params"`
	}
	if json.Unmarshal(line, &head) == nil && head.Method != nil && head.ID != nil {
		p.lastID, p.lastClient = head.ID, head.Params.Client
	}
}

func (p *player) write(b []byte) error {
	if _, err := p.env.Stdout.Write(b); err != nil {
		return fmt.Errorf("write to the client: %w", err)
	}
	return nil
}
