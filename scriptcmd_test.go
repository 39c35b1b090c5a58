package ostoolkit_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/tidwall/gjson"

	"ostoolkit/internal/peertest"
)

// Limits of the commands that wait.
const (
	waitLimit    = 10 * time.Second
	waitInterval = 10 * time.Millisecond
	leftoverWait = 2 * time.Second
)

type scriptCommand = func(ts *testscript.TestScript, neg bool, args []string)

// scriptCommands are what scripts have besides testscript's own commands;
// testdata/scripts/rig_commands.txtar shows most of them in use.
var scriptCommands = map[string]scriptCommand{
	"status":          cmdStatus,
	"ended":           cmdEnded,
	"signal":          cmdSignal,
	"waitfile":        cmdWaitFile,
	"waitline":        cmdWaitLine,
	"noprocs":         cmdNoProcs,
	"jsonq":           cmdJSONQ,
	"jsonenv":         cmdJSONEnv,
	"records":         cmdRecords,
	"expand":          cmdExpand,
	"codexmodel":      cmdCodexModel,
	"openhandsserver": cmdOpenHandsServer,
	"openhandspeer":   cmdOpenHandsPeer,
	"lineartracker":   cmdLinearTracker,
	"githubtracker":   cmdGitHubTracker,
}

// status N CMD ARG…: exec that wants exactly the exit status N, 128+n for a
// signal n.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N cmd [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %q: %v", args[1], err)
		}
		got = exitStatus(exit.ProcessState)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

func exitStatus(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}

// ended NAME N: wait until what `exec track NAME CMD… &` started has ended, with
// exactly the status N.
func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended name N")
	}
	file := ts.MkAbs(args[0] + ".status")
	if !eventually(waitLimit, func() bool { return exists(file) }) {
		ts.Fatalf("%s has not ended in %v", args[0], waitLimit)
	}
	if got := strings.TrimSpace(ts.ReadFile(file)); got != args[1] {
		ts.Fatalf("%s ended with status %s, want %s", args[0], got, args[1])
	}
}

var signals = map[string]syscall.Signal{
	"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP,
	"STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

// signal SIGNAL WHO: WHO is a file with a pid, or with a JSON object whose member
// pid is one; or a NAME of track, that is NAME.pid; or the program of the one
// background command that is meant.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal TERM|INT|KILL|HUP|STOP|CONT pidfile|name|program")
	}
	sig, ok := signals[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %q", args[0])
	}
	pid := background(ts, args[1])
	for _, file := range []string{args[1], args[1] + ".pid"} {
		if text, err := os.ReadFile(ts.MkAbs(file)); err == nil {
			pid = pidIn(ts, string(text))
		}
	}
	if pid <= 0 {
		ts.Fatalf("no process %q", args[1])
	}
	if err := syscall.Kill(pid, sig); err != nil {
		ts.Fatalf("signal %d: %v", pid, err)
	}
}

func pidIn(ts *testscript.TestScript, text string) int {
	if gjson.Valid(text) && gjson.Parse(text).IsObject() {
		text = gjson.Get(text, "pid").Raw
	}
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	ts.Check(err)
	return pid
}

// background returns the pid of the one running background command whose program
// has this name, or 0.
func background(ts *testscript.TestScript, name string) int {
	pid := 0
	for _, cmd := range ts.BackgroundCmds() {
		if filepath.Base(cmd.Path) != name || cmd.Process.Signal(syscall.Signal(0)) != nil {
			continue
		}
		if pid != 0 {
			ts.Fatalf("several background commands run %s", name)
		}
		pid = cmd.Process.Pid
	}
	return pid
}

// waitfile PATTERN…: wait until each pattern matches a file. With ! until none
// does.
func cmdWaitFile(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: [!] waitfile path...")
	}
	for _, pattern := range args {
		there := func() bool { return exists(ts.MkAbs(pattern)) }
		if !eventually(waitLimit, func() bool { return there() != neg }) {
			ts.Fatalf("%s: there is %t after %v", pattern, there(), waitLimit)
		}
	}
}

func exists(pattern string) bool {
	found, err := filepath.Glob(pattern)
	return err == nil && len(found) > 0
}

