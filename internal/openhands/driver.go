package openhands

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// driver is the state of one session. Everything in it belongs to the goroutine of
// Run; others hand it functions by Post.
type driver struct {
	*session.Loop
	cfg    Config
	em     *session.Emitter
	meter  session.Meter
	before *wire.Usage // of the conversation, when this run took it up; nil: not known
	budget session.Budget

	client  *client
	server  *server // nil: somebody else's
	secrets redactor
	link    *link
	frames  <-chan frame    // nil: no socket is followed
	talk    context.Context // of what is asked about one conversation
	endTalk context.CancelFunc

	conv    *session.Conversation
	agent   wire.Peer
	id      string // of the conversation
	resumed bool   // it is an earlier run's
	renewed bool   // it stands in for one that this run has used up
	store   string // where the server keeps its conversations; "": not known
	usedAt  time.Time
	told    []string // texts of people that the agent has got
	log     journal
	reach   reach
	asked   *asked   // what waits for leave; nil: nothing
	steers  int      // messages that are not answered
	hosted  int      // host-side tools whose results are not sent
	changes int      // answers to requests that change the state: a status from before the newest is old
	posted  []posted // messages that are not seen in the log
	tools   map[string]*call
	model   wire.Model
	turn    *turn
	turns   int64
	answer  string // the text of the last turn's end
}

func newDriver(ctx context.Context, cfg Config) *driver {
	d := &driver{
		Loop: session.NewLoop(ctx, cfg.Config),
		cfg:  cfg, em: cfg.Emitter,
		budget:  cfg.Budget,
		secrets: newRedactor(cfg.secrets()),
		tools:   make(map[string]*call),
		turn:    &turn{},
		agent:   wire.Peer{Name: Harness},
		model:   wire.Model{Requested: wire.Text(cfg.Agent.Model)},
	}
	d.talk, d.endTalk = context.WithCancel(d.Context())
	return d
}

// release ends what the session started besides the server.
func (d *driver) release() {
	d.Close()
	if d.client != nil {
		d.client.close()
	}
}

// session opens the conversation and makes the turns.
func (d *driver) session(ctx context.Context) *session.Ending {
	d.em.Emit(wire.EventSessionPlanned, d.cfg.planned(), nil)
	d.OpenInbox(Harness, d)
	if err := d.connect(); err != nil {
		return session.EndingOf(err)
	}
	if err := d.open(); err != nil {
		return session.EndingOf(err)
	}
	plan := d.Plan(d.cfg.Plan, d.step)
	end := plan.Run(ctx, d.conv.Seeded, d.makeTurn)
	if end.FinishedBy == session.FinishedByAgent && d.turn.bare {
		end.FinishedBy = finishedByMessage
	}
	return end
}

// connect makes the client, and the server where that is ours.
func (d *driver) connect() error {
	if d.cfg.Server.Spawn != nil {
		if err := d.spawn(); err != nil {
			return err
		}
	}
	c, err := newClient(d.cfg.Server, newTracer(d.cfg.Trace, d.cfg.Now, d.secrets), d.secrets)
	if err != nil {
		return err
	}
	d.client = c
	return nil
}

// step waits for the next thing that happens, at the latest the next tick, and deals
// with it. An error is the *session.Ending of the session, which the caller must give
// up for.
func (d *driver) step() error {
	select {
	case f, ok := <-d.frames:
		d.heard(f, ok)
	case <-d.Inbox.C():
		d.Inbox.Deliver()
	case job := <-d.Jobs():
		job()
	case now := <-d.Ticks():
		d.tick(now)
	}
	return d.Err()
}

// tick advances the clocks.
func (d *driver) tick(now time.Time) {
	if end := d.Tick(now); end != nil {
		if end.Outcome == wire.Stalled {
			end.Detail = d.lastKnown()
		}
		d.Exceeded(end)
	}
	d.watchServer()
	step := d.Clocks.Step()
	d.Inbox.Tick(step)
	d.watch(step)
}

// send makes a request beside the session; then gets its answer in the session's
// goroutine, unless the conversation is over before.
func (d *driver) send(r request, then func(gjson.Result, error)) {
	ctx, c := d.talk, d.client
	d.Beside(func(context.Context) {
		result, err := c.do(ctx, r)
		d.Post(func() {
			if ctx.Err() == nil { // else it is about a conversation that was lost meanwhile
				d.answered(r)
				then(result, err)
			}
		})
	})
}

func (d *driver) answered(r request) {
	if r.method != http.MethodGet {
		d.changes++
	}
}

// call makes a request and waits for its answer; all else goes on meanwhile. The error
// is the *session.Ending of the session, or that of the request.
func (d *driver) call(r request) (gjson.Result, error) {
	ctx, c := d.talk, d.client
	result, err := session.Await(d.Loop, d.step, func(context.Context) (gjson.Result, error) { return c.do(ctx, r) })
	d.answered(r)
	return result, err
}

// await begins what calls back with an error, and waits for that; all else goes on
// meanwhile. The error is the *session.Ending of the session, or that one.
func (d *driver) await(begin func(then func(error))) error {
	var err error
	done := false
	begin(func(failed error) { err, done = failed, true })
	if end := session.Until(d.step, func() bool { return done }); end != nil {
		return end
	}
	return err
}

// sleep lets the session go on for a while.
func (d *driver) sleep(wait time.Duration) error {
	due := d.Clocks.Elapsed() + wait
	return session.Until(d.step, func() bool { return d.Clocks.Elapsed() >= due })
}

func (d *driver) warn(code, message string) {
	d.Warn(code, d.secrets.text(message))
}

// isEnding reports whether err ends the session, as opposed to a single request.
func isEnding(err error) bool {
	var end *session.Ending
	return errors.As(err, &end)
}
