// Package ostoolkit_test runs the commands end to end, by the scripts under
// testdata/scripts, and checks what holds for the whole tree: the records against
// schema/*.json, and who may import whom.
package ostoolkit_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/command/codex"
	"ostoolkit/internal/command/loop"
	"ostoolkit/internal/command/openhands"
	"ostoolkit/internal/command/poll"
	"ostoolkit/internal/command/workspace"
	"ostoolkit/internal/peertest"
)

var update = flag.Bool("update", false, "write what cmp finds into the scripts")

// products are the five commands, by name.
var products = map[string]func(*cli.Env) int{
	"os-poll":      poll.Main,
	"os-workspace": workspace.Main,
	"os-codex":     codex.Main,
	"os-openhands": openhands.Main,
	"os-loop":      loop.Main,
}

func TestMain(m *testing.M) {
	programs := map[string]func(){
		"model":     program(peertest.ModelMain),
		"appserver": program(peertest.AppServerMain),
		"live":      program(peertest.LiveMain),
		"track":     program(trackMain),
	}
	for name, main := range products {
		programs[name] = recorded(name, main)
	}
	testscript.Main(suite{m}, programs)
}

// suite is all tests, and what they have shared.
type suite struct{ m *testing.M }

func (s suite) Run() int {
	code := s.m.Run()
	if err := sharedOpenHands.end(); err != nil {
		fmt.Fprintf(os.Stderr, "end the shared agent-server: %v\n", err)
		code = 1
	}
	return code
}

func program(main func(*cli.Env) int) func() {
	return func() { os.Exit(main(cli.System())) }
}

// recorded is program that also copies stdout to where the script's end checks it.
func recorded(name string, main func(*cli.Env) int) func() {
	return func() {
		env := cli.System()
		if err := record(name, env); err != nil {
			fmt.Fprintf(os.Stderr, "%s: record stdout for the test: %v\n", name, err)
			os.Exit(1)
		}
		os.Exit(main(env))
	}
}

func TestScripts(t *testing.T) {
	testscript.Run(t, scriptParams(filepath.Join("testdata", "scripts")))
}

func scriptParams(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		Setup:               setup,
		Condition:           condition,
		Cmds:                scriptCommands,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// Variables by which the processes of a script find their records, and the rig
// finds the processes.
const (
	testIDVar  = "OS_TEST_ID"
	recordsVar = "OS_TEST_RECORDS"
)

// setup gives a script a world of its own below $WORK: no home of a person, no
// agent installed elsewhere, no state of another script.
func setup(env *testscript.Env) error {
	work := env.WorkDir
	for name, dir := range map[string]string{
		"HOME":           "home",
		"XDG_STATE_HOME": "state",
		"XDG_CACHE_HOME": "cache",
		"CODEX_HOME":     "codex-home",
		recordsVar:       ".records",
	} {
		path := filepath.Join(work, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		env.Setenv(name, path)
	}
	id := fmt.Sprintf("%d-%s", os.Getpid(), filepath.Base(work))
	env.Setenv(testIDVar, id)
	examples, err := filepath.Abs("examples")
	if err != nil {
		return err
	}
	env.Setenv("EXAMPLES", examples)
	env.Setenv("TZ", "UTC")
	env.Setenv("LC_ALL", "C")
	path := []string{programDir(), "/usr/bin", "/bin"}
	if bin, err := peerCodex(); err == nil {
		env.Setenv("CODEX_BIN", bin)
		if node, err := exec.LookPath("node"); err == nil {
			path = append(path, filepath.Dir(node))
		}
	}
	if bin, err := peerOpenHands(); err == nil {
		env.Setenv("OPENHANDS_BIN", bin)
	}
	env.Setenv("PATH", strings.Join(path, string(filepath.ListSeparator)))
	env.Defer(func() { finish(env.T(), work, id) })
	return nil
}

// programDir is where testscript.Main has put the programs: first on PATH.
func programDir() string {
	dir, _, _ := strings.Cut(os.Getenv("PATH"), string(filepath.ListSeparator))
	return dir
}

// finish is the end of every script: whatever it printed were records, and nothing
// that it started is left.
func finish(t testscript.T, work, id string) {
	left := leftovers(work, id, leftoverWait)
	for _, p := range left {
		p.kill()
	}
	problems := checkRecords(filepath.Join(work, ".records"))
	if failed, ok := t.(interface{ Failed() bool }); ok && failed.Failed() {
		return // its background commands were not ended politely, and it has its cause
	}
	if len(left) > 0 {
		problems = append(problems, "processes are left: "+list(left))
	}
	if len(problems) > 0 {
		t.Fatal(strings.Join(problems, "\n"))
	}
}

// condition knows [codex] and [openhands]: the real one is there. With
// OS_REQUIRE_PEERS=1 its absence is an error and not a reason to skip.
func condition(name string) (bool, error) {
	find, ok := map[string]func() (string, error){"codex": peerCodex, "openhands": peerOpenHands}[name]
	if !ok {
		return false, fmt.Errorf("unknown condition")
	}
	_, err := find()
	if err != nil && os.Getenv("OS_REQUIRE_PEERS") == "1" {
		return false, err
	}
	return err == nil, nil
}

// peerCodex returns the absolute path of the real Codex.
func peerCodex() (string, error) {
	return peer("codex", "OS_PEER_CODEX", filepath.Join(".peers", "codex", "node_modules", ".bin", "codex"))
}

// peerOpenHands returns the absolute path of the real agent-server of OpenHands.
func peerOpenHands() (string, error) {
	return peer("openhands", "OS_PEER_OPENHANDS", filepath.Join(".peers", "openhands", "bin", "agent-server"))
}

// peer returns the absolute path of a program that make peers installs, or of the one
// that a variable names in its place.
func peer(name, variable, path string) (string, error) {
	if other := os.Getenv(variable); other != "" {
		path = other
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no %s, run make peers: %w", name, err)
	}
	return path, nil
}
