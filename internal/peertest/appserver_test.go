package peertest

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

// replay runs a transcript against the whole input and returns what the server did.
func replay(t *testing.T, script, input string, environ ...string) (stdout, stderr string, status int) {
	t.Helper()
	return replayFrom(t, script, strings.NewReader(input), environ...)
}

func replayFrom(t *testing.T, script string, input io.Reader, environ ...string) (stdout, stderr string, status int) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "transcript")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	env := &cli.Env{
		Args: []string{file}, Stdin: input, Stdout: &out, Stderr: &errs,
		Environ: append(environ, "OUT="+dir), Dir: dir, Now: time.Now, Rand: rand.Reader,
	}
	status = AppServerMain(env)
	return out.String(), errs.String(), status
}

func TestAppServerReplays(t *testing.T) {
	script := `# the least of a session
< {"method":"initialize","params":{"clientInfo":{"name":"*"}}}
> {"id":$ID,"result":{"userAgent":"x"}}

<? thread/start
> {"id":$ID,"result":{}}
`
	input := `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"os-codex","version":"1"},"more":[]}}
{"method":"initialized"}
{"id":"a","method":"thread/start"}
{"id":9,"result":{}}
`
	stdout, stderr, status := replay(t, script, input)
	want := `{"id":1,"result":{"userAgent":"x"}}` + "\n" + `{"id":"a","result":{}}` + "\n"
	if stdout != want || stderr != "" || status != 0 {
		t.Errorf("status %d, stdout %q, stderr %q; want 0, %q", status, stdout, stderr, want)
	}
}

func TestAppServerTellsMismatch(t *testing.T) {
	tests := []struct{ name, script, input, want string }{
		{"value", "< {\"id\":2}", "{\"id\":1}\n", `line 1: got {"id":1}, want {"id":2}`},
		{"missing member", "\n< {\"a\":{\"b\":1}}", "{\"a\":{}}\n", `line 2: got {"a":{}}, want`},
		{"not JSON", "< {\"id\":2}", "hello\n", "line 1: got hello, want"},
		{"end", "< {\"id\":2}", "", "line 1: got EOF, want"},
		{"end while skipping", "<? turn/start", "{\"method\":\"x\"}\n", "line 1: got EOF, want turn/start"},
		{"list length", "< {\"a\":[1]}", "{\"a\":[1,2]}\n", "line 1: got"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, stderr, status := replay(t, test.script, test.input)
			if status != 3 || !strings.Contains(stderr, test.want) {
				t.Errorf("status %d, stderr %q; want 3 and %q", status, stderr, test.want)
			}
		})
	}
}

func TestAppServerSends(t *testing.T) {
	tests := []struct{ name, script, want string }{
		{"raw", `>\x1b[?2004h{"a":"b"` + "\n" + `>}\n\u2028\xff`, "\x1b[?2004h{\"a\":\"b\"}\n\u2028\xff"},
		{"many", ">many 2 {\"d\":\"$N\"}", "{\"d\":\"0\"}\n{\"d\":\"1\"}\n"},
		{"no request yet", "> {\"id\":$ID}", "{\"id\":null}\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			stdout, stderr, status := replay(t, test.script, "")
			if stdout != test.want || status != 0 {
				t.Errorf("status %d, stdout %q, stderr %q; want %q", status, stdout, stderr, test.want)
			}
		})
	}
}

func TestAppServerBigAndNoise(t *testing.T) {
	stdout, stderr, status := replay(t, ">big 200000\nerr 70000", "")
	if status != 0 || len(stdout) != 200001 || strings.Count(stdout, "\n") != 1 {
		t.Errorf("status %d, a frame of %d bytes, want 200000 and LF", status, len(stdout))
	}
	if stderr != strings.Repeat("E", 70000) {
		t.Errorf("stderr has %d bytes, want 70000", len(stderr))
	}
}

func TestAppServerFiles(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	in, client := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(client, "{\"method\":\"a\"}\n{\"method\":\"b\"}\n")
		_ = client.Close()
	}()
	// The server makes the file that it then waits for: each half fails without the other.
	_, stderr, status := replayFrom(t, "<? a\nready $OUT/here\nwait here\nsleep 1ms\nexit 7", in, "APPSERVER_LOG="+log)
	_ = in.Close()
	<-done
	if status != 7 || stderr != "" {
		t.Errorf("status %d, stderr %q; want 7 and nothing", status, stderr)
	}
	got, err := os.ReadFile(log)
	if err != nil || string(got) != "{\"method\":\"a\"}\n" {
		t.Errorf("log %q, %v; want the one frame that was read", got, err)
	}
}

func TestAppServerEOF(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	script := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(script, []byte("> {}\neof\n<? bye"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, client := io.Pipe()
	status := make(chan int)
	go func() {
		status <- AppServerMain(&cli.Env{Args: []string{script}, Stdin: in, Stdout: w, Stderr: io.Discard})
	}()
	// The read ends although the server lives on and waits for a frame.
	if got, err := io.ReadAll(r); string(got) != "{}\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	_, _ = io.WriteString(client, "{\"method\":\"bye\"}\n")
	_ = client.Close()
	if got := <-status; got != 0 {
		t.Errorf("status %d, want 0", got)
	}
}

func TestAppServerChild(t *testing.T) {
	_, stderr, status := replay(t, "child : > \"$OUT/born\"\nwait $OUT/born", "")
	if status != 0 || stderr != "" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestParseTranscriptRejects(t *testing.T) {
	for _, line := range []string{
		"< {", "<?", ">", ">big x", ">many -1", "sleep long", "hang on", "exit now", "jump", `>\q`,
	} {
		if _, err := parseTranscript([]byte("# one\n" + line)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: error %v, want one that names line 2", line, err)
		}
	}
}
