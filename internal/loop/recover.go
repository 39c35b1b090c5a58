package loop

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// found is one issue that was found at start.
type found struct {
	key    string
	rec    *wire.Workspace // of os-workspace list; nil where only a memory is left
	memory memory
	worker *worker       // of its newest run; nil: it never ran
	alive  bool          // somebody keeps it going
	last   *wire.Outcome // of a run that is over
	route  wire.Route
	issue  *wire.Issue
}

// recover tells the scheduler what was left on disk: holds, runs that go on, runs that
// ended while nobody looked, and what is remembered of everything else.
func (d *driver) recover(ctx context.Context) error {
	holds, err := d.readHolds()
	if err != nil {
		return stateError(err)
	}
	all, err := d.look(ctx)
	if err != nil {
		return err
	}
	d.settleAll(ctx, all)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, h := range holds {
		d.held[h.Backend] = d.hasHoldFile(h.Backend)
		d.apply(schedule.Held{Hold: h})
	}
	d.printForgotten(all)
	for _, f := range all {
		d.tell(f)
	}
	return nil
}

// look reads all that lies on disk.
func (d *driver) look(ctx context.Context) ([]*found, error) {
	starts, err := d.starts()
	if err != nil {
		return nil, err
	}
	memories, err := d.readMemories()
	if err != nil {
		return nil, stateError(err)
	}
	records, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	byKey := map[string]*found{}
	for _, rec := range records {
		byKey[rec.Key] = &found{key: rec.Key, rec: rec, memory: memories[rec.Key]}
	}
	for key, m := range memories {
		if byKey[key] == nil && m.IssueID != "" {
			byKey[key] = &found{key: key, memory: m}
		}
	}
	var all []*found
	for _, f := range byKey {
		d.lastRun(f)
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *found) int { return strings.Compare(a.key, b.key) })
	return d.takeUp(starts, all, byKey), nil
}

// listTries is how often os-workspace may be killed while it lists.
const listTries = 5

// list asks os-workspace. A workspace that it cannot read is told, and hides no other.
func (d *driver) list(ctx context.Context) ([]*wire.Workspace, error) {
	var r *reply
	for range listTries {
		var err error
		r, err = d.programs.ask(ctx, d.hookLimit(), nil, "os-workspace", "list", "--workflow", d.programs.workflow)
		if err != nil {
			return nil, cli.Errorf(cli.StatusUnavailable, "list workspaces: %w", err)
		}
		defer r.close()
		if r.exit.Signal == 0 {
			break
		}
	}
	return d.listed(r)
}

func (d *driver) listed(r *reply) ([]*wire.Workspace, error) {
	var all []*wire.Workspace
	err := r.records("workspace", func(rec wire.Record) {
		if ws, ok := rec.(*wire.Workspace); ok && ws.Issue != nil && ws.Listing != nil {
			all = append(all, ws)
		}
	})
	status := r.exit.Status()
	if err == nil && status != cli.StatusOK && (status != cli.StatusState || len(all) == 0 && exists(d.Root.Issues())) {
		err = fmt.Errorf("%s", r.reason())
	}
	if err != nil {
		return nil, cli.Errorf(cli.StatusState, "list workspaces: %w", err)
	}
	if status == cli.StatusState {
		d.Warn("list workspaces: %s", r.reason())
	}
	return all, nil
}

// lastRun finds the newest run of an issue and whether it goes on. os-workspace does
// not list an issue whose folder was never made, but a run of it may have begun.
func (d *driver) lastRun(f *found) {
	_, identifier := f.names()
	dir := d.Root.Issue(f.key)
	m, err := readRun(dir)
	if err != nil || m == nil {
		d.warnAbout("the newest run of "+identifier+" is lost", err)
		return
	}
	locked := f.rec != nil && f.rec.Locked
	if f.rec == nil {
		holders, err := proc.Holders(dir.Lock())
		d.warnAbout("look for "+identifier, err)
		locked = len(holders) > 0
	}
	f.alive = locked && m.Status != runEnded
	f.take(d, m.RunID, dir.Run(m.RunID).Record())
}

// take makes a worker for a run whose record lies at path.
func (f *found) take(d *driver, runID, path string) {
	rec, err := readRecord(path)
	if err == nil {
		f.issue = rec.Issue
	}
	f.route = wire.Route{Harness: d.flow.Routing.Harness}
	if err == nil && rec.Route != nil {
		f.route = *rec.Route
	}
	id, identifier := f.names()
	if f.worker, err = d.newWorker(id, identifier, runID, f.route.Harness); err != nil {
		d.warnAbout("take up "+identifier, err)
	}
}

func (f *found) names() (id, identifier string) {
	if f.rec != nil {
		return f.rec.Issue.ID, f.rec.Issue.Identifier
	}
	return f.memory.IssueID, f.memory.Identifier
}

