package schedule_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// ends are all that a run can end with, category first for those that have one.
var ends = [][2]string{
	{wire.Succeeded}, {wire.Succeeded}, {wire.Stalled}, {wire.TimedOut}, {wire.InputRequired},
	{wire.BudgetExceeded}, {wire.RateLimited}, {wire.Interrupted},
	{wire.Cancelled, wire.CauseOperator}, {wire.Cancelled, wire.CauseShutdown},
	{wire.Failed, wire.CauseProvider}, {wire.Failed, wire.CausePeerDied}, {wire.Failed, wire.CauseAuth},
	{wire.Failed, wire.CauseUnavailable}, {wire.Failed, wire.CauseState}, {wire.Failed, wire.CauseBusy},
}

// waits are the ends that only say "later": nothing may be charged for them.
var waits = map[string]bool{
	wire.RateLimited: true, wire.CauseShutdown: true, wire.CauseAuth: true,
	wire.CauseUnavailable: true, wire.CauseBusy: true, wire.Interrupted: true,
}

var keys = []string{"A-1", "A-2", "B-3", "B-4", "C-5"}

// player makes random moves in a world and knows, independently of the scheduler,
// which attempt each run must carry.
type player struct {
	*world
	rt    *rapid.T
	next  map[string]int64 // attempt of the next run; 0 is null
	fresh map[string]bool  // the issue was ended since its last run, so null is right too
	seen  int              // starts that were checked
	said  int              // stops that were looked at
	stop  map[string]string
}

func newPlayer(rt *rapid.T, cfg schedule.Config) *player {
	p := &player{
		world: newWorld(rt, cfg), rt: rt,
		next: map[string]int64{}, fresh: map[string]bool{}, stop: map[string]string{},
	}
	for _, key := range keys {
		p.add(issue(key))
	}
	p.apply(schedule.Begin{})
	p.check()
	return p
}

// check looks at what was started and stopped since the last time.
func (p *player) check() {
	for _, a := range p.starts[p.seen:] {
		p.checkStart(a)
		delete(p.stop, a.Issue.Identifier)
	}
	p.seen = len(p.starts)
	for _, a := range p.stops[p.said:] {
		p.stop[a.IssueID[len("id-"):]] = a.Cause
	}
	p.said = len(p.stops)
}

func (p *player) checkStart(a schedule.Start) {
	key := a.Issue.Identifier
	if a.Issue.Category != wire.CategoryActive || !a.Issue.Dispatchable {
		p.rt.Fatalf("%s is started in state %q", key, a.Issue.State)
	}
	for _, b := range a.Issue.BlockedBy {
		if b.State != "Done" {
			p.rt.Fatalf("%s is started, blocked by %s", key, b.Identifier)
		}
	}
	got := int64(0)
	if a.Attempt != nil {
		got = *a.Attempt
	}
	if got != p.next[key] && (got != 0 || !p.fresh[key]) {
		p.rt.Fatalf("%s is started with attempt %d, want %d\nlog: %q", key, got, p.next[key], p.log)
	}
	p.next[key] = got
	// An answer under way can still bring the old news that it was ended.
	known := p.issues[a.Issue.ID]
	p.fresh[key] = p.fresh[key] && (len(p.pending) > 0 || known == nil || known.Category == wire.CategoryTerminal)
}

// finish ends a run and keeps the books.
func (p *player) finish(key string, o *wire.Outcome, print string) {
	cause := o.Outcome
	if o.Error != nil && o.Error.Category != "" {
		cause = o.Error.Category
	}
	stop := p.stop[key]
	cut := o.Outcome == wire.Cancelled || o.Outcome == wire.Interrupted
	if stop == schedule.StopOperator || stop == schedule.StopTracker || stop != "" && cut {
		cause = stop
	}
	if !waits[cause] {
		p.next[key]++
	}
	p.end(key, o, print)
}

func (p *player) living() []string {
	var list []string
	for _, key := range keys {
		if l := p.last["id-"+key]; l != nil && l.Alive {
			list = append(list, key)
		}
	}
	return list
}

// endSome draws a run and an end for it.
func (p *player) endSome() {
	living := p.living()
	if len(living) == 0 {
		return
	}
	key := rapid.SampledFrom(living).Draw(p.rt, "run")
	e := rapid.SampledFrom(ends).Draw(p.rt, "end")
	p.finish(key, outcome(e[0], e[1]), rapid.SampledFrom([]string{"", "x", "y"}).Draw(p.rt, "print"))
}

