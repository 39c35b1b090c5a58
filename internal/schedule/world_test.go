package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// epoch is when every test begins.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a tracker, a disk and the workers around one scheduler. It answers every
// reading at once, unless slow is set, and checks at each start what must never be.
type world struct {
	t   tester
	cfg schedule.Config
	s   *schedule.Scheduler
	now time.Time

	issues  map[string]*wire.Issue // the tracker, by id
	down    *schedule.Failure      // what it answers instead
	partial bool                   // polls say that they may lack some
	slow    bool                   // answers wait in pending
	pending []schedule.Fact

	records map[string]schedule.Record // the disk
	holds   map[string]schedule.Hold
	last    map[string]*schedule.LastRun
	events  map[string][]schedule.RunEvent // the logs, by issue id

	wake    time.Time
	starts  []schedule.Start
	stops   []schedule.Stop
	actions []schedule.Action // all but WakeAt
	log     []string          // "event identifier: reason"
	exit    *int
	nextRun int
}

// flow returns a workflow with the defaults of WORKFLOW.md.
func flow() *workflow.Workflow {
	return &workflow.Workflow{
		Polling: workflow.Polling{Interval: 30 * time.Second},
		Agent: workflow.Agent{
			MaxConcurrent: 10, MaxRetryBackoff: 300 * time.Second, StallTimeout: 300 * time.Second,
			RunTimeout: 6 * time.Hour, LaunchTimeout: 2 * time.Minute, TerminalGrace: time.Minute,
		},
		Routing: workflow.Routing{Harness: "codex"},
		Budget:  workflow.Budget{RunsPerIssue: 50, NoProgressRuns: 3},
	}
}

func newWorld(t tester, cfg schedule.Config) *world {
	if cfg.Workflow == nil {
		cfg.Workflow = flow()
	}
	if cfg.Grace == 0 {
		cfg.Grace = 10 * time.Second
	}
	return &world{
		t: t, cfg: cfg, s: schedule.New(cfg), now: epoch,
		issues:  map[string]*wire.Issue{},
		records: map[string]schedule.Record{},
		holds:   map[string]schedule.Hold{},
		last:    map[string]*schedule.LastRun{},
		events:  map[string][]schedule.RunEvent{},
	}
}

// board is a world with these issues whose scheduler has begun.
func board(t *testing.T, cfg schedule.Config, issues ...*wire.Issue) *world {
	t.Helper()
	w := newWorld(t, cfg)
	w.add(issues...)
	w.apply(schedule.Begin{})
	return w
}

func issue(key string, change ...func(*wire.Issue)) *wire.Issue {
	i := &wire.Issue{
		ID: "id-" + key, Identifier: key, Title: "Do " + key, State: "Todo",
		Category: wire.CategoryActive, Dispatchable: true,
		CreatedAt: wire.At(epoch.Add(-time.Hour)), UpdatedAt: wire.At(epoch.Add(-time.Hour)),
	}
	for _, c := range change {
		c(i)
	}
	return i
}

func in(state string) func(*wire.Issue)    { return func(i *wire.Issue) { i.State = state } }
func priority(p int64) func(*wire.Issue)   { return func(i *wire.Issue) { i.Priority = &p } }
func labels(l ...string) func(*wire.Issue) { return func(i *wire.Issue) { i.Labels = l } }
func created(at time.Time) func(*wire.Issue) {
	return func(i *wire.Issue) { i.CreatedAt = wire.At(at) }
}

func blockedBy(key, state string) func(*wire.Issue) {
	return func(i *wire.Issue) {
		i.BlockedBy = append(i.BlockedBy, wire.Blocker{
			ID: wire.Text("id-" + key), Identifier: wire.Text(key), State: wire.Text(state), Known: state != "",
		})
	}
}

func child(key, state string) func(*wire.Issue) {
	return func(i *wire.Issue) {
		i.Children = append(i.Children, wire.IssueRef{ID: "id-" + key, Identifier: key, State: wire.Text(state)})
	}
}

func (w *world) add(issues ...*wire.Issue) {
	for _, i := range issues {
		w.issues[i.ID] = i
	}
}

// change replaces an issue by a changed copy, as a tracker would: what was read
// before stays as it was.
func (w *world) change(key string, change ...func(*wire.Issue)) {
	c := *w.issues["id-"+key]
	c.UpdatedAt = wire.At(w.now)
	c.BlockedBy, c.Children, c.Labels = slices.Clone(c.BlockedBy), slices.Clone(c.Children), slices.Clone(c.Labels)
	for _, f := range change {
		f(&c)
	}
	w.issues[c.ID] = &c
}

