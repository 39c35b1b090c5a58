package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// Output says where a session's records go and how.
type Output struct {
	Stdout  io.Writer
	People  io.Writer // one line an event for people; nil: none
	Brief   bool      // stdout gets the outcome only, because a person sees People
	Raw     bool      // events carry the peer's frame
	Secrets []string  // values that no summary may show
	Now     func() time.Time
	Warn    func(format string, args ...any)
}

// Emitter numbers a session's events and writes them. Emit never waits for the
// reader of stdout: where a run has a log, stdout is a copy that a goroutine of its
// own makes of that file, so a slow reader costs neither memory nor records.
type Emitter struct {
	place Place
	out   Output

	begun int64 // the number of the run's events before this session

	mu      sync.Mutex
	seq     int64
	session string
	turn    string
	last    *wire.Event
	sick    bool // the log cannot be written any more
	copier  *copier
	held    []byte    // whole lines that are still to be written
	since   time.Time // when the oldest of them was made
}

// Bounds of what EmitPiece holds back.
const (
	maxHeld  = 64 << 10
	holdTime = 10 * time.Millisecond
)

// NewEmitter returns the Emitter of one session, which numbers its events behind those
// that the run has already. Close ends it.
func NewEmitter(p Place, out Output) (*Emitter, error) {
	seq, err := lastSeq(p.Run.Events(), p.RunID)
	if err != nil {
		return nil, err
	}
	e := &Emitter{place: p, out: out, seq: seq, begun: seq}
	if p.Log == nil {
		return e, nil
	}
	w := out.Stdout
	if out.Brief {
		w = &onlyOutcomes{w: w}
	}
	if e.copier, err = newCopier(p.Run.Events(), w); err != nil {
		return nil, fmt.Errorf("copy the log to stdout: %v", err)
	}
	return e, nil
}

// Gone is closed once nobody reads stdout any more. It is nil, and so never ready,
// where stdout is the log.
func (e *Emitter) Gone() <-chan struct{} {
	if e.copier == nil {
		return nil
	}
	return e.copier.gone
}

// Session names the session in all events from now on.
func (e *Emitter) Session(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = id
}

// Turn names the turn in all events from now on; "" for none.
func (e *Emitter) Turn(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.turn = id
}

// Emit writes one event. members is a pointer to one of wire's structs, raw the
// peer's frame that it came from, if any.
func (e *Emitter) Emit(name string, members any, raw []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add(name, members, raw)
	e.flush()
}

// EmitPiece is Emit for a piece of an item while more of the peer's frames wait: it
// may be written together with those that follow. The caller must Flush before it
// waits for the peer.
func (e *Emitter) EmitPiece(name string, members any, raw []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.add(name, members, raw)
	if len(e.held) >= maxHeld || at.Sub(e.since) >= holdTime {
		e.flush()
	}
}

// Flush writes what EmitPiece has held back.
func (e *Emitter) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
}

// add makes an event, numbers it and puts its line behind those that are held.
func (e *Emitter) add(name string, members any, raw []byte) time.Time {
	now := e.out.Now()
	if len(e.held) == 0 {
		e.since = now
	}
	e.seq++
	ev := &wire.Event{
		Time:       wire.At(now),
		Seq:        e.seq,
		RunID:      e.place.RunID,
		IssueID:    issueID(e.place.Workspace),
		Identifier: identifier(e.place.Workspace),
		Session:    wire.Text(e.session),
		Turn:       wire.Text(e.turn),
		Event:      name,
		Summary:    Summarize(describe(name, members), e.out.Secrets),
		Members:    members,
	}
	if e.out.Raw && json.Valid(raw) {
		ev.Raw = raw
	}
	var err error
	if e.held, err = wire.Append(e.held, ev); err != nil { // over the limit of a record
		notice := &wire.Notice{Code: "too_large", Message: fmt.Sprintf("%s: %v", name, err)}
		ev.Event, ev.Members, ev.Raw = wire.EventWarning, notice, nil
		ev.Summary = Summarize(notice.Message, nil)
		if e.held, err = wire.Append(e.held, ev); err != nil {
			e.out.Warn("event %d: %v", ev.Seq, err)
		}
	}
	e.held = append(e.held, '\n')
	e.last = ev
	e.tell(ev)
	return now
}

func (e *Emitter) flush() {
	if len(e.held) == 0 {
		return
	}
	e.write(e.held)
	if e.held = e.held[:0]; cap(e.held) > 2*maxHeld {
		e.held = nil // one large record must not stay for the whole session
	}
}

// Outcome writes the last record of the session.
func (e *Emitter) Outcome(o *wire.Outcome) error {
	line, err := wire.Marshal(o)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.flush()
	e.write(append(line, '\n'))
	return nil
}

// Last returns the newest event, or nil.
func (e *Emitter) Last() *wire.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// write takes whole lines. The copier keeps a copy of what it is given.
func (e *Emitter) write(line []byte) {
	var err error
	switch {
	case e.copier == nil:
		_, err = e.out.Stdout.Write(line)
	case e.sick:
		e.copier.append(line)
		return
	default:
		if _, err = e.place.Log.Write(line); err != nil {
			e.copier.append(line)
		}
		e.copier.wake()
	}
	if err != nil && !e.sick {
		e.sick = true
		e.out.Warn("write the run's log: %v; the session goes on without it", err)
	}
}

func (e *Emitter) tell(ev *wire.Event) {
	if e.out.People == nil || ev.Event == wire.EventMessageDelta || ev.Event == wire.EventCommandOutput {
		return
	}
	// Nothing can be done where even stderr is gone.
	_, _ = fmt.Fprintf(e.out.People, "%s %-18s %s\n", ev.Time.Local().Format("15:04:05"), ev.Event, ev.Summary)
}

// Close waits until stdout has everything, its reader is gone, or ctx is done, and
// ends the goroutine. A reader that has gone is no error.
func (e *Emitter) Close(ctx context.Context) error {
	if e.copier == nil {
		return nil
	}
	err := e.copier.close(ctx)
	if errors.Is(err, cli.ErrStdoutClosed) {
		return nil
	}
	return err
}

func issueID(ws *wire.Workspace) wire.Text {
	if ws.Issue == nil {
		return ""
	}
	return wire.Text(ws.Issue.ID)
}

func identifier(ws *wire.Workspace) wire.Text {
	if ws.Issue == nil {
		return ""
	}
	return wire.Text(ws.Issue.Identifier)
}