func (p *player) eventSome() {
	if living := p.living(); len(living) > 0 {
		key := rapid.SampledFrom(living).Draw(p.rt, "run")
		p.event(key, schedule.Launched, schedule.Opened)
		if rapid.Bool().Draw(p.rt, "progress") {
			p.event(key, schedule.Progress)
		}
	}
}

// moveSome makes a change in the tracker.
func (p *player) moveSome() {
	key := rapid.SampledFrom(keys).Draw(p.rt, "issue")
	if p.issues["id-"+key] == nil {
		p.add(issue(key))
	}
	switch change := rapid.SampledFrom([]string{"Todo", "In Progress", "Backlog", "Done", "block", "unblock", "edit"}).Draw(p.rt, "change"); change {
	case "block":
		p.change(key, blockedBy(rapid.SampledFrom(keys).Draw(p.rt, "blocker"), "Todo"))
	case "unblock":
		p.change(key, func(i *wire.Issue) { i.BlockedBy = nil })
	case "edit":
		p.change(key, func(i *wire.Issue) { i.Title += "." })
	default:
		p.move(key, change)
		p.fresh[key] = p.fresh[key] || change == "Done"
	}
}

func (p *player) commandSome() {
	kind := rapid.SampledFrom([]string{
		schedule.CommandRefresh, schedule.CommandStop, schedule.CommandRetry, schedule.CommandRelease,
	}).Draw(p.rt, "command")
	p.apply(schedule.Command{Kind: kind, Target: rapid.SampledFrom(keys).Draw(p.rt, "issue")})
}

func (p *player) passSome() {
	p.pass(time.Duration(rapid.IntRange(1, 600).Draw(p.rt, "decisec")) * 100 * time.Millisecond)
}

func (p *player) deliverSome() {
	if len(p.pending) > 0 {
		f := p.pending[0]
		p.pending = p.pending[1:]
		p.apply(f)
	}
}

func (p *player) troubleSome() {
	switch rapid.SampledFrom([]string{"down", "up", "slow", "fast", "gone", "pause", "resume"}).Draw(p.rt, "trouble") {
	case "down":
		p.down = &schedule.Failure{Category: "unavailable", Message: "refused"}
		if rapid.Bool().Draw(p.rt, "limit") {
			p.down = &schedule.Failure{Category: "rate_limited", RetryAt: wire.At(p.now.Add(time.Minute))}
		}
	case "up":
		p.down = nil
	case "slow":
		p.slow = true
	case "fast":
		p.hurry()
	case "gone":
		delete(p.issues, "id-"+rapid.SampledFrom(keys).Draw(p.rt, "issue"))
	case "pause":
		p.apply(schedule.Command{Kind: schedule.CommandPause})
	case "resume":
		p.apply(schedule.Command{Kind: schedule.CommandResume})
	}
}

// hurry delivers all that is outstanding, and answers at once from now on.
func (p *player) hurry() {
	p.slow = false
	for len(p.pending) > 0 {
		p.deliverSome()
	}
}

func smallConfig(rt *rapid.T) schedule.Config {
	cfg := schedule.Config{Workflow: flow(), Starts: rapid.IntRange(0, 2).Draw(rt, "starts")}
	cfg.Workflow.Agent.MaxConcurrent = rapid.IntRange(1, 4).Draw(rt, "slots")
	cfg.Workflow.Budget.RunsPerIssue = rapid.SampledFrom([]int{0, 3, 50}).Draw(rt, "runs")
	return cfg
}

// Whatever happens: never two runs of an issue, never over a limit, no start of what
// must not start, the right attempt on each. And once the trouble is over, every
// issue is done.
func TestPropertySafeAndLive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlayer(rt, smallConfig(rt))
		moves := []func(){
			p.passSome, p.passSome, p.endSome, p.endSome, p.eventSome, p.moveSome,
			p.commandSome, p.deliverSome, p.deliverSome, p.troubleSome, p.restart,
		}
		for range rapid.IntRange(5, 80).Draw(rt, "moves") {
			moves[rapid.IntRange(0, len(moves)-1).Draw(rt, "move")]()
			p.check()
		}
		p.calm()
	})
}