func readRecord(path string) (*wire.Workspace, error) {
	line, err := state.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec, err := wire.Decode(line, "workspace")
	if err != nil {
		return nil, err
	}
	ws, ok := rec.(*wire.Workspace)
	if !ok || ws.Issue == nil {
		return nil, fmt.Errorf("%q is no workspace record", path)
	}
	return ws, nil
}

// start is what an os-loop before us has started and not finished with.
type start struct {
	runID string
	rec   *wire.Workspace // nil: its supervisor is dead
}

// starts looks for them. It comes before the list of workspaces: one that is dead by
// now has begun before that list, or never will.
func (d *driver) starts() ([]start, error) {
	left, err := d.leftStarts()
	if err != nil {
		return nil, stateError(err)
	}
	var all []start
	for _, runID := range left {
		path := d.startFiles(runID).in()
		holders, err := proc.Holders(path)
		one := start{runID: runID}
		if err == nil && len(holders) > 0 {
			one.rec, err = readRecord(path)
		}
		if err != nil {
			return nil, stateError(err)
		}
		all = append(all, one)
	}
	return all, nil
}

// takeUp adds the starts to what was found. One whose supervisor lives is a run that
// goes on, begun or not; of the others nothing is kept.
func (d *driver) takeUp(starts []start, all []*found, byKey map[string]*found) []*found {
	for _, one := range starts {
		files := d.startFiles(one.runID)
		if one.rec == nil {
			if f := ofRun(all, one.runID); (f == nil || !f.alive) && d.Schedule.Mode != schedule.PlanOnly {
				d.warnAbout("clean up after "+one.runID, files.remove())
			}
			continue
		}
		f := byKey[one.rec.Key]
		if f == nil {
			f = &found{key: one.rec.Key, memory: memory{IssueID: one.rec.Issue.ID, Identifier: one.rec.Issue.Identifier}}
			all = append(all, f)
		}
		f.alive = true
		f.take(d, one.runID, files.in())
	}
	return all
}

func ofRun(all []*found, runID string) *found {
	i := slices.IndexFunc(all, func(f *found) bool { return f.worker != nil && f.worker.runID == runID })
	if i < 0 {
		return nil
	}
	return all[i]
}

// settleAll finds out how the runs ended that nobody keeps going, several at a time,
// and has those ended that their owner left open.
func (d *driver) settleAll(ctx context.Context, all []*found) {
	slots := make(chan struct{}, 2*runtime.NumCPU())
	var tasks sync.WaitGroup
	for _, f := range all {
		if f.worker == nil || f.alive {
			continue
		}
		slots <- struct{}{}
		tasks.Go(func() {
			defer func() { <-slots }()
			f.last = f.worker.written()
			if f.last == nil && d.Schedule.Mode == schedule.PlanOnly {
				f.last = f.worker.lastWord()
			}
			if f.last == nil {
				f.last = f.worker.end(ctx, &keeper{done: closed()})
			}
		})
	}
	tasks.Wait()
}

func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// printForgotten prints the outcomes that nobody has printed yet.
func (d *driver) printForgotten(all []*found) {
	missing := map[string]*wire.Outcome{}
	for _, f := range all {
		if f.last != nil && f.worker.runID != string(f.memory.RunID) {
			missing[f.worker.runID] = f.last
		}
	}
	if len(missing) == 0 || d.Schedule.Mode == schedule.PlanOnly {
		return
	}
	for _, path := range []string{d.path(LogFile) + asideSuffix, d.path(LogFile)} {
		d.warnAbout("read what was printed", forgetPrinted(path, missing))
	}
	for _, f := range all {
		if out := missing[f.runID()]; out != nil {
			d.printEnd(out)
		}
	}
}

func (f *found) runID() string {
	if f.worker == nil {
		return ""
	}
	return f.worker.runID
}

// tell brings one issue to the scheduler, and takes up its run if that goes on.
func (d *driver) tell(f *found) {
	id, identifier := f.names()
	fact := schedule.Recovered{IssueID: id, Identifier: identifier, Issue: f.issue, Record: f.memory.Record}
	if f.worker == nil {
		d.apply(fact)
		return
	}
	fact.Run = &schedule.LastRun{ID: f.worker.runID, Route: f.route, Alive: f.alive, Outcome: f.last}
	if !f.alive {
		fact.Run.Fingerprint = f.worker.fingerprint()
	}
	if f.rec != nil {
		fact.Run.Attempt = f.rec.Attempt
	}
	if f.alive && d.Schedule.Mode != schedule.PlanOnly {
		d.catching[f.worker] = true
		d.watch(f.worker)
	}
	d.apply(fact)
}
