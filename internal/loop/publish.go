package loop

import (
	"bytes"
	"sync/atomic"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// publishInterval keeps state.json from being written more than five times a second.
const publishInterval = 200 * time.Millisecond

// State is state.json: what the scheduler last knew, for people.
type State struct {
	PID       int       `json:"pid"`
	StartedAt wire.Time `json:"started_at"`
	Workflow  string    `json:"workflow"`
	Root      string    `json:"root"`   // the folder of the workspaces
	Listen    wire.Text `json:"listen"` // where the HTTP API is; null: nowhere
	Slots     int       `json:"slots"`  // how many runs there may be at once
	Totals    Totals    `json:"totals"`
	schedule.Snapshot
}

// publisher owns state.json.
type publisher struct {
	path    string
	changed bool
	last    []byte
	current atomic.Pointer[State] // for the HTTP API; nil: nothing was published yet
}

// publish writes state.json if it would say something else.
func (d *driver) publish() {
	p := &d.publisher
	if !p.changed || d.Schedule.Mode == schedule.PlanOnly {
		return
	}
	p.changed = false
	s := State{
		PID: d.PID, StartedAt: d.startedAt, Workflow: d.flow.Path, Root: d.flow.Workspace.Root, Listen: wire.Text(d.address()),
		Slots: d.flow.Agent.MaxConcurrent, Totals: d.totals, Snapshot: d.scheduler.Snapshot(d.Now()),
	}
	s.Running, s.Waiting, s.Parked = list(s.Running), list(s.Waiting), list(s.Parked)
	s.Skipped, s.Holds = list(s.Skipped), list(s.Holds)
	p.current.Store(&s)
	b, err := wire.Encode(s)
	if err != nil || bytes.Equal(b, p.last) {
		d.warnAbout("encode the state", err)
		return
	}
	p.last = b
	d.warnAbout("publish the state", state.WriteVolatile(p.path, s))
}

// list is l, or an empty list: a reader need not expect null.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// ReadState returns state.json of a state root.
func ReadState(root state.Root) (*State, error) {
	c := Config{Root: root}
	var s State
	return &s, state.ReadJSON(c.path(StateFile), &s)
}
