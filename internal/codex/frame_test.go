package codex

import (
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/wire"
)

// With opensymphony 8.5: an id counts as it is, a number or its decimal string.
func TestParseFrame(t *testing.T) {
	tests := []struct {
		line  string
		kind  string // request, answer, notification, stray, torn
		key   string
		where string // the method
	}{
		{`{"method":"m","params":{}}`, "notification", "", "m"},
		{`{"id":0,"method":"m"}`, "request", "0", "m"},
		{`{"id":"a","method":"m"}`, "request", "a", "m"},
		{`{"id":7,"result":{}}`, "answer", "7", ""},
		{`{"jsonrpc":"2.0","id":"7","result":{}}`, "answer", "7", ""},
		{`{"id":7,"method":"","result":{}}`, "answer", "7", ""},
		{"\x1b[?2004h\x1b]0;t\x07{\"id\":7,\"result\":{}}", "answer", "7", ""},
		{"  {\"id\":7,\"error\":null,\"result\":1}\r", "answer", "7", ""},
		{`{"id":null,"method":"m"}`, "notification", "", "m"},
		{`{}`, "stray", "", ""},
		{`welcome`, "stray", "", ""},
		{`[1]`, "stray", "", ""},
		{`{"id":7,`, "torn", "", ""},
	}
	for _, tt := range tests {
		f := parseFrame(wire.Line{Bytes: []byte(tt.line)})
		kind := "notification"
		switch {
		case f.torn:
			kind = "torn"
		case f.stray != "":
			kind = "stray"
		case f.isRequest():
			kind = "request"
		case f.isAnswer():
			kind = "answer"
		}
		if kind != tt.kind || f.key() != tt.key && f.id.Exists() || f.method != tt.where {
			t.Errorf("%q is a %s with id %q and method %q", tt.line, kind, f.key(), f.method)
		}
	}
	if f := parseFrame(wire.Line{Err: wire.ErrTooLong}); f.stray == "" || f.torn {
		t.Errorf("a line that is too long is %+v", f)
	}
}

func TestEndingOf(t *testing.T) {
	status := func(kind string, code string) string { return `{"` + kind + `":{"httpStatusCode":` + code + `}}` }
	tests := []struct{ info, outcome, category string }{
		{`"unauthorized"`, wire.Failed, wire.CauseAuth},
		{status("httpConnectionFailed", "401"), wire.Failed, wire.CauseAuth},
		{status("httpConnectionFailed", "403"), wire.Failed, wire.CausePermission},
		{`"usageLimitExceeded"`, wire.RateLimited, wire.RateLimited},
		{`"rateLimitExceeded"`, wire.RateLimited, wire.RateLimited},
		{status("responseTooManyFailedAttempts", "429"), wire.RateLimited, wire.RateLimited},
		{`"sessionBudgetExceeded"`, wire.BudgetExceeded, wire.BudgetExceeded},
		{`"contextWindowExceeded"`, wire.Failed, wire.CauseContextWindow},
		{`"sandboxError"`, wire.Failed, wire.CauseInternal},
		{`"internalServerError"`, wire.Failed, wire.CauseProvider},
		{status("responseStreamDisconnected", "null"), wire.Failed, wire.CauseProvider},
		{`"somethingNew"`, wire.Failed, wire.CauseProvider},
		{`{"somethingNew":5}`, wire.Failed, wire.CauseProvider},
		{`null`, wire.Failed, wire.CauseProvider},
	}
	for _, tt := range tests {
		end := endingOf(gjson.Parse(`{"message":"m","additionalDetails":"d","codexErrorInfo":` + tt.info + `}`))
		if end.Outcome != tt.outcome || end.Category != tt.category || end.Message != "m" || end.Detail != "d" {
			t.Errorf("%s is %+v, want %s, %s", tt.info, end, tt.outcome, tt.category)
		}
	}
	if end := endingOf(gjson.Result{}); end.Message == "" {
		t.Error("a failure without an error has no message")
	}
}

func TestResetAt(t *testing.T) {
	now := time.Unix(1000, 0)
	tests := []struct {
		limits string
		want   int64
	}{
		{`{"primary":{"usedPercent":100,"resetsAt":2000},"secondary":{"usedPercent":40,"resetsAt":9000}}`, 2000},
		{`{"primary":{"usedPercent":100,"resetsAt":2000},"secondary":{"usedPercent":100,"resetsAt":9000}}`, 9000},
		{`{"primary":{"usedPercent":100,"resetsAt":500}}`, 0},
		{`{"primary":{"usedPercent":100,"resetsAt":null}}`, 0},
		{`{"primary":null}`, 0},
		{``, 0},
	}
	for _, tt := range tests {
		got := resetAt(gjson.Parse(tt.limits), now)
		if tt.want == 0 && !got.IsZero() || tt.want != 0 && got.Unix() != tt.want {
			t.Errorf("%s resets at %v, want %d", tt.limits, got, tt.want)
		}
	}
}

func TestItems(t *testing.T) {
	c := command(gjson.Parse(`{"id":"i","command":"make","cwd":"/w","exitCode":2,"status":"failed","aggregatedOutput":"boom"}`))
	if c.Item != "i" || *c.ExitCode != 2 || c.Output != "boom" {
		t.Errorf("command %+v", c)
	}
	mcp := tool(gjson.Parse(`{"type":"mcpToolCall","id":"i","server":"s","tool":"t","status":"failed"}`))
	if mcp.Tool != "s.t" || mcp.Source != "mcp" || mcp.Success == nil || *mcp.Success {
		t.Errorf("mcp tool %+v", mcp)
	}
	running := tool(gjson.Parse(`{"type":"dynamicToolCall","id":"i","tool":"t","status":"inProgress","success":null}`))
	if running.Source != "host" || running.Success != nil {
		t.Errorf("running tool %+v", running)
	}
	plan := planText(gjson.Parse(`{"explanation":"why","plan":[{"step":"a","status":"completed"},{"step":"b","status":"inProgress"},{"step":"c","status":"pending"}]}`))
	if plan != "why\n[x] a\n[>] b\n[ ] c" {
		t.Errorf("plan %q", plan)
	}
	if got := reasoning(gjson.Parse(`{"summary":["a","b"],"content":["c"]}`)); got != "a\n\nb" {
		t.Errorf("reasoning %q", got)
	}
}
