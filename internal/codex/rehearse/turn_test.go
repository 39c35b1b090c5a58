package rehearse

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestTurnCompletes(t *testing.T) {
	c := dial(t, t.TempDir(), `cat >/dev/null; echo one; echo two words`)
	dir := t.TempDir()
	thread := c.thread(`,"cwd":"` + dir + `"`)
	c.until("thread/started")
	c.frames = nil
	c.turn(thread, "please do it")
	end := c.until("turn/completed")
	// The command's two writes may come as one delta or as two.
	got := slices.Compact(methods(c.frames))
	want := []string{
		"", "thread/status/changed", "turn/started",
		"item/started userMessage", "item/completed userMessage",
		"item/started commandExecution", "item/commandExecution/outputDelta", "item/completed commandExecution",
		"item/started agentMessage", "item/agentMessage/delta", "item/completed agentMessage",
		"thread/tokenUsage/updated", "thread/status/changed", "turn/completed",
	}
	if !slices.Equal(got, want) {
		t.Errorf("frames\n%q, want\n%q", got, want)
	}
	check(t, end, "params.turn.status", "completed")
	check(t, end, "params.turn.items.0.text", "two words")
	check(t, end, "params.turn.error", "")
	check(t, end, "emittedAtMs", "1800000000000")
	all := strings.Join(c.frames, "")
	check(t, all, `..#(params.item.status=="completed").params.item.aggregatedOutput`, "one\ntwo words\n")
	check(t, all, `..#(params.item.type=="userMessage").params.item.clientId`, "m1")
	usage := `..#(method=="thread/tokenUsage/updated").params.tokenUsage.`
	check(t, all, usage+"last.inputTokens", "3")
	check(t, all, usage+"last.outputTokens", "3")
	check(t, all, usage+"total.totalTokens", "6")
}

func TestTurnFails(t *testing.T) {
	tests := []struct{ name, command, cwd, message, exitCode string }{
		{"status", `echo out; echo 'no luck' >&2; exit 3`, "", "the command ended with exit status 3: no luck", "3"},
		{"signal", `kill -9 $$`, "", "the command ended with signal SIGKILL", "137"},
		{"no folder", `true`, `,"cwd":"/nowhere/at/all"`, "no such file or directory", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, t.TempDir(), test.command)
			c.turn(c.thread(test.cwd), "x")
			end := c.until("turn/completed")
			check(t, end, "params.turn.status", "failed")
			check(t, end, "params.turn.error.codexErrorInfo", "other")
			if got := gjson.Get(end, "params.turn.error.message").String(); !strings.Contains(got, test.message) {
				t.Errorf("message %q, want %q", got, test.message)
			}
			all := strings.Join(c.frames, "")
			check(t, all, `..#(method=="error").params.willRetry`, "false")
			check(t, all, `..#(params.status.type=="systemError").method`, "thread/status/changed")
			check(t, all, `..#(params.item.status=="failed").params.item.exitCode`, test.exitCode)
		})
	}
}

func TestTurnWithoutOutputHasAnAnswer(t *testing.T) {
	c := dial(t, t.TempDir(), `true`)
	c.turn(c.thread(""), "x")
	check(t, c.until("turn/completed"), "params.turn.items.0.text", silence)
}

func TestInterrupt(t *testing.T) {
	c := dial(t, t.TempDir(), `echo ready; sleep 1000`)
	thread := c.thread("")
	turn := c.turn(thread, "x")
	c.until("item/commandExecution/outputDelta")
	other := c.call("turn/interrupt", `{"threadId":"`+thread+`","turnId":"other"}`)
	check(t, other, "error.message", "expected active turn id `other` but found `"+turn+"`")
	params := `{"threadId":"` + thread + `","turnId":"` + turn + `"}`
	check(t, c.call("turn/interrupt", params), "result", "{}")
	end := c.until("turn/completed")
	check(t, end, "params.turn.status", "interrupted")
	check(t, end, "params.turn.items", "[]")
	check(t, c.call("turn/interrupt", params), "error.message", "no active turn to interrupt")
}

