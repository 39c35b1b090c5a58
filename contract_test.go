package ostoolkit_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/peertest"
)

// contractHarness is a program that keeps the contract of a harness. Its folder below
// testdata/contract holds the program, harness, which the scripts find on PATH, and
// agents/NAME: the same behaviour NAME for every harness, in the language of what
// stands in for the agent.
type contractHarness struct {
	name   string
	offers []string // of what only some harnesses have; conditions of the scripts
	// agent makes the peer behave as a file says. "" stands for a peer that is not there.
	agent func(ts *testscript.TestScript, file string)
}

// What a harness may offer besides the outcome record, the exit status and an end on
// SIGTERM, which is all that a script owes.
var contractOffers = []string{
	"flags",    // the shared flags, a PROMPT, runs without a supervisor
	"mailbox",  // steering and approvals
	"agentenv", // an agent that the harness starts, with an environment of its making
	"resume",   // a conversation that outlives the run
}

var contractHarnesses = []contractHarness{
	{name: "codex", offers: contractOffers, agent: codexAgent},
	{name: "openhands", offers: []string{"flags", "mailbox", "resume"}, agent: openHandsAgent},
	{name: "shell", offers: []string{"agentenv"}, agent: shellAgent},
}

// TestContract runs the same scripts against every harness. They do not know which one
// it is.
func TestContract(t *testing.T) {
	for _, h := range contractHarnesses {
		t.Run(h.name, func(t *testing.T) { testscript.Run(t, h.params()) })
	}
}

func (h contractHarness) params() testscript.Params {
	p := scriptParams(filepath.Join("testdata", "scripts", "contract"))
	p.UpdateScripts = false // three harnesses would write into one file
	p.Setup = h.setup
	p.Condition = func(name string) (bool, error) {
		if slices.Contains(contractOffers, name) {
			return slices.Contains(h.offers, name), nil
		}
		return condition(name)
	}
	p.Cmds = maps.Clone(scriptCommands)
	p.Cmds["agent"] = h.cmdAgent
	return p
}

func (h contractHarness) dir() (string, error) {
	return filepath.Abs(filepath.Join("testdata", "contract", h.name))
}

func (h contractHarness) setup(env *testscript.Env) error {
	if err := setup(env); err != nil {
		return err
	}
	dir, err := h.dir()
	if err != nil {
		return err
	}
	// Also so that go test hears of a change in it: only what the test itself looks at
	// counts for its cache.
	if _, err := os.Stat(filepath.Join(dir, "harness")); err != nil {
		return err
	}
	env.Setenv("PATH", dir+string(filepath.ListSeparator)+env.Getenv("PATH"))
	return nil
}

// agent NAME: make the peer of the harness behave in a named way from now on;
// testdata/contract/README lists them. "agent never-starts" takes the peer away.
func (h contractHarness) cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: agent name")
	}
	if args[0] == "never-starts" {
		h.agent(ts, "")
		return
	}
	dir, err := h.dir()
	ts.Check(err)
	file := filepath.Join(dir, "agents", args[0])
	if _, err := os.Stat(file); err != nil {
		ts.Fatalf("no agent of %s behaves so: %v", h.name, err)
	}
	h.agent(ts, file)
}

// codexAgent puts the beginning that all transcripts have before the one of file.
func codexAgent(ts *testscript.TestScript, file string) {
	if file == "" {
		ts.Setenv("AGENT", "no-such-agent")
		return
	}
	hello, err := os.ReadFile(filepath.Join(filepath.Dir(file), "..", "hello"))
	ts.Check(err)
	transcript, err := os.ReadFile(file)
	ts.Check(err)
	path := ts.MkAbs(filepath.Base(file) + ".agent")
	ts.Check(os.WriteFile(path, slices.Concat(hello, transcript), 0o600))
	ts.Setenv("AGENT", "appserver '"+path+"'")
}

// openHandsAgent serves until the script's end, or until the next agent.
func openHandsAgent(ts *testscript.TestScript, file string) {
	if file == "" {
		ts.Setenv("OPENHANDS_KEY", openHandsKey)
		address, err := freePort()
		ts.Check(err)
		ts.Setenv("OPENHANDS_URL", "http://"+address)
		return
	}
	script, err := os.ReadFile(file)
	ts.Check(err)
	o := peertest.OpenHandsOptions{Script: repeated(string(script)), Key: openHandsKey, Dir: ts.MkAbs("."), Now: time.Now}
	serveOpenHands(ts, o, ts.MkAbs(filepath.Base(file)+".log"))
}

// repeated replaces each line "xN TEXT" by N lines of TEXT.
func repeated(script string) string {
	return regexp.MustCompile(`(?m)^x\d+ .*\n`).ReplaceAllStringFunc(script, func(line string) string {
		count, text, _ := strings.Cut(line[1:], " ")
		n, _ := strconv.Atoi(count) // the expression lets nothing else through
		return strings.Repeat(text, n)
	})
}

func shellAgent(ts *testscript.TestScript, file string) {
	command := "no-such-agent"
	if file != "" {
		command = "sh " + file
	}
	ts.Setenv("AGENT", command)
}
