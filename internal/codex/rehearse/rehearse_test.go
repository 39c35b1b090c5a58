package rehearse

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"

	"ostoolkit/internal/cli"
)

// TestMain lets the test binary stand for os-codex, as which OS_TOOL calls it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "rehearse" {
		os.Exit(cli.Main("os-codex", cli.System(), func(ctx context.Context, env *cli.Env) error {
			return Run(ctx, env, env.Args[1:])
		}))
	}
	goleak.VerifyTestMain(m)
}

// client drives one server over pipes.
type client struct {
	t      *testing.T
	stdin  *io.PipeWriter
	out    *bufio.Reader
	outEnd *io.PipeReader
	cancel context.CancelFunc
	ended  chan error
	nextID int
	frames []string // all that came
}

// dial starts a server that keeps its threads in home.
func dial(t *testing.T, home, command string) *client {
	t.Helper()
	in, stdin := io.Pipe()
	out, stdout := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	c := &client{t: t, stdin: stdin, out: bufio.NewReader(out), outEnd: out, cancel: cancel, ended: make(chan error, 1)}
	clock := time.UnixMilli(1_800_000_000_000)
	env := &cli.Env{
		Stdin: in, Stdout: stdout, Stderr: t.Output(), Dir: t.TempDir(),
		Environ: append(os.Environ(), "CODEX_HOME="+home, "TMPDIR="+t.TempDir()),
		Now:     func() time.Time { return clock }, Rand: rand.Reader,
	}
	go func() {
		c.ended <- Run(ctx, env, []string{"--run", command})
		_ = stdout.Close()
		_ = in.Close()
	}()
	t.Cleanup(func() { c.close() })
	return c
}

// close ends the client's side and returns what Run returned.
func (c *client) close() error {
	_ = c.stdin.Close()
	_, _ = io.Copy(io.Discard, c.out)
	err := <-c.ended
	c.ended <- err
	c.cancel()
	return err
}

func (c *client) send(frame string) {
	c.t.Helper()
	if _, err := io.WriteString(c.stdin, frame+"\n"); err != nil {
		c.t.Fatalf("send %s: %v", frame, err)
	}
}

func (c *client) next() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("no more frames: %v; so far:\n%s", err, strings.Join(c.frames, ""))
	}
	c.frames = append(c.frames, line)
	return line
}

// until reads frames up to one with this method and returns it.
func (c *client) until(method string) string {
	c.t.Helper()
	for {
		if f := c.next(); gjson.Get(f, "method").String() == method {
			return f
		}
	}
}

// call sends a request and returns its answer.
func (c *client) call(method, params string) string {
	c.t.Helper()
	c.nextID++
	id, err := json.Marshal(c.nextID)
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(`{"id":` + string(id) + `,"method":"` + method + `","params":` + params + `}`)
	for {
		f := c.next()
		if gjson.Get(f, "id").Raw == string(id) && !gjson.Get(f, "method").Exists() {
			return f
		}
	}
}

// thread starts a session and returns the id of its thread.
func (c *client) thread(more string) string {
	c.t.Helper()
	c.call("initialize", `{"clientInfo":{"name":"test","version":"1"}}`)
	c.send(`{"method":"initialized"}`)
	return gjson.Get(c.call("thread/start", `{"sandbox":"workspace-write"`+more+`}`), "result.thread.id").String()
}

// turn starts a turn and returns its id.
func (c *client) turn(thread, text string) string {
	c.t.Helper()
	return gjson.Get(c.call("turn/start", `{"threadId":"`+thread+`","clientUserMessageId":"m1","input":[{"type":"text","text":"`+text+`"}]}`), "result.turn.id").String()
}

func check(t *testing.T, frame, path, want string) {
	t.Helper()
	if got := gjson.Get(frame, path).String(); got != want {
		t.Errorf("%s is %q, want %q in %s", path, got, want, frame)
	}
}

func methods(frames []string) []string {
	var names []string
	for _, f := range frames {
		name := gjson.Get(f, "method").String()
		if kind := gjson.Get(f, "params.item.type").String(); kind != "" {
			name += " " + kind
		}
		names = append(names, name)
	}
	return names
}

func TestRunCommandLine(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		status int
		text   string
	}{
		{"stray argument", "work", cli.StatusUsage, `unexpected argument "work"`},
		{"unknown flag", "--model x", cli.StatusUsage, "unknown flag: --model"},
		{"tool without a socket", "tool x", cli.StatusUsage, "--socket is missing"},
		{"tool without a name", "tool --socket /s", cli.StatusUsage, "needs a name"},
		{"tool with bad JSON", "tool --socket /s x {", cli.StatusUsage, `the arguments of "x" are not JSON`},
		{"tool without a rehearsal", "tool --socket /nowhere x", cli.StatusFailed, `call tool "x": dial unix /nowhere`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := Run(t.Context(), &cli.Env{}, strings.Fields(test.args))
			if cli.Status(err) != test.status || !strings.Contains(err.Error(), test.text) {
				t.Errorf("status %d, %v; want %d, %q", cli.Status(err), err, test.status, test.text)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for file, args := range map[string][]string{
		"testdata/help.txt":      {"--help"},
		"testdata/tool-help.txt": {"tool", "--help"},
	} {
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var help *cli.Output
		if err := Run(t.Context(), &cli.Env{}, args); !errors.As(err, &help) {
			t.Fatalf("%v: %v, want the help", args, err)
		}
		if help.Text != string(want) {
			t.Errorf("help differs from %s:\n%s", file, help.Text)
		}
	}
}

func TestThreadDir(t *testing.T) {
	root := t.TempDir()
	for _, test := range []struct{ environ, want string }{
		{"CODEX_HOME=" + root + "/c XDG_STATE_HOME=" + root + "/x HOME=" + root, "/c/rehearse"},
		{"XDG_STATE_HOME=" + root + "/x HOME=" + root, "/x/os-rehearse"},
		{"XDG_STATE_HOME=relative HOME=" + root, "/.local/state/os-rehearse"},
	} {
		got, err := threadDir(&cli.Env{Environ: strings.Fields(test.environ)})
		if info, statErr := os.Stat(root + test.want); err != nil || got != root+test.want || statErr != nil || !info.IsDir() {
			t.Errorf("%s: %q, %v, %v", test.environ, got, err, statErr)
		}
	}
}
