package schedule_test

import (
	"testing"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

func routed(harness, model, effort wire.Text) func(*wire.Issue) {
	return func(i *wire.Issue) { i.Route = &wire.IssueRoute{Harness: harness, Model: model, Effort: effort} }
}

func TestRoute(t *testing.T) {
	rules := []workflow.Rule{
		{Label: "ui", State: "Rework", Harness: "openhands", Model: "m-rule"},
		{Label: "ui", Model: "m-ui"},
		{State: "in progress", Harness: "mine"},
	}
	mine := map[string]string{"mine": "./mine.sh"}
	tests := []struct {
		name    string
		issue   *wire.Issue
		routing workflow.Routing
		want    wire.Route
		err     string
	}{
		{
			"default", issue("A-1"), workflow.Routing{},
			wire.Route{Harness: "codex", Source: "workflow", Reason: "harness from workflow"}, "",
		},
		{
			"file", issue("A-1"), workflow.Routing{Harness: "openhands", Model: "m", ModelProfile: "p", HarnessSource: "workflow", ModelSource: "env"},
			wire.Route{Harness: "openhands", Model: "m", ModelProfile: "p", Source: "workflow", Reason: "harness from workflow, model from env"}, "",
		},
		{
			"environment", issue("A-1"), workflow.Routing{Harness: "openhands", HarnessSource: "env"},
			wire.Route{Harness: "openhands", Source: "env", Reason: "harness from env"}, "",
		},
		{
			"label and state", issue("A-1", labels("ui"), in("rework")), workflow.Routing{Harness: "codex", Model: "m", Rules: rules},
			wire.Route{Harness: "openhands", Model: "m-rule", Source: "rule", Reason: `harness from the rule for label "ui" and state "Rework", model from the rule for label "ui" and state "Rework"`}, "",
		},
		{
			"model alone", issue("A-1", labels("ui")), workflow.Routing{Harness: "codex", Rules: rules},
			wire.Route{Harness: "codex", Model: "m-ui", Source: "workflow", Reason: `harness from workflow, model from the rule for label "ui"`}, "",
		},
		{
			"state, a harness of one's own", issue("A-1", in("In Progress")), workflow.Routing{Rules: rules, Commands: mine},
			wire.Route{Harness: "mine", Source: "rule", Reason: `harness from the rule for state "in progress"`}, "",
		},
		{
			"the issue's own word", issue("A-1", labels("ui"), routed("mine", "m-own", "high")), workflow.Routing{Rules: rules, Commands: mine},
			wire.Route{Harness: "mine", Model: "m-own", Effort: "high", Source: "issue", Reason: "harness from the issue, model from the issue"}, "",
		},
		{
			"the issue's own unknown harness", issue("A-1", routed("claude", "", "")), workflow.Routing{},
			wire.Route{}, `harness "claude" is not known (known: codex, openhands)`,
		},
		{
			"old name", issue("A-1"), workflow.Routing{Harness: "openhands_agent_server"},
			wire.Route{Harness: "openhands", Source: "workflow", Reason: "harness from workflow"}, "",
		},
		{
			"unknown", issue("A-1"), workflow.Routing{Harness: "claude", Commands: mine},
			wire.Route{}, `harness "claude" is not known (known: codex, mine, openhands)`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := schedule.Route(tt.issue, tt.routing)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Fatalf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Fatalf("got %+v, %v, want %+v", got, err, tt.want)
			}
		})
	}
}

// unknown_scheduler_interrupt_harness_is_rejected…: before anything starts.
func TestUnknownHarnessStartsNothing(t *testing.T) {
	cfg := schedule.Config{Mode: schedule.Once, Workflow: flow()}
	cfg.Workflow.Routing.Rules = []workflow.Rule{{Label: "x", Harness: "claude"}}
	w := board(t, cfg, issue("A-1", labels("x")))
	w.wantStarted("")
	w.wantLog(`skipped A-1: harness "claude" is not known`, 1)
	w.wantExit(1)
}