// calm ends the trouble, does the work of all runs, and wants all issues done.
func (p *player) calm() {
	p.down = nil
	p.hurry()
	p.apply(schedule.Command{Kind: schedule.CommandResume})
	for _, key := range keys {
		p.issues["id-"+key] = issue(key, func(i *wire.Issue) { i.UpdatedAt = wire.At(p.now.Add(time.Hour)) })
		p.fresh[key] = true
		p.apply(schedule.Command{Kind: schedule.CommandRelease, Target: key})
	}
	done := map[string]bool{}
	for range 200 {
		p.check()
		for _, key := range p.living() {
			p.event(key, schedule.Launched, schedule.Opened, schedule.Progress)
			p.move(key, "Done")
			p.fresh[key], done[key] = true, true
			p.finish(key, outcome(wire.Succeeded), "")
		}
		p.pass(30 * time.Second)
		if len(done) == len(keys) && len(p.living()) == 0 {
			return
		}
	}
	p.rt.Fatalf("done are only %v\nplan: %s\nlog: %q", slices.Sorted(maps.Keys(done)), p.codes(), p.log)
}

// A restart at any step equals none: of two worlds with the same moves, one is
// restarted again and again where the other one only polls. Both must start the same
// and remember the same.
func TestPropertyRestartEqualsNone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := smallConfig(rt)
		agent := &cfg.Workflow.Agent // a restart begins the clocks of a run anew
		agent.StallTimeout, agent.RunTimeout, agent.LaunchTimeout, agent.TerminalGrace = 0, 0, 0, time.Hour
		a := newPlayer(rt, cfg)
		b := newPlayer(rt, cfg)
		for range rapid.IntRange(5, 60).Draw(rt, "moves") {
			move := rapid.SampledFrom([]string{"pass", "pass", "end", "event", "move", "stop", "restart", "restart"}).Draw(rt, "move")
			twin(rt, a, b, move)
			compare(rt, a, b)
		}
	})
}

// twin makes the same move in both worlds: what a draws is told to b by replaying it.
func twin(rt *rapid.T, a, b *player, move string) {
	key := rapid.SampledFrom(keys).Draw(rt, "issue")
	d := time.Duration(rapid.IntRange(1, 600).Draw(rt, "decisec")) * 100 * time.Millisecond
	e := rapid.SampledFrom(ends).Draw(rt, "outcome")
	state := rapid.SampledFrom([]string{"Todo", "In Progress", "Backlog", "Done"}).Draw(rt, "state")
	for _, p := range []*player{a, b} {
		l := p.last["id-"+key]
		alive := l != nil && l.Alive
		switch {
		case move == "pass":
			p.pass(d)
		case move == "end" && alive:
			p.end(key, outcome(e[0], e[1]), "x")
		case move == "event" && alive:
			p.event(key, schedule.Launched, schedule.Opened, schedule.Progress)
		case move == "move":
			p.move(key, state)
		case move == "stop":
			p.apply(schedule.Command{Kind: schedule.CommandStop, Target: key})
		case move == "restart" && p == a:
			p.apply(schedule.Command{Kind: schedule.CommandRefresh})
		case move == "restart":
			p.restart()
		}
	}
}

func compare(rt *rapid.T, a, b *player) {
	if x, y := startsText(a), startsText(b); x != y {
		rt.Fatalf("without restarts:\n%s\nlog: %q\nwith restarts:\n%s\nlog: %q", x, a.log, y, b.log)
	}
	if !reflect.DeepEqual(a.records, b.records) {
		rt.Fatalf("records without restarts:\n%+v\nwith restarts:\n%+v", a.records, b.records)
	}
	if x, y := a.codes(), b.codes(); x != y {
		rt.Fatalf("plan without restarts:\n%s\nwith restarts:\n%s", x, y)
	}
}

func startsText(p *player) string {
	text := ""
	for i, a := range p.starts {
		text += fmt.Sprintf("%s %s resume=%v\n", a.Issue.Identifier, attempts(p.starts[i:i+1]), a.Resume)
	}
	return text
}

// Every run reaches an end: however far it came, there is a limit that stops it, and
// its end leads somewhere.
func TestPropertyEveryRunEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, smallConfig(rt))
		w.add(issue("A-1"))
		w.apply(schedule.Begin{})
		stages := []schedule.EventKind{schedule.Launched, schedule.Opened, schedule.Progress, schedule.Asking, schedule.Answered}
		w.event("A-1", stages[:rapid.IntRange(1, len(stages)).Draw(rt, "stages")]...)
		if rapid.Bool().Draw(rt, "restart") {
			w.restart()
		}
		w.pass(6*time.Hour + 2*time.Minute)
		w.lastStop()
		w.end("A-1", outcome(wire.Cancelled, wire.CauseShutdown))
		w.pass(10 * time.Minute)
		w.wantStarted("A-1 A-1")
	})
}
