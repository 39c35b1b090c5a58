package openhands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

const (
	maxFrame   = 64 << 20
	frameQueue = 256
	pingEvery  = 30 * time.Second
	gapLimit   = 2 * time.Second // for an event that others have overtaken
	linkFirst  = time.Second     // between two attempts to connect
	linkMost   = 30 * time.Second
)

// Close codes of the server.
const (
	closeUnauthorized = 4001
	closeNotFound     = 4004
)

// The routes of the two kinds of sockets. The session socket numbers its events, so
// that one which follows it again misses nothing; older servers have the other only.
const (
	sessionRoute = "session"
	eventsRoute  = "events"
)

// errUnauthorized and errGone are why a socket is not tried again, errLater why not at
// once.
var (
	errUnauthorized = errors.New("agent-server does not take the session key")
	errGone         = errors.New("agent-server does not know the conversation")
	errOverflow     = errors.New("an event is too large for the session socket")
	errLater        = errors.New("agent-server wants the socket to be tried later")
)

type frameKind int

const (
	frameLive   frameKind = iota // the socket follows the conversation from now on
	frameEvent                   // an event of the log
	frameState                   // the whole state, which is in no log
	framePiece                   // a piece of an event that is still to come
	frameNotice                  // something of the socket itself
	frameBroken                  // no JSON
	frameDown                    // the socket is lost, and is opened again
	frameFatal                   // the socket is lost for good
)

// frame is what the socket brings. event is the event, or the envelope where there is
// none.
type frame struct {
	kind  frameKind
	event gjson.Result
	err   error
	// whole says, with frameLive, that the events since the last one follow by
	// themselves.
	whole bool
}

// link follows a conversation over a socket, opens it again when it is lost, and hands
// the frames over in order. It belongs to the goroutine of run; frames is closed at its
// end.
type link struct {
	client *client
	id     string
	frames chan frame

	route string
	next  int64           // the number of the next event, on the session socket
	held  map[int64]frame // events that have overtaken it
	moved bool            // an event came since the socket was opened
	fails int             // sockets in a row that brought no event
}

// newLink follows the conversation whose log has that many events already.
func newLink(c *client, id string, events int64) *link {
	return &link{client: c, id: id, frames: make(chan frame, frameQueue), route: sessionRoute, next: events, held: make(map[int64]frame)}
}

// run follows until ctx ends or the server says that there is nothing to follow.
func (l *link) run(ctx context.Context) {
	defer close(l.frames)
	waits := &backoff.ExponentialBackOff{InitialInterval: linkFirst, Multiplier: 2, MaxInterval: linkMost}
	for ctx.Err() == nil {
		l.moved = false
		err := l.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errUnauthorized), errors.Is(err, errGone):
			l.send(ctx, frame{kind: frameFatal, err: err})
			return
		}
		l.send(ctx, frame{kind: frameDown, err: err})
		if l.retreat(err) {
			continue
		}
		if l.moved {
			waits.Reset()
			l.fails = 0
		}
		if l.fails++; l.fails == 1 && l.moved && !errors.Is(err, errLater) {
			continue // the first attempt is made at once
		}
		if !pause(ctx, waits.NextBackOff()) {
			return
		}
	}
}

// retreat falls back to the events socket where the session socket does not do.
func (l *link) retreat(err error) bool {
	var refused *refusedError
	if l.route != sessionRoute || !errors.As(err, &refused) && !errors.Is(err, errOverflow) {
		return false
	}
	l.route = eventsRoute
	return true
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) send(ctx context.Context, f frame) {
	select {
	case l.frames <- f:
	case <-ctx.Done():
	}
}

// refusedError is a socket that the server did not open.
type refusedError struct{ status int }

func (e *refusedError) Error() string {
	return fmt.Sprintf("agent-server refuses the socket with status %d", e.status)
}

// follow opens one socket and reads it to its end, which it returns the cause of.
func (l *link) follow(ctx context.Context) error {
	conn, err := l.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }() // there is nothing left to say
	conn.SetReadLimit(maxFrame)
	if l.client.key != "" {
		auth, err := json.Marshal(map[string]string{"type": "auth", "session_api_key": l.client.key})
		if err != nil {
			return fmt.Errorf("encode the session key: %v", err)
		}
		l.client.trace.frame("out", l.route, auth)
		if err := conn.Write(ctx, websocket.MessageText, auth); err != nil {
			return closeError(err)
		}
	}
	var pings sync.WaitGroup
	pinged, stop := context.WithCancel(ctx)
	defer pings.Wait()
	defer stop()
	pings.Go(func() { keepAlive(pinged, conn) })
	return l.read(ctx, conn)
}