func TestSteer(t *testing.T) {
	c := dial(t, t.TempDir(), `until grep -q three "$OS_STEER_FILE"; do sleep 0.01; done; paste -sd, "$OS_STEER_FILE"`)
	thread := c.thread("")
	turn := c.turn(thread, "one")
	steer := func(expected, text string) string {
		return c.call("turn/steer", `{"threadId":"`+thread+`","expectedTurnId":"`+expected+`","clientUserMessageId":"m2","input":[{"type":"text","text":"`+text+`"}]}`)
	}
	check(t, steer("wrong", "x"), "error.code", "-32600")
	check(t, steer(turn, "two"), "result.turnId", turn)
	check(t, c.until("item/completed"), "params.item.clientId", "m2")
	// As measured: while a turn runs, turn/start steers it.
	if again := c.turn(thread, "three"); again != turn {
		t.Errorf("turn/start returned turn %q, want the running %q", again, turn)
	}
	check(t, c.until("turn/completed"), "params.turn.items.0.text", "two,three")
	check(t, steer(turn, "late"), "error.message", "no active turn to steer")
}

func TestToolCall(t *testing.T) {
	tests := []struct{ name, answer, text, status string }{
		{"success", `"result":{"success":true,"contentItems":[{"type":"inputText","text":"moved"}]}`, "moved 0", "completed"},
		{"failure", `"result":{"success":false,"contentItems":[{"type":"inputText","text":"no card"}]}`, "no card 1", "failed"},
		{"error", `"error":{"code":-32601,"message":"what?"}`, "what? 1", "failed"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, t.TempDir(), `out=$($OS_TOOL tracker '{"q":[1,"<&>"]}'); echo "$out $?"`)
			thread := c.thread(`,"dynamicTools":[{"name":"tracker","description":"d","inputSchema":{"type":"object"}}]`)
			c.turn(thread, "x")
			call := c.until("item/tool/call")
			check(t, call, "id", "0")
			check(t, call, "params.tool", "tracker")
			check(t, call, "params.arguments", `{"q":[1,"<&>"]}`)
			c.send(`{"id":0,` + test.answer + `}`)
			check(t, c.until("item/completed"), "params.item.status", test.status)
			check(t, c.until("turn/completed"), "params.turn.items.0.text", test.text)
		})
	}
}

func TestToolThatTheClientDoesNotHave(t *testing.T) {
	c := dial(t, t.TempDir(), `"$OS_TOOL" other; echo "$?"`)
	c.turn(c.thread(""), "x")
	check(t, c.until("item/completed"), "params.item.type", "userMessage")
	check(t, c.until("item/completed"), "params.item.aggregatedOutput", "the client has no tool \"other\"\n1\n")
	check(t, c.until("turn/completed"), "params.turn.items.0.text", "1")
}

func TestTurnEndsWithAnOpenToolCall(t *testing.T) {
	c := dial(t, t.TempDir(), `"$OS_TOOL" tracker & until [ -e asked ]; do sleep 0.01; done; echo over`)
	dir := t.TempDir()
	thread := c.thread(`,"cwd":"` + dir + `","dynamicTools":[{"name":"tracker"}]`)
	c.turn(thread, "x")
	c.until("item/tool/call")
	if err := os.WriteFile(filepath.Join(dir, "asked"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, c.until("turn/completed"), "params.turn.items.0.text", "over")
	// The late answer is for nobody, and harms nobody.
	c.send(`{"id":0,"result":{"success":true}}`)
	check(t, c.call("account/read", "{}"), "result.requiresOpenaiAuth", "false")
}

func TestDefaultCommand(t *testing.T) {
	c := dial(t, t.TempDir(), defaultCommand)
	dir := t.TempDir()
	c.turn(c.thread(`,"cwd":"`+dir+`"`), `first\nsecond`)
	check(t, c.until("turn/completed"), "params.turn.status", "completed")
	notes, err := os.ReadFile(filepath.Join(dir, "NOTES.md"))
	if err != nil || !strings.Contains(string(notes), "first\nsecond\n") {
		t.Errorf("NOTES.md is %q, %v", notes, err)
	}
}

func TestStream(t *testing.T) {
	tests := []struct {
		parts []string
		last  string
		words int64
	}{
		{nil, "", 0},
		{[]string{"a b\n", "c"}, "c", 3},
		{[]string{"on", "e word\n\n  \n"}, "one word", 2},
		{[]string{"x\ny", "", "\n"}, "y", 2},
		{[]string{"bad \xff\n"}, "bad \uFFFD", 2},
	}
	for _, test := range tests {
		var s stream
		for _, part := range test.parts {
			s.add([]byte(part))
		}
		if last := s.lastLine(); last != test.last || s.words != test.words {
			t.Errorf("%q: %q, %d words; want %q, %d", test.parts, last, s.words, test.last, test.words)
		}
	}
}

func TestWholeRunes(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "ab": 2, "é": 2, "a\xc3": 1, "\xe2\x82": 0, "€": 3, "\xf0\x9f\x98": 0, "a\xff": 2, "\x80\x80\x80\x80": 4,
	} {
		if got := wholeRunes([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
