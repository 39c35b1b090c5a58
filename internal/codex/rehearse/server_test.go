package rehearse

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

func TestRefusals(t *testing.T) {
	const absent = "00000000-0000-4000-8000-000000000000"
	c := dial(t, t.TempDir(), `true`)
	check(t, c.call("thread/start", "{}"), "error.message", "Not initialized")
	c.send("this is no frame")
	thread := c.thread("")
	tests := []struct{ method, params, code, message string }{
		{"initialize", `{"clientInfo":{}}`, "-32600", "Already initialized"},
		{"thread/sing", `{}`, "-32600", "unknown variant `thread/sing`"},
		{"thread/start", `{"sandbox":"workspaceWrite"}`, "-32600", "unknown variant `workspaceWrite`, expected one of"},
		{"thread/start", `[]`, "-32600", "Invalid request"},
		{"thread/resume", `{}`, "-32600", "missing field `threadId`"},
		{"thread/resume", `{"threadId":"garbage"}`, "-32600", "invalid session id"},
		{"thread/resume", `{"threadId":"` + absent + `"}`, "-32600", "no rollout found for thread id " + absent},
		{"turn/start", `{"threadId":"garbage","input":[]}`, "-32600", "invalid thread id"},
		{"turn/start", `{"threadId":"` + absent + `","input":[]}`, "-32600", "thread not found"},
		{"turn/start", `{"threadId":"` + thread + `"}`, "-32600", "missing field `input`"},
		{"turn/start", `{"threadId":"` + thread + `","input":[{"type":"text","text":"` + strings.Repeat("x", maxText+1) + `"}]}`, "-32602", "too long"},
		{"turn/steer", `{"threadId":"` + thread + `","expectedTurnId":"x","input":[]}`, "-32600", "no active turn to steer"},
	}
	for _, test := range tests {
		f := c.call(test.method, test.params)
		check(t, f, "error.code", test.code)
		if got := gjson.Get(f, "error.message").String(); !strings.Contains(got, test.message) {
			t.Errorf("%s: %q, want %q", test.method, got, test.message)
		}
	}
}

func TestSandboxIsEchoed(t *testing.T) {
	c := dial(t, t.TempDir(), `true`)
	c.thread("")
	f := c.call("thread/start", `{"sandbox":"workspace-write","approvalPolicy":"on-request","model":"m",`+
		`"config":{"sandbox_workspace_write":{"writable_roots":["/a"],"exclude_slash_tmp":true}}}`)
	check(t, f, "result.sandbox", `{"type":"workspaceWrite","writableRoots":["/a"],"networkAccess":false,"excludeTmpdirEnvVar":false,"excludeSlashTmp":true}`)
	check(t, f, "result.approvalPolicy", "on-request")
	check(t, f, "result.model", "m")
}

func TestResumeInAnotherProcess(t *testing.T) {
	home := t.TempDir()
	first := dial(t, home, `echo answer`)
	thread := first.thread(`,"cwd":"/","dynamicTools":[{"name":"tracker"}]`)
	first.turn(thread, "one two")
	first.until("turn/completed")

	second := dial(t, home, `"$OS_TOOL" tracker`)
	second.thread("")
	resume := `{"threadId":"` + thread + `"}`
	check(t, second.call("thread/resume", resume), "error.message", "thread "+thread+" already has an active writer")
	if err := first.close(); err != nil {
		t.Fatalf("the first server ended with %v", err)
	}

	f := second.call("thread/resume", resume)
	check(t, f, "result.thread.id", thread)
	check(t, f, "result.cwd", "/")
	check(t, f, "result.thread.preview", "one two")
	check(t, f, "result.thread.turns.#", "1")
	check(t, f, "result.thread.turns.0.status", "completed")
	check(t, f, "result.thread.turns.0.items.#.type", `["userMessage","commandExecution","agentMessage"]`)
	check(t, f, "result.thread.turns.0.items.0.clientId", "m1")
	check(t, second.until("thread/tokenUsage/updated"), "params.tokenUsage.total.totalTokens", "3")
	check(t, second.call("thread/resume", `{"threadId":"`+thread+`","excludeTurns":true}`), "result.thread.turns", "[]")

	second.turn(thread, "three")
	second.until("item/tool/call")
	second.send(`{"id":0,"result":{"success":true,"contentItems":[{"type":"inputText","text":"ok"}]}}`)
	check(t, second.until("thread/tokenUsage/updated"), "params.tokenUsage.total.totalTokens", "5")
}

func TestTurnThatWasCutOffIsInterrupted(t *testing.T) {
	home := t.TempDir()
	first := dial(t, home, `echo up; sleep 1000`)
	thread := first.thread("")
	first.turn(thread, "x")
	first.until("item/commandExecution/outputDelta")
	if err := first.close(); err != nil {
		t.Fatalf("the first server ended with %v", err)
	}
	path := filepath.Join(home, "rehearse", thread+".jsonl")
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.WriteString(`{"type":"turn","turn":{"id"`); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}

	second := dial(t, home, `echo done`)
	second.thread("")
	f := second.call("thread/resume", `{"threadId":"`+thread+`"}`)
	check(t, f, "result.thread.turns.#.status", `["interrupted"]`)
	second.turn(thread, "again")
	check(t, second.until("turn/completed"), "params.turn.status", "completed")
	if err := second.close(); err != nil {
		t.Fatal(err)
	}

	third := dial(t, home, `true`)
	third.thread("")
	f = third.call("thread/resume", `{"threadId":"`+thread+`"}`)
	check(t, f, "result.thread.turns.#.status", `["interrupted","completed"]`)
}

// The command ends with its server, however that is told to end.
func TestEndOfServerEndsTheCommand(t *testing.T) {
	ends := map[string]func(*client){
		"stdin":  func(c *client) { _ = c.stdin.Close() },
		"signal": func(c *client) { c.cancel() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c := dial(t, t.TempDir(), `echo $$; exec sleep 1000`)
			c.turn(c.thread(""), "x")
			pid, err := strconv.Atoi(strings.TrimSpace(gjson.Get(c.until("item/commandExecution/outputDelta"), "params.delta").String()))
			if err != nil {
				t.Fatal(err)
			}
			end(c)
			if err := c.close(); err != nil {
				t.Errorf("Run returned %v, want nil", err)
			}
			if err := syscall.Kill(-pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the command is still there: %v", err)
			}
		})
	}
}

func TestClosedStdoutEndsTheServer(t *testing.T) {
	c := dial(t, t.TempDir(), `yes`)
	c.turn(c.thread(""), "x")
	c.until("item/commandExecution/outputDelta")
	_ = c.outEnd.Close()
	if err := <-c.ended; !errors.Is(err, errWrite) {
		t.Errorf("Run returned %v, want %v", err, errWrite)
	} else {
		c.ended <- err
	}
}