// waitline REGEXP PATTERN: wait until a line of a file matches.
func cmdWaitLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitline regexp path")
	}
	expr, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	pattern := ts.MkAbs(args[1])
	if !eventually(waitLimit, func() bool { return slices.ContainsFunc(contents(pattern), expr.Match) }) {
		ts.Fatalf("no line of %s matches %q after %v:\n%s", args[1], args[0], waitLimit, slices.Concat(contents(pattern)...))
	}
}

func contents(pattern string) [][]byte {
	found, _ := filepath.Glob(pattern) // a bad pattern matches nothing, and the wait says so
	var all [][]byte
	for _, file := range found {
		if text, err := os.ReadFile(file); err == nil {
			all = append(all, text)
		}
	}
	return all
}

// eventually asks until the answer is yes or the limit is over.
func eventually(limit time.Duration, yes func() bool) bool {
	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-over.C:
			return yes()
		}
	}
	return true
}

// noprocs: no process of this script is left, but for its own background commands and
// what belongs to its openhandsserver.
func cmdNoProcs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: noprocs")
	}
	own := openHandsProcesses(ts.Getenv(testIDVar))
	for _, cmd := range ts.BackgroundCmds() {
		own = append(own, cmd.Process.Pid)
	}
	left := leftovers(ts.Getenv("WORK"), ts.Getenv(testIDVar), leftoverWait, own...)
	if len(left) > 0 {
		ts.Fatalf("processes are left: %s", list(left))
	}
}

// records FILE…: the lines of each file are records as the schemas say.
func cmdRecords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: records file...")
	}
	for _, arg := range args {
		text := ts.ReadFile(arg)
		if text == "" {
			ts.Fatalf("%s is empty", arg)
		}
		if problems := checkLines(text); len(problems) > 0 {
			ts.Fatalf("%s: %s", arg, strings.Join(problems, "\n"))
		}
	}
}

// expand FILE…: put variables of the script into a file that came with it. Only
// ${NAME} counts, and only where NAME is set.
func cmdExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand file...")
	}
	variable := regexp.MustCompile(`\$\{\w+\}`)
	for _, arg := range args {
		text := variable.ReplaceAllStringFunc(ts.ReadFile(arg), func(ref string) string {
			if v := ts.Getenv(ref[2 : len(ref)-1]); v != "" {
				return v
			}
			return ref
		})
		ts.Check(os.WriteFile(ts.MkAbs(arg), []byte(text), 0o666))
	}
}

// codexmodel [SCRIPT]: serve a scripted model until the script's end. It sets
// MODEL_URL, MODEL_LOG (one JSON line a request) and CODEX_CMD, the command line of
// the real Codex with this model, fit for a shell, shlex and a YAML value.
func cmdCodexModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: codexmodel [script]")
	}
	serveModel(ts, args)
	ts.Setenv("CODEX_CMD", codexCommand(ts.Getenv("CODEX_BIN"), ts.Getenv("MODEL_URL")))
}

// serveModel serves a scripted model until the script's end, with the rules of the
// file args[0] if there is one, and sets MODEL_URL and MODEL_LOG.
func serveModel(ts *testscript.TestScript, args []string) {
	var o peertest.ModelOptions
	if len(args) == 1 {
		script, err := peertest.ParseScript(ts.ReadFile(args[0]))
		ts.Check(err)
		o.Script = script
	}
	logFile := ts.MkAbs("model.ndjson")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	o.Log = log
	model, err := peertest.StartModel(o)
	ts.Check(err)
	ts.Defer(func() {
		if err := errors.Join(model.Close(), log.Close()); err != nil {
			ts.Logf("end the model: %v", err)
		}
	})
	ts.Setenv("MODEL_URL", model.URL())
	ts.Setenv("MODEL_LOG", logFile)
}

func codexCommand(bin, url string) string {
	return fmt.Sprintf(`%s app-server -c 'model="scripted"' -c 'model_provider="lab"' -c 'model_providers.lab={name="lab",`+
		`base_url="%s",wire_api="responses",request_max_retries=1,stream_max_retries=1}'`, bin, url)
}
