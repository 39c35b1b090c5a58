package schedule

import "fmt"

// usage counts what the runs under way, and those that a dispatch has decided on,
// take up.
type usage struct {
	runs, starting int
	byState        map[string]int
	byBackend      map[string]int
	unproven       map[string]int // runs of a backend whose agent has done nothing yet
}

func (s *Scheduler) usage() usage {
	u := usage{byState: map[string]int{}, byBackend: map[string]int{}, unproven: map[string]int{}}
	for _, c := range s.claims {
		switch {
		case c.run == nil:
		case c.issue == nil: // adopted, and not read yet
			u.take("", c.run)
		default:
			u.take(c.issue.State, c.run)
		}
	}
	return u
}

func (u *usage) take(state string, r *run) {
	u.runs++
	u.byState[fold(state)]++
	u.byBackend[r.route.Harness]++
	if !r.opened {
		u.starting++
	}
	if !r.progressed {
		u.unproven[r.route.Harness]++
	}
}

// full returns which limit leaves no slot, or "". The limit on starts comes last:
// it is over soonest.
func (u *usage) full(cfg *Config, state, backend string) (Code, string) {
	agent := &cfg.Workflow.Agent
	if u.runs >= agent.MaxConcurrent {
		return CodeSlots, "no slot"
	}
	if len(agent.MaxConcurrentByState) > 0 {
		name := fold(state)
		if limit, ok := agent.MaxConcurrentByState[name]; ok && u.byState[name] >= limit {
			return CodeStateSlots, fmt.Sprintf("no slot for state %q", state)
		}
	}
	if limit, ok := cfg.Backends[backend]; ok && u.byBackend[backend] >= limit {
		return CodeBackendSlots, fmt.Sprintf("no slot for %s", backend)
	}
	if cfg.Starts > 0 && u.starting >= cfg.Starts {
		return CodeStarts, fmt.Sprintf("%d runs are starting", u.starting)
	}
	return "", ""
}
