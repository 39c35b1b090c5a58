package ostoolkit_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ostoolkit/internal/proc"
)

// chaosSize is how much of it there is.
type chaosSize struct {
	issues, slots int
	kills         int           // 0: until the board is done
	agent         string        // how long one works, for sleep
	limit         time.Duration // of the whole
}

var (
	// chaosRound is what make test has time for. OS_CHAOS_KILLS asks for as many rounds
	// as it needs, and for the board.
	chaosRound = chaosSize{issues: 12, slots: 6, kills: 25, agent: "0.$((1 + r % 9))", limit: 90 * time.Second}
	// chaosBoard is killed at until it is done.
	chaosBoard = chaosSize{issues: 40, slots: 8, agent: "$((1 + r % 2)).$((r % 10))", limit: 15 * time.Minute}
)

// chaosWorkflow gives each issue a rehearsal agent that counts itself, and hooks that
// last long enough to be killed.
const chaosWorkflow = `---
workspace: {root: root}
polling: {interval_ms: 1000}
hooks: {before_run: sleep 0.05, after_run: sleep 0.05}
agent: {max_turns: 1, max_concurrent_agents: %d, max_retry_backoff_ms: 1}
budget: {runs_per_issue: 10000, no_progress_runs: 10000}
codex:
  command: os-codex rehearse --run 'sh "$(dirname "$OS_WORKFLOW")/agent.sh"'
---
{{ issue.identifier }}
`

// chaosAgent checks that it is alone and that its issue is not done already. What it
// finds wrong goes to the file wrong.
const chaosAgent = `
board=$(dirname "$OS_WORKFLOW")
key=$(basename "$PWD")
exec 9>> own.lock
if flock -n 9; then
	echo "$OS_RUN_ID" > own.run
else
	{
		echo "$key: two agents at once, in run $OS_RUN_ID and in $(cat own.run)"
		for p in /proc/[0-9]*; do
			if ls -l $p/fd 2> /dev/null | grep -q "$PWD/own.lock"; then
				echo "$p $(tr '\0' ' ' < $p/cmdline) $(tr '\0' '\n' < $p/environ | grep OS_RUN_ID)"
			fi
		done
	} >> "$board/wrong"
fi
! grep -q '^state: Done' "$board/issues/$key.md" || echo "$key: begun although it is done" >> "$board/wrong"
echo start >> starts
r=$(od -An -N1 -tu1 /dev/urandom)
sleep SLEEP
$OS_TOOL issue_update '{"state":"Done"}' > /dev/null && echo "$key" >> "$board/done"
`

// TestChaos kills whatever runs, over and over, and wants the board done as if nothing
// had happened. make chaos runs more rounds of it.
func TestChaos(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found by /proc")
	}
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	rounds := 1
	if text := os.Getenv("OS_CHAOS_KILLS"); text != "" {
		kills, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("OS_CHAOS_KILLS: %v", err)
		}
		rounds = max(1, (kills+chaosRound.kills-1)/chaosRound.kills)
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) { newChaos(t, chaosRound).round() })
	}
	if os.Getenv("OS_CHAOS_KILLS") != "" {
		t.Run("board", func(t *testing.T) { newChaos(t, chaosBoard).round() })
	}
}

// chaos is one board in a world of its own.
type chaos struct {
	chaosSize
	t    *testing.T
	work string
	id   string
	env  []string
	rng  *rand.Rand
}

func newChaos(t *testing.T, size chaosSize) *chaos {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{chaosSize: size, t: t, work: work, id: "chaos-" + filepath.Base(filepath.Dir(work)) + filepath.Base(work), rng: rand.New(rand.NewPCG(seed, 1))}
	c.env = proc.Environ(os.Environ(), func(name string) bool { return strings.HasPrefix(name, "OS_") }, map[string]string{
		"HOME": filepath.Join(work, "home"), "XDG_STATE_HOME": filepath.Join(work, "state"), "TMPDIR": filepath.Join(work, "tmp"), testIDVar: c.id,
	})
	for _, dir := range []string{"home", "tmp", "issues"} {
		c.check(os.Mkdir(filepath.Join(work, dir), 0o700))
	}
	c.write("WORKFLOW.md", fmt.Sprintf(chaosWorkflow, c.slots))
	c.write("agent.sh", strings.Replace(chaosAgent, "SLEEP", c.agent, 1))
	for i := range c.issues {
		c.write(fmt.Sprintf("issues/H-%d.md", i+1), "---\ntitle: Survive\nstate: Todo\n---\n")
	}
	return c
}

func (c *chaos) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) write(name, text string) {
	c.check(os.WriteFile(filepath.Join(c.work, name), []byte(text), 0o600))
}

func (c *chaos) round() {
	defer func() {
		for _, p := range leftovers(c.work, c.id, 0) {
			p.kill()
		}
	}()
	var killer sync.WaitGroup
	over := make(chan struct{})
	killer.Go(func() { c.kill(over) })
	done := c.loopUntilDone()
	close(over)
	killer.Wait()
	if !done {
		c.t.Fatalf("the board is not done after %v\n%s", c.limit, c.tail())
	}
	c.verify()
}

