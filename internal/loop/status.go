package loop

import (
	"os"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// View is what there is to see of a scheduler: its state, and what the files of its
// runs tell. It needs no scheduler that is alive.
type View struct {
	Alive   bool      `json:"alive"`
	StateAt wire.Time `json:"state_at"` // when the state was last known to be so
	*State
	Running []Seen `json:"running"` // in place of the State's own
}

// Seen is a run under way.
type Seen struct {
	schedule.Entry
	Glimpse
}

// Glimpse is what a run's own files tell of it. They are written by its supervisor
// and its harness, so that it stays true while no os-loop is there.
type Glimpse struct {
	StartedAt   wire.Time `json:"started_at"`
	Ended       wire.Text `json:"ended"` // the outcome of one that is over
	Session     wire.Text `json:"session"`
	Turn        *int64    `json:"turn"` // the number of the newest one
	LastEvent   wire.Text `json:"last_event"`
	LastMessage wire.Text `json:"last_message"`
	LastEventAt wire.Time `json:"last_event_at"`
	// Usage of this run until now; null where no late event tells it.
	Usage *wire.Usage `json:"usage"`

	limits limits
}

// limits is what a provider last said about its own.
type limits struct {
	At     wire.Time
	Limits []byte // JSON as the peer gave it; nil: nothing was said
}

// Look returns what there is to see on a state root. alive says whether a scheduler
// has it now. Its error is that of state.json, as of ReadState.
func Look(root state.Root, alive bool) (*View, error) {
	s, err := ReadState(root)
	if err != nil {
		return nil, err
	}
	c := Config{Root: root}
	v := &View{Alive: alive}
	if info, err := os.Stat(c.path(StateFile)); err == nil {
		v.StateAt = wire.At(info.ModTime())
	}
	v.fill(root, s)
	return v, nil
}

// fill adds to a state what the runs' files tell.
func (v *View) fill(root state.Root, s *State) {
	v.State = s
	v.Running = make([]Seen, 0, len(s.Snapshot.Running))
	for _, e := range s.Snapshot.Running {
		v.Running = append(v.Running, Seen{e, glimpse(root, e)})
	}
}

// find returns the entry of an issue by its identifier, in any case, or its id.
func (v *View) find(name string) (seen *Seen, waiting, parked *schedule.Entry) {
	for i := range v.Running {
		if v.Running[i].named(name) {
			return &v.Running[i], nil, nil
		}
	}
	return nil, among(v.Waiting, name), among(v.Parked, name)
}

func (s *Seen) named(name string) bool { return named(&s.Entry, name) }

func among(entries []schedule.Entry, name string) *schedule.Entry {
	for i := range entries {
		if named(&entries[i], name) {
			return &entries[i]
		}
	}
	return nil
}

// glimpse looks into the run of an entry.
func glimpse(root state.Root, e schedule.Entry) Glimpse {
	var g Glimpse
	key, err := state.Key(e.Identifier)
	if err != nil || e.RunID == "" {
		return g
	}
	dir := root.Issue(key)
	if m, err := readRun(dir); err == nil && m != nil && m.RunID == string(e.RunID) {
		g.StartedAt = m.StartedAt
		if m.Status == runEnded {
			g.Ended = wire.Text(m.Outcome)
		}
	}
	end := readEnd(dir.Run(string(e.RunID)).Events())
	g.take(end, string(e.RunID))
	return g
}
