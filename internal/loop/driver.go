package loop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// note is what a goroutine tells the owner.
type note struct {
	fact   schedule.Fact // nil: none
	over   *worker       // its run is over, and the fact is the last word on it
	caught *worker       // it has told all that was known of its run at the start
	record *wire.Loop    // nil: none
	holds  bool          // something changed in the folder of holds
}

// driver is the state of Run; it belongs to the goroutine of Run, apart from what is
// said to be safe.
type driver struct {
	Config
	scheduler  *schedule.Scheduler
	programs   *programs
	printer    *printer
	control    *control
	flow       *workflow.Workflow // the last good one
	workers    map[string]*worker // by issue id
	catching   map[*worker]bool   // adopted, and still reading what was there
	unsaved    map[string]error   // by issue id: why schedule.json could not be written
	queue      []schedule.Fact    // facts that follow from an action at once
	wake       *time.Timer
	publisher  publisher
	board      string             // the folder of cards that is watched; "" if none is
	leaveBoard context.CancelFunc // ends that watch
	exit       *int
	recovered  bool
	startedAt  wire.Time
	totals     Totals
	held       map[string]bool // backends whose hold has a file
	server     *server         // nil: nobody listens

	ctx    context.Context // of all goroutines below; safe
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	inbox  chan note
}

func newDriver(c Config) *driver {
	c.Schedule.Workflow = c.Workflow
	ctx, cancel := context.WithCancel(context.Background())
	d := &driver{
		Config:    c,
		scheduler: schedule.New(c.Schedule),
		flow:      c.Workflow,
		workers:   map[string]*worker{},
		catching:  map[*worker]bool{},
		unsaved:   map[string]error{},
		held:      map[string]bool{},
		startedAt: wire.At(c.Now()),
		wake:      time.NewTimer(time.Hour),
		ctx:       ctx,
		cancel:    cancel,
		inbox:     make(chan note),
	}
	d.programs = newPrograms(&d.Config)
	d.printer = newPrinter(c.Stdout, c.Warn)
	d.publisher.path = c.path(StateFile)
	return d
}

// open makes the folders and begins to watch.
func (d *driver) open() error {
	for _, dir := range []string{d.path(), d.path(runsDir), d.path(holdsDir)} {
		if err := state.MakeDir(dir); err != nil {
			return err
		}
	}
	if err := d.keep(d.Workflow); err != nil {
		return stateError(err)
	}
	if err := d.printer.open(d.path(LogFile)); err != nil {
		return err
	}
	d.totals = loadTotals(d.Root, d.Now())
	if err := d.openServer(); err != nil {
		return err
	}
	d.watchBoard()
	d.watchWorkflow()
	d.watchHolds()
	return d.openControl()
}

// close ends and waits for all goroutines.
func (d *driver) close() {
	d.cancel()
	d.tasks.Wait()
	d.printer.close()
	d.wake.Stop()
}

// send hands a note to the owner, unless Run is over. Safe.
func (d *driver) send(n note) {
	select {
	case d.inbox <- n:
	case <-d.ctx.Done():
	}
}

func (d *driver) fact(f schedule.Fact) { d.send(note{fact: f}) }

// run is the loop of the owner. It returns the exit status.
func (d *driver) run(ctx context.Context) int {
	stop, over := ctx.Done(), d.deadline()
	publish := time.NewTicker(publishInterval)
	defer publish.Stop()
	d.begin()
	for d.exit == nil {
		select {
		case n := <-d.inbox:
			d.take(n)
		case <-d.wake.C:
			d.apply(schedule.Tick{})
		case <-publish.C:
			d.publish()
		case <-d.Reload:
			d.reload()
		case <-d.refreshes():
			d.apply(schedule.Command{Kind: schedule.CommandRefresh})
		case <-stop:
			stop = nil
			d.shutdown()
		case <-d.printer.closed:
			d.printer.closed = nil
			d.shutdown()
		case <-over:
			over = nil
			d.apply(schedule.TimeUp{})
		}
	}
	d.publish()
	return *d.exit
}

func (d *driver) shutdown() { d.apply(schedule.Command{Kind: schedule.CommandShutdown}) }

func (d *driver) deadline() <-chan time.Time {
	if d.Timeout <= 0 {
		return nil
	}
	return time.After(d.Timeout)
}

// begin ends the recovery once every adopted run has told what its log held.
func (d *driver) begin() {
	if !d.recovered && len(d.catching) == 0 {
		d.recovered = true
		d.apply(schedule.Begin{})
		d.publish()
	}
}

func (d *driver) take(n note) {
	if n.over != nil {
		delete(d.workers, n.over.issueID)
		d.printOutcome(n.fact)
	}
	if n.fact != nil {
		d.apply(n.fact)
	}
	if n.record != nil {
		d.printer.print(n.record)
	}
	if n.holds {
		d.missHolds()
	}
	if n.caught != nil {
		delete(d.catching, n.caught)
		d.begin()
	}
}

// apply tells the scheduler a fact, and those that follow from its actions at once.
func (d *driver) apply(f schedule.Fact) {
	d.queue = append(d.queue, f)
	for len(d.queue) > 0 {
		f := d.queue[0]
		d.queue = d.queue[1:]
		if r, ok := f.(schedule.Reloaded); ok {
			f = d.adopt(r)
		}
		for _, a := range d.scheduler.Apply(d.Now(), f) {
			d.act(a)
		}
	}
	d.publisher.changed = true
}

// printOutcome prints the outcome of a run that is over. One that never began
// because another was in its way has none.
func (d *driver) printOutcome(f schedule.Fact) {
	ended, ok := f.(schedule.RunEnded)
	if !ok || ended.Outcome == nil || unbegun(ended.Outcome) {
		return
	}
	d.printEnd(ended.Outcome)
}

// printEnd prints the one outcome of a run, which is when it counts.
func (d *driver) printEnd(o *wire.Outcome) {
	d.printer.print(o)
	d.totals.count(o)
}

// stateError gives a file's error the exit status 73, or 75 where it is a lock.
func stateError(err error) error {
	if errors.Is(err, state.ErrBusy) {
		return &cli.ExitError{Status: cli.StatusTemporary, Err: err}
	}
	return &cli.ExitError{Status: cli.StatusState, Err: err}
}

func (d *driver) warnAbout(what string, err error) {
	if err != nil {
		d.Warn("%s", fmt.Errorf("%s: %w", what, err))
	}
}