// loopUntilDone starts os-loop again whenever it was killed. It reports whether one
// ended by itself and well.
func (c *chaos) loopUntilDone() bool {
	deadline := time.Now().Add(c.limit)
	for time.Now().Before(deadline) {
		cmd := exec.Command("os-loop", "--until-idle", "--timeout", time.Until(deadline).String())
		cmd.Dir, cmd.Env = c.work, c.env
		var stderr strings.Builder
		cmd.Stderr = &stderr
		err := cmd.Run()
		switch {
		case err == nil:
			return true
		case cmd.ProcessState == nil:
			c.t.Fatal(err)
		case exitStatus(cmd.ProcessState) != 137:
			c.t.Fatalf("os-loop: %v\n%s\n%s", err, stderr.String(), c.tail())
		}
	}
	return false
}

// kill kills one process of the board after the other, then lets it be.
func (c *chaos) kill(over <-chan struct{}) {
	for n := 0; c.kills == 0 || n < c.kills; {
		timer := time.NewTimer(time.Duration(20+c.rng.IntN(280)) * time.Millisecond)
		select {
		case <-over:
			timer.Stop()
			return
		case <-timer.C:
		}
		all := leftovers(c.work, c.id, 0)
		// os-loop alone, with all issues in their back-off, is seldom worth a kill.
		switch {
		case len(all) > 1 && c.rng.IntN(6) == 0:
			n += c.killAbove(all)
		case len(all) > 1 || len(all) == 1 && c.rng.IntN(8) == 0:
			p := all[c.rng.IntN(len(all))]
			c.t.Logf("kill %d %.60s", p.pid, p.command)
			p.kill()
			n++
		}
	}
}

// killAbove kills everything above the agents at once: who keeps them going, and who
// would settle what becomes of them.
func (c *chaos) killAbove(all []process) (killed int) {
	for _, p := range all {
		name, rest, _ := strings.Cut(p.command, " ")
		switch filepath.Base(name) {
		case "os-loop", "os-workspace", "os-codex":
			if !strings.HasPrefix(rest, "rehearse") {
				p.kill()
				killed++
			}
		}
	}
	c.t.Logf("kill all %d above the agents", killed)
	return killed
}

func (c *chaos) verify() {
	if wrong, err := os.ReadFile(filepath.Join(c.work, "wrong")); err == nil {
		c.t.Errorf("agents found:\n%s", wrong)
	}
	for i := range c.issues {
		key := fmt.Sprintf("H-%d", i+1)
		card, err := os.ReadFile(filepath.Join(c.work, "issues", key+".md"))
		c.check(err)
		if strings.Count(string(card), "state: Done\n") != 1 {
			c.t.Errorf("%s is not done:\n%s", key, card)
		}
	}
	done, _ := os.ReadFile(filepath.Join(c.work, "done")) // an agent may have been killed before it wrote
	for key, n := range counts(strings.Fields(string(done))) {
		if n > 1 {
			c.t.Errorf("%s was done %d times", key, n)
		}
	}
	if left := leftovers(c.work, c.id, leftoverWait); len(left) > 0 {
		c.t.Errorf("processes are left: %s", list(left))
	}
	c.verifyFiles()
	c.verifyOutcomes()
	if c.t.Failed() {
		c.t.Log(c.tail())
	}
}

func counts(words []string) map[string]int {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	return n
}

// verifyFiles wants every state file whole, and no temp file of a dead process in the
// folders of runs that were begun.
func (c *chaos) verifyFiles() {
	c.check(filepath.WalkDir(filepath.Join(c.work, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil && !json.Valid(text) {
			c.t.Errorf("%s is damaged: %q", path, text)
		}
		return err
	}))
}

// verifyOutcomes wants one outcome a run in os-loop's log, and one for each run that
// was ended.
func (c *chaos) verifyOutcomes() {
	logs, err := filepath.Glob(filepath.Join(c.work, "state/os/*/loop/events.ndjson"))
	c.check(err)
	var told []string
	for _, log := range logs {
		text, err := os.ReadFile(log)
		c.check(err)
		for line := range strings.Lines(string(text)) {
			var rec struct {
				Type  string `json:"type"`
				RunID string `json:"run_id"`
			}
			// os-loop may die in the middle of a line; the next one ends it.
			if json.Unmarshal([]byte(line), &rec) == nil && rec.Type == "outcome" {
				told = append(told, rec.RunID)
			}
		}
	}
	n := counts(told)
	for run, times := range n {
		if times != 1 {
			c.t.Errorf("run %s has %d outcomes", run, times)
		}
	}
	ended, err := filepath.Glob(filepath.Join(c.work, "state/os/*/issues/*/runs/*/outcome.json"))
	c.check(err)
	for _, path := range ended {
		if run := filepath.Base(filepath.Dir(path)); n[run] == 0 {
			c.t.Errorf("the outcome of run %s was told to nobody", run)
		}
	}
}

// tail is the end of what os-loop printed.
func (c *chaos) tail() string {
	logs, _ := filepath.Glob(filepath.Join(c.work, "state/os/*/loop/events.ndjson"))
	var b strings.Builder
	for _, log := range logs {
		text, _ := os.ReadFile(log) // for the message only
		lines := strings.Split(string(text), "\n")
		b.WriteString(strings.Join(lines[max(0, len(lines)-400):], "\n"))
	}
	return b.String()
}