// move changes an issue's state and its category with it.
func (w *world) move(key, state string) {
	w.change(key, in(state), func(i *wire.Issue) {
		switch state {
		case "Done", "Canceled":
			i.Category = wire.CategoryTerminal
		case "Backlog", "Human Review":
			i.Category = wire.CategoryOther
		default:
			i.Category = wire.CategoryActive
		}
	})
}

// apply takes facts and all that is answered at once.
func (w *world) apply(facts ...schedule.Fact) {
	w.t.Helper()
	for len(facts) > 0 {
		f := facts[0]
		facts = facts[1:]
		for _, a := range w.s.Apply(w.now, f) {
			answer := w.do(a)
			if answer == nil {
				continue
			}
			if w.slow {
				w.pending = append(w.pending, answer)
			} else {
				facts = append(facts, answer)
			}
		}
	}
}

// do carries out one action and returns its answer, if it has one.
func (w *world) do(a schedule.Action) schedule.Fact {
	w.t.Helper()
	if at, ok := a.(schedule.WakeAt); ok {
		w.wake = at.At
		return nil
	}
	if w.exit != nil {
		w.t.Fatalf("%T after Exit", a)
	}
	w.actions = append(w.actions, a)
	switch a := a.(type) {
	case schedule.Poll:
		return w.answerPoll()
	case schedule.ReadIDs:
		return w.answerRead(a.IDs)
	case schedule.Start:
		return w.begin(a)
	case schedule.Stop:
		w.stops = append(w.stops, a)
	case schedule.Save:
		w.records[a.IssueID] = a.Record
	case schedule.Drop:
		delete(w.records, a.IssueID)
	case schedule.HoldBackend:
		w.holds[a.Hold.Backend] = a.Hold
	case schedule.ClearBackend:
		delete(w.holds, a.Backend)
	case schedule.Emit:
		w.log = append(w.log, fmt.Sprintf("%s %s: %s", a.Loop.Event, a.Loop.Identifier, a.Loop.Reason))
	case schedule.Exit:
		w.exit = &a.Status
	}
	return nil
}

func (w *world) answerPoll() schedule.Fact {
	if w.down != nil {
		return schedule.PollFailed{Failure: *w.down}
	}
	var active []*wire.Issue
	for _, id := range slices.Sorted(maps.Keys(w.issues)) {
		if w.issues[id].Category == wire.CategoryActive {
			active = append(active, w.issues[id])
		}
	}
	return schedule.Polled{Issues: active, Complete: !w.partial}
}

func (w *world) answerRead(ids []string) schedule.Fact {
	if w.down != nil {
		return schedule.ReadFailed{Failure: *w.down}
	}
	var r schedule.Read
	for _, id := range ids {
		if i := w.issues[id]; i != nil {
			r.Issues = append(r.Issues, i)
		} else {
			r.Gone = append(r.Gone, id)
		}
	}
	return r
}

// begin is a supervisor that begins a run. The reservation must be on disk by then.
func (w *world) begin(a schedule.Start) schedule.Fact {
	w.t.Helper()
	id := a.Issue.ID
	if l := w.last[id]; l != nil && l.Alive {
		w.t.Fatalf("%s is started while its run %s is alive", a.Issue.Identifier, l.ID)
	}
	if n := w.alive(""); n >= w.cfg.Workflow.Agent.MaxConcurrent {
		w.t.Fatalf("%s is started while %d runs are alive", a.Issue.Identifier, n)
	}
	if w.records[id].Lifetime.Runs == 0 && !w.cfg.DryRun {
		w.t.Fatalf("%s is started before its run is on disk", a.Issue.Identifier)
	}
	w.nextRun++
	run := fmt.Sprintf("run-%d", w.nextRun)
	w.events[id] = nil
	w.last[id] = &schedule.LastRun{ID: run, Attempt: a.Attempt, Route: a.Route, Alive: true}
	w.starts = append(w.starts, a)
	return schedule.RunStarted{IssueID: id, RunID: run}
}

// alive counts the runs of issues in a state, of all issues for "".
func (w *world) alive(state string) int {
	n := 0
	for id, l := range w.last {
		if l.Alive && (state == "" || w.issues[id] != nil && w.issues[id].State == state) {
			n++
		}
	}
	return n
}

func (w *world) run(key string) string { return w.last["id-"+key].ID }

