package toolbox

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const oneTool = `echo '{"name":"t","description":"d","inputSchema":{"type":"object"}}'`

// script writes a tool command ./tool into a new folder: what it does for list, and
// for call. It returns options for that folder.
func script(t *testing.T, list, call string) Options {
	t.Helper()
	dir := t.TempDir()
	writeTool(t, filepath.Join(dir, "tool"), list, call)
	return Options{Dir: dir, Env: []string{"PATH=" + os.Getenv("PATH"), "TOKEN=secret"}}
}

func writeTool(t *testing.T, path, list, call string) {
	t.Helper()
	text := "#!/bin/sh\ncase $1 in list)\n" + list + "\n;; call)\n" + call + "\n;; esac\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, o Options, commands ...string) *Box {
	t.Helper()
	if commands == nil {
		commands = []string{"./tool"}
	}
	b, err := Open(t.Context(), commands, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSpecs(t *testing.T) {
	o := script(t, oneTool+`; echo; echo '{"name":"bare"}'`, ":")
	writeTool(t, filepath.Join(o.Dir, "second tool"), oneTool+`; echo '{"name":"more","inputSchema":null}'`, "echo second")
	var warned []string
	o.Warn = func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }
	b := open(t, o, "./tool", `'./second tool'`)
	got, err := json.Marshal(b.Specs())
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"t","description":"d","inputSchema":{"type":"object"}},` +
		`{"name":"bare","description":"","inputSchema":{"type":"object"}},` +
		`{"name":"more","description":"","inputSchema":{"type":"object"}}]`
	if string(got) != want {
		t.Errorf("specs %s, want %s", got, want)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], `tool "t"`) {
		t.Errorf("warnings %q, want one about t", warned)
	}
	if r := b.Call(t.Context(), "more", nil); !r.Success || r.Text != "second" {
		t.Errorf("the second command's tool: %+v", r)
	}
}

func TestOpenErrors(t *testing.T) {
	tests := []struct{ name, list, command, want string }{
		{"exit status", "echo no board >&2; exit 4", "./tool", "ended with exit status 4: no board"},
		{"not JSON", "echo hello", "./tool", "line 1: not a tool"},
		{"no name", "echo '{}'", "./tool", "line 1: not a tool: member name is missing"},
		{"schema", `echo '{"name":"x","inputSchema":[]}'`, "./tool", `tool "x": member inputSchema is not an object`},
		{"missing", "", "./absent x", `list the tools of "./absent x": find program`},
		{"not on PATH", "", "os-no-such-tool", `find program "os-no-such-tool" in PATH`},
		{"quote", "", "./tool 'x", "split the command line"},
		{"empty", "", " ", "the command line is empty"},
		{"time", "exec sleep 1000", "./tool", "did not end within 50ms"},
		{"size", "yes", "./tool", "printed more than 1048576 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := script(t, test.list, ":")
			if test.name == "time" {
				o.ListTimeout = 50 * time.Millisecond
			}
			_, err := Open(t.Context(), []string{test.command}, o)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.command) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestCall(t *testing.T) {
	o := script(t, oneTool, `pwd; echo "$2 $OS_ISSUE_FILE $OS_WORKSPACE $TOKEN"; cat`)
	o.IssueFile, o.Workspace = "/i.json", "/w"
	r := open(t, o).Call(t.Context(), "t", json.RawMessage(` {"a": "<é>"} `))
	want := o.Dir + "\nt /i.json /w secret\n" + `{"a": "<é>"}`
	if !r.Success || r.Text != want {
		t.Errorf("got %+v, want %q", r, want)
	}
}

func TestCallText(t *testing.T) {
	for printf, want := range map[string]string{
		`a\n\n`: "a\n", `a\377\377b`: "a\uFFFDb", ``: "",
	} {
		r := open(t, script(t, oneTool, "printf '"+printf+"'")).Call(t.Context(), "t", nil)
		if !r.Success || r.Text != want {
			t.Errorf("%s: %+v, want %q", printf, r, want)
		}
	}
}

func TestCallFailures(t *testing.T) {
	tests := []struct{ name, call, tool, args, code, message, stderr, output string }{
		{"exit", "echo half; echo why >&2; exit 7", "t", "", "exit_status", "the tool ended with exit status 7", "why", "half"},
		{"signal", "kill -KILL $$", "t", "", "exit_status", "the tool ended with signal SIGKILL", "", ""},
		{"unknown", ":", "u", "", "unknown_tool", `there is no tool "u"`, "", ""},
		{"broken JSON", ":", "t", "{", "invalid_arguments", `the arguments of "t" are not a JSON object`, "", ""},
		{"a list", ":", "t", "[]", "invalid_arguments", `the arguments of "t" are not a JSON object`, "", ""},
		{"timeout", "echo slow >&2; sleep 1000", "t", "", "timeout", "the tool did not end within 100ms", "slow", ""},
		{"deaf", "trap '' TERM; echo slow >&2; while :; do sleep 0.05; done", "t", "", "timeout", "the tool did not end within 100ms", "slow", ""},
		{"size", "head -c 5000000 /dev/zero; sleep 1000", "t", "", "output_too_large", "the tool printed more than 1000 bytes", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := script(t, oneTool, test.call)
			b := open(t, o)
			b.limit = 1000
			if test.code == "timeout" {
				b.timeout = 100 * time.Millisecond
			}
			r := b.Call(t.Context(), test.tool, json.RawMessage(test.args))
			if r.Success {
				t.Fatalf("success: %q", r.Text)
			}
			for path, want := range map[string]string{
				"code": test.code, "message": test.message, "stderr": test.stderr, "output": test.output,
			} {
				if got := gjson.Get(r.Text, "error."+path).String(); got != want {
					t.Errorf("%s is %q, want %q in %s", path, got, want, r.Text)
				}
			}
		})
	}
}

func TestStderrIsBoundedAndWhole(t *testing.T) {
	o := script(t, oneTool, `i=0; while [ $i -lt 600 ]; do printf 'ééééééééé ' >&2; i=$((i+1)); done; echo end >&2; exit 1`)
	got := gjson.Get(open(t, o).Call(t.Context(), "t", nil).Text, "error.stderr").String()
	if len(got) > maxStderr+utf8.UTFMax || !utf8.ValidString(got) || !strings.HasSuffix(got, " end") {
		t.Errorf("%d bytes, valid %v, ending in %q", len(got), utf8.ValidString(got), got[max(0, len(got)-20):])
	}
}

func TestToolThatDoesNotReadItsArguments(t *testing.T) {
	args, err := json.Marshal(map[string]string{"a": strings.Repeat("x", 1<<20)})
	if err != nil {
		t.Fatal(err)
	}
	if r := open(t, script(t, oneTool, "echo ok")).Call(t.Context(), "t", args); !r.Success || r.Text != "ok" {
		t.Errorf("got %+v", r)
	}
}

func TestCancel(t *testing.T) {
	o := script(t, oneTool, `echo $$ > ready; exec sleep 1000`)
	b := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	fifo := filepath.Join(o.Dir, "ready")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	pid := make(chan int, 1)
	go func() {
		text, _ := os.ReadFile(fifo)
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		pid <- n
		cancel()
	}()
	r := b.Call(ctx, "t", nil)
	if code := gjson.Get(r.Text, "error.code").String(); code != "cancelled" {
		t.Errorf("got %+v, want cancelled", r)
	}
	if n := <-pid; n <= 1 || syscall.Kill(n, 0) != syscall.ESRCH {
		t.Errorf("the tool with pid %d is still there", n)
	}
}

// What a tool leaves behind holds its streams; the call ends all the same.
func TestLeftoverDoesNotHoldTheCall(t *testing.T) {
	for name, leave := range map[string]string{
		"in its group": "sleep 1000 &", "in a session of its own": "setsid sleep 5 &",
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(leave, "setsid") {
				if _, err := os.Stat("/usr/bin/setsid"); err != nil {
					t.Skip("no setsid")
				}
			}
			start := time.Now()
			r := open(t, script(t, oneTool, leave+" echo done")).Call(t.Context(), "t", nil)
			if !r.Success || r.Text != "done" {
				t.Errorf("got %+v", r)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("the call took %v", took)
			}
		})
	}
}
