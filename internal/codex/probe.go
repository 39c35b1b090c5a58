package codex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// probeStop bounds each step by which a probed server is ended.
const probeStop = time.Second

// Facts are what an app-server tells without a thread.
type Facts struct {
	Version  string
	Login    Login
	Warnings []Warning // about its configuration
}

// Login is what an app-server says of its account.
type Login struct {
	Known   bool // false: this build does not tell
	Missing bool // one is needed and not there
	Account string
}

// Warning is one of Codex's own; Path names the file that it is about, if any.
type Warning struct{ Path, Text string }

// Probe starts the app-server, asks it and ends it again, within limit and a few
// seconds. Where it fails the error is a *session.Ending; its Detail is what preview
// makes of the beginning of the server's stderr.
func Probe(ctx context.Context, l Launch, dir string, limit time.Duration, preview func([]byte) string) (*Facts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	argv, err := l.Resolve()
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp("", "os-probe-*")
	if err != nil {
		return nil, session.Failf(wire.CauseState, "open the app-server's log: %v", err)
	}
	defer func() { _ = log.Close() }() // its name is gone already
	if err := os.Remove(log.Name()); err != nil {
		return nil, session.Failf(wire.CauseState, "open the app-server's log: %v", err)
	}
	place := session.Place{Workspace: &wire.Workspace{Path: dir}}
	c := Config{Launch: l, Config: session.Config{Place: place, Now: time.Now}}
	p, err := c.start(argv, log)
	if err != nil {
		return nil, session.Failf(wire.CauseUnavailable, "start codex: %v", err)
	}
	b := &probe{peer: p}
	err = b.ask(ctx)
	p.end()
	if err != nil {
		return nil, b.failure(err, log, preview)
	}
	return &b.facts, nil
}

// probe is one server that is asked. All of it belongs to the goroutine of Probe.
type probe struct {
	peer  *peer
	next  int64
	facts Facts
}

func (b *probe) ask(ctx context.Context) error {
	hello, err := b.call(ctx, methodInitialize, helloParams())
	if err != nil {
		return err
	}
	b.facts.Version = string(serverVersion(hello.Get("userAgent").Str))
	if err := b.peer.conn.send(notification{"initialized"}); err != nil {
		return err
	}
	account, err := b.call(ctx, methodAccountRead, accountParams())
	var refused *rpcError
	switch {
	case errors.As(err, &refused): // an older build, which may work all the same
	case err != nil:
		return err
	default:
		b.facts.Login = Login{Known: true, Missing: loginMissing(account), Account: account.Get("account.type").Str}
	}
	return nil
}

// call makes a request and waits for its answer.
func (b *probe) call(ctx context.Context, method string, params any) (gjson.Result, error) {
	b.next++
	if err := b.peer.conn.send(request{b.next, method, params}); err != nil {
		return gjson.Result{}, err
	}
	var deaf error
	var late <-chan time.Time
	for {
		select {
		case f, ok := <-b.peer.conn.frames:
			if !ok {
				return gjson.Result{}, fmt.Errorf("codex app-server ended before it answered %s", method)
			}
			if f.stray == "" && f.isAnswer() && f.key() == fmt.Sprint(b.next) {
				return answered(method, &f)
			}
			b.heard(&f)
		case deaf = <-b.peer.conn.broken: // its end, or its answer, may be in the other pipe
			late = time.After(drainLimit)
		case <-late:
			return gjson.Result{}, fmt.Errorf("codex app-server does not take %s: %w", method, deaf)
		case <-ctx.Done():
			return gjson.Result{}, fmt.Errorf("%s: %w", method, context.Cause(ctx))
		}
	}
}

func (b *probe) heard(f *frame) {
	if f.method != "configWarning" {
		return
	}
	w := Warning{Path: f.params().Get("path").Str, Text: f.params().Get("summary").Str}
	if more := f.params().Get("details").Str; more != "" {
		w.Text += " " + more
	}
	b.facts.Warnings = append(b.facts.Warnings, w)
}

// failure is the ending of a probe, with what the server wrote on stderr.
func (b *probe) failure(err error, log *os.File, preview func([]byte) string) error {
	category := wire.CauseProtocol
	text := err.Error()
	if e := b.peer.exit(); e != nil && e.Code != nil {
		text += fmt.Sprintf(", with exit status %d", *e.Code)
		// A wrapper's interpreter, or what it starts, is not there.
		if *e.Code == 126 || *e.Code == 127 {
			category = wire.CauseUnavailable
		}
	}
	head := make([]byte, 4<<10)
	n, _ := log.ReadAt(head, 0) // what cannot be read is not shown
	return &session.Ending{Outcome: wire.Failed, Category: category, Message: text, Detail: preview(head[:n])}
}

// end ends a server that nobody has given any work.
func (p *peer) end() {
	p.conn.closeInput()
	p.child.Stop(nil, proc.Step{Wait: probeStop}, p.child.Send(syscall.SIGTERM, probeStop), p.child.Send(syscall.SIGKILL, killWait))
	p.conn.close()
}
