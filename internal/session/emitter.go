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

	mu      sync.Mutex
	seq     int64
	session string
	turn    string
	last    *wire.Event
	sick    bool // the log cannot be written any more
	copier  *copier
}

// NewEmitter returns the Emitter of one session. Close ends it.
func NewEmitter(p Place, out Output) (*Emitter, error) {
	e := &Emitter{place: p, out: out}
	if p.Log == nil {
		return e, nil
	}
	w := out.Stdout
	if out.Brief {
		w = &onlyOutcomes{w: w}
	}
	var err error
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
	e.seq++
	ev := &wire.Event{
		Time:       wire.At(e.out.Now()),
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
	line, err := wire.Marshal(ev)
	if err != nil { // over the limit of a record
		notice := &wire.Notice{Code: "too_large", Message: fmt.Sprintf("%s: %v", name, err)}
		ev.Event, ev.Members, ev.Raw = wire.EventWarning, notice, nil
		ev.Summary = Summarize(notice.Message, nil)
		if line, err = wire.Marshal(ev); err != nil {
			e.out.Warn("event %d: %v", ev.Seq, err)
		}
	}
	e.last = ev
	e.write(line)
	e.tell(ev)
}

// Outcome writes the last record of the session.
func (e *Emitter) Outcome(o *wire.Outcome) error {
	line, err := wire.Marshal(o)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.write(line)
	return nil
}

// Last returns the newest event, or nil.
func (e *Emitter) Last() *wire.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *Emitter) write(line []byte) {
	line = append(line, '\n')
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
