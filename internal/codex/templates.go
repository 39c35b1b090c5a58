package codex

import (
	"context"
	"encoding/json"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/session"
	"ostoolkit/internal/toolbox"
	"ostoolkit/internal/wire"
)

// Request is one of our requests.
type Request struct {
	Method string
	Params any // as JSON
}

// Templates returns a request of each method that we call, with every member that it
// can have, made by the code that makes those of a session.
func Templates() []Request {
	const id, turnID = "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"
	d := &driver{thread: id, cfg: Config{
		Goal:   "text",
		Config: session.Config{Place: session.Place{Workspace: &wire.Workspace{Path: "/workspace"}}},
		Thread: Thread{
			Model: "model", Effort: "medium", ApprovalPolicy: "never", Sandbox: sandboxWorkspaceWrite,
			WritableRoots: []string{"/root"},
			TurnPolicy: map[string]any{
				"type": "workspaceWrite", "writableRoots": []string{"/root"}, "networkAccess": false,
				"excludeSlashTmp": true, "excludeTmpdirEnvVar": true,
			},
		},
	}}
	start := d.startParams()
	start["dynamicTools"] = []any{toolSpec(toolbox.Spec{Name: "tool", Description: "text", InputSchema: json.RawMessage(`{"type":"object"}`)})}
	letter := &session.Letter{Request: mailbox.Request{Text: "text"}, ClientID: "run/request"}
	items := d.itemsParams()
	items["cursor"] = "cursor"
	return []Request{
		{methodInitialize, helloParams()},
		{methodThreadStart, start},
		{methodThreadResume, d.cfg.resumeParams(id)},
		{methodTurnStart, d.turnParams(session.Prompt{Text: "text", Letter: letter})},
		{methodTurnSteer, d.steerParams(letter, turnID)},
		{methodInterrupt, d.interruptParams(&turn{id: turnID})},
		{methodItemsList, items},
		{methodThreadRead, d.wholeParams()},
		{methodAccountRead, accountParams()},
		{methodGoalSet, d.goalSetParams(1)},
		{methodGoalGet, d.goalParams()},
	}
}

// checkSchema has the requests compared with the server's schema beside the session. It
// starts once the thread is open, so that it does not compete with the server's start.
func (d *driver) checkSchema() {
	if d.cfg.Schema == nil {
		return
	}
	version := string(d.agent.Version)
	d.Beside(func(ctx context.Context) {
		if problem := d.cfg.Schema(ctx, version); problem != "" {
			d.Post(func() { d.Warn("schema", problem) })
		}
	})
}