func (w *world) event(key string, kinds ...schedule.EventKind) {
	w.t.Helper()
	for _, k := range kinds {
		e := schedule.RunEvent{IssueID: "id-" + key, RunID: w.run(key), Kind: k}
		w.events[e.IssueID] = append(w.events[e.IssueID], e)
		w.apply(e)
	}
}

func outcome(name string, category ...string) *wire.Outcome {
	o := &wire.Outcome{Outcome: name}
	if len(category) > 0 {
		o.Error = &wire.OutcomeError{Category: category[0], Message: "as the test wants it"}
	}
	return o
}

// end ends the run of an issue.
func (w *world) end(key string, o *wire.Outcome, fingerprint ...string) {
	w.t.Helper()
	l := w.last["id-"+key]
	l.Alive = false
	c := *o
	c.RunID = l.ID
	l.Outcome, l.Fingerprint = &c, strings.Join(fingerprint, "")
	w.apply(schedule.RunEnded{IssueID: "id-" + key, RunID: l.ID, Outcome: &c, Fingerprint: l.Fingerprint})
}

// pass lets time go by, waking the scheduler when it wants to be.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	until := w.now.Add(d)
	for w.exit == nil && w.wake.After(w.now) && !w.wake.After(until) {
		w.now = w.wake
		w.apply(schedule.Tick{})
	}
	w.now = until
	w.apply(schedule.Tick{})
}

// restart replaces the scheduler by one that knows only what is on disk.
func (w *world) restart() {
	w.t.Helper()
	w.s, w.pending = schedule.New(w.cfg), nil
	w.restore()
	w.apply(schedule.Begin{})
}

func (w *world) restore() {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(w.records)), maps.Keys(w.last))
	slices.Sort(ids)
	for _, name := range slices.Sorted(maps.Keys(w.holds)) {
		w.apply(schedule.Held{Hold: w.holds[name]})
	}
	for _, id := range slices.Compact(ids) {
		w.apply(schedule.Recovered{IssueID: id, Identifier: strings.TrimPrefix(id, "id-"), Record: w.records[id], Run: w.last[id]})
		if l := w.last[id]; l != nil && l.Alive {
			for _, e := range w.events[id] {
				w.apply(e)
			}
		}
	}
}

// codes returns the plan as "A-1 start, A-2 blocker".
func (w *world) codes() string {
	var list []string
	for _, d := range w.s.Plan(w.now) {
		list = append(list, d.Identifier+" "+string(d.Code))
	}
	return strings.Join(list, ", ")
}

// started returns the identifiers of all starts until now, in order.
func (w *world) started() string {
	var list []string
	for _, a := range w.starts {
		list = append(list, a.Issue.Identifier)
	}
	return strings.Join(list, " ")
}

// count returns how many log lines begin with prefix.
func (w *world) count(prefix string) int {
	n := 0
	for _, l := range w.log {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func (w *world) wantStarted(want string) {
	w.t.Helper()
	if got := w.started(); got != want {
		w.t.Fatalf("started %q, want %q\nplan: %s\nlog:\n%s", got, want, w.codes(), strings.Join(w.log, "\n"))
	}
}

func (w *world) wantCodes(want string) {
	w.t.Helper()
	if got := w.codes(); got != want {
		w.t.Fatalf("plan is\n%s, want\n%s", got, want)
	}
}

func (w *world) wantLog(prefix string, n int) {
	w.t.Helper()
	if got := w.count(prefix); got != n {
		w.t.Fatalf("%d records begin with %q, want %d:\n%s", got, prefix, n, strings.Join(w.log, "\n"))
	}
}

func (w *world) wantExit(status int) {
	w.t.Helper()
	if w.exit == nil {
		w.t.Fatalf("no exit; plan: %s\nlog:\n%s", w.codes(), strings.Join(w.log, "\n"))
	}
	if *w.exit != status {
		w.t.Fatalf("exit %d, want %d\nlog:\n%s", *w.exit, status, strings.Join(w.log, "\n"))
	}
}

func (w *world) lastStop() schedule.Stop {
	w.t.Helper()
	if len(w.stops) == 0 {
		w.t.Fatalf("nothing was stopped; log:\n%s", strings.Join(w.log, "\n"))
	}
	return w.stops[len(w.stops)-1]
}

func attempts(starts []schedule.Start) string {
	var list []string
	for _, a := range starts {
		if a.Attempt == nil {
			list = append(list, "null")
		} else {
			list = append(list, fmt.Sprint(*a.Attempt))
		}
	}
	return strings.Join(list, " ")
}
