package schedule

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// The harnesses of this toolkit, by name.
const (
	harnessCodex     = "codex"
	harnessOpenHands = "openhands"
)

// oldHarnessNames are those of OpenSymphony's files.
var oldHarnessNames = map[string]string{
	"codex_app_server":       harnessCodex,
	"openhands_agent_server": harnessOpenHands,
}

// router decides which harness runs an issue, with which model, and says why. The
// issue's own word goes over the first rule that fits, which goes over the environment,
// which goes over the file. A harness
// that is neither one of ours nor has a command is an error that names it. What no rule
// changes is made once, for many issues.
type router struct {
	workflow.Routing
	base              wire.Route
	err               error  // of base
	harness, modelWhy string // why base has them; modelWhy is "" where it has none
}

func newRouter(r workflow.Routing) *router {
	t := &router{Routing: r, harness: "harness from " + source(r.HarnessSource)}
	t.base = wire.Route{
		Harness:      r.Harness,
		Model:        wire.Text(r.Model),
		ModelProfile: wire.Text(r.ModelProfile),
		Source:       wire.Text(source(r.HarnessSource)),
	}
	if r.Harness == "" {
		t.base.Harness = harnessCodex
	}
	if r.Model != "" {
		t.modelWhy = "model from " + source(r.ModelSource)
	}
	t.base.Reason = because(t.harness, t.modelWhy)
	t.err = t.known(&t.base)
	return t
}

func (t *router) route(issue *wire.Issue) (wire.Route, error) {
	rule := t.firstRule(issue)
	if rule == nil && issue.Route == nil {
		return t.base, t.err
	}
	route, harness, model := t.base, t.harness, t.modelWhy
	if rule != nil {
		name := ruleName(rule)
		if rule.Harness != "" {
			route.Harness, route.Source, harness = rule.Harness, "rule", "harness from "+name
		}
		if rule.Model != "" {
			route.Model, model = wire.Text(rule.Model), "model from "+name
		}
	}
	if own := issue.Route; own != nil {
		if own.Harness != "" {
			route.Harness, route.Source, harness = string(own.Harness), "issue", "harness from the issue"
		}
		if own.Model != "" {
			route.Model, model = own.Model, "model from the issue"
		}
		route.ModelProfile = cmp.Or(own.ModelProfile, route.ModelProfile)
		route.Effort = cmp.Or(own.Effort, route.Effort)
	}
	route.Reason = because(harness, model)
	return route, t.known(&route)
}

func because(harness, model string) wire.Text {
	if model == "" {
		return wire.Text(harness)
	}
	return wire.Text(harness + ", " + model)
}

func (t *router) firstRule(issue *wire.Issue) *workflow.Rule {
	for i, r := range t.Rules {
		label := r.Label == "" || slices.Contains(issue.Labels, fold(r.Label))
		state := r.State == "" || fold(r.State) == fold(issue.State)
		if label && state {
			return &t.Rules[i]
		}
	}
	return nil
}

func ruleName(r *workflow.Rule) string {
	var parts []string
	if r.Label != "" {
		parts = append(parts, fmt.Sprintf("label %q", r.Label))
	}
	if r.State != "" {
		parts = append(parts, fmt.Sprintf("state %q", r.State))
	}
	return "the rule for " + strings.Join(parts, " and ")
}

// source is the word for where a part of the route comes from; a default counts as
// the workflow's.
func source(s string) string {
	if s == "env" {
		return s
	}
	return "workflow"
}

// known brings an old name up to date and refuses one that nobody knows.
func (t *router) known(route *wire.Route) error {
	if _, ok := t.Commands[route.Harness]; ok {
		return nil
	}
	if now, ok := oldHarnessNames[route.Harness]; ok {
		route.Harness = now
	}
	if route.Harness == harnessCodex || route.Harness == harnessOpenHands {
		return nil
	}
	names := slices.AppendSeq([]string{harnessCodex, harnessOpenHands}, maps.Keys(t.Commands))
	slices.Sort(names)
	return fmt.Errorf("harness %q is not known (known: %s)", route.Harness, strings.Join(slices.Compact(names), ", "))
}