func (l *link) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, l.url(), &websocket.DialOptions{HTTPClient: l.client.http})
	switch {
	case err == nil:
		return conn, nil
	case resp != nil && resp.StatusCode != http.StatusSwitchingProtocols:
		return nil, &refusedError{resp.StatusCode}
	}
	return nil, fmt.Errorf("open the socket: %s", l.client.secrets.text(err.Error()))
}

func (l *link) url() string {
	u := *l.client.base
	u.Scheme = map[string]string{"http": "ws", "https": "wss"}[u.Scheme]
	u.Path += "/sockets/" + l.route + "/" + l.id
	if l.route == sessionRoute {
		u.RawQuery = url.Values{"after_seq": {strconv.FormatInt(l.next-1, 10)}}.Encode()
	}
	return u.String()
}

// keepAlive pings, so that a connection that is lost without a word is noticed.
func keepAlive(ctx context.Context, conn *websocket.Conn) {
	for pause(ctx, pingEvery) {
		limited, cancel := context.WithTimeout(ctx, pingEvery)
		err := conn.Ping(limited)
		cancel()
		if err != nil {
			_ = conn.CloseNow() // the reader tells
			return
		}
	}
}

func (l *link) read(ctx context.Context, conn *websocket.Conn) error {
	clear(l.held)
	for first := true; ; first = false {
		limited, cancel := ctx, func() {}
		if len(l.held) > 0 {
			limited, cancel = context.WithTimeout(ctx, gapLimit)
		}
		_, b, err := conn.Read(limited)
		cancel()
		if err != nil {
			return closeError(err)
		}
		l.client.trace.frame("in", l.route, b)
		if !gjson.ValidBytes(b) {
			l.send(ctx, frame{kind: frameBroken, err: malformed(l.client.secrets, b)})
			continue
		}
		if v := gjson.ParseBytes(b); l.route == sessionRoute {
			l.envelope(ctx, v)
		} else {
			l.event(ctx, v, first)
		}
	}
}

// maxSnippet bounds in bytes what is told of a frame that is no JSON.
const maxSnippet = 160

func malformed(secrets redactor, b []byte) error {
	return fmt.Errorf("openhands.websocket.malformed_event: %s", secrets.head(string(b), maxSnippet))
}

// envelope takes a frame of the session socket.
func (l *link) envelope(ctx context.Context, v gjson.Result) {
	event := v.Get("event")
	switch v.Get("type").Str {
	case "sync":
		l.send(ctx, frame{kind: frameLive, whole: true})
	case "durable":
		l.durable(ctx, v.Get("seq").Int(), frame{kind: frameEvent, event: event})
	case "transient":
		l.send(ctx, frame{kind: kindOf(event), event: event})
	case "delta":
		l.send(ctx, frame{kind: framePiece, event: v})
	case "item_started", "item_aborted":
	default:
		l.send(ctx, frame{kind: frameNotice, event: v})
	}
}

// durable hands events over in the order of their numbers.
func (l *link) durable(ctx context.Context, seq int64, f frame) {
	if seq < l.next {
		return // replayed
	}
	l.held[seq] = f
	for {
		f, ok := l.held[l.next]
		if !ok {
			return
		}
		delete(l.held, l.next)
		l.next++
		l.moved = true
		l.send(ctx, f)
	}
}

// event takes a frame of the events socket. The first one says that it is live.
func (l *link) event(ctx context.Context, v gjson.Result, first bool) {
	if first {
		l.send(ctx, frame{kind: frameLive})
	}
	kind := kindOf(v)
	l.moved = l.moved || kind == frameEvent
	l.send(ctx, frame{kind: kind, event: v})
}

// kindOf tells events of the log from those that are in none.
func kindOf(event gjson.Result) frameKind {
	switch event.Get("kind").Str {
	case "ConversationStateUpdateEvent":
		if event.Get("key").Str == "full_state" {
			return frameState
		}
	case "StreamingDeltaEvent":
		return framePiece
	case "ServerErrorEvent":
		return frameNotice
	}
	return frameEvent
}

// closeError says why a socket has ended.
func closeError(err error) error {
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
	case errors.Is(err, websocket.ErrMessageTooBig):
		return errOverflow
	default:
		return fmt.Errorf("the socket is lost: %v", err)
	}
	switch {
	case closed.Code == closeUnauthorized:
		return errUnauthorized
	case closed.Code == closeNotFound:
		return errGone
	case closed.Code == websocket.StatusMessageTooBig, closed.Reason == "frame_too_large":
		return errOverflow
	case closed.Code == websocket.StatusTryAgainLater:
		return fmt.Errorf("%w: %d %s", errLater, closed.Code, closed.Reason)
	}
	return fmt.Errorf("agent-server closed the socket with %d %s", closed.Code, closed.Reason)
}
