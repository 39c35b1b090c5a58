package ostoolkit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

const (
	trialIssues  = 4
	trialWorkers = 3
	trialKills   = 40               // OS_CHAOS_KILLS asks for more
	trialPerKill = 2 * time.Second  // no more than this for each, or the trial hangs
	trialPause   = 200              // at most so many milliseconds between two strikes
	trialQuiet   = 10 * time.Second // what a last run may take until all is gone
)

// trialFiles are the parts of a run that is killed in every place: hooks that write down
// that they ran, a harness that holds the lock, and its agent in a session of its own,
// without the lock's descriptor, which tells when it is not alone in its folder.
var trialFiles = map[string]string{
	"WORKFLOW.md": `---
workspace: {root: root}
hooks:
  before_run: echo "$OS_RUN_ID" >> "$TRIAL/begun"; sleep 0.02
  after_run: echo "$OS_RUN_ID $OS_OUTCOME" >> "$TRIAL/ended"; sleep 0.02
  env: [TRIAL, OS_TEST_ID]
---
`,
	"harness.sh": `setsid sh "$TRIAL/agent.sh" 3>&- &
wait $!
`,
	"agent.sh": `exec 9>>agent.lock
if ! flock -n 9; then
	echo "$OS_RUN_ID" >> "$TRIAL/overlap"
	for p in /proc/[0-9]*; do
		if ls -l $p/fd 2> /dev/null | grep -q "$PWD/agent.lock"; then
			echo "$p $(tr '\0' ' ' < $p/cmdline) $(tr '\0' '\n' < $p/environ | grep OS_RUN_ID) $(grep State $p/status)" >> "$TRIAL/overlap"
		fi
	done
	exit 1
fi
sleep 0.$1$(($$ % 10))
`,
}

// trial is a board that is killed at random.
type trial struct {
	dir, id string
	environ []string

	mu     sync.Mutex
	kills  map[string]int
	starts int
	output bytes.Buffer // of all os-workspace
}

// TestKillTrial kills supervisors, harnesses, agents and hooks at random while several
// processes run the same few issues. However it goes, no issue has two agents at once,
// each run ends once, and one more run of each issue leaves nothing of it.
func TestKillTrial(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("no flock(1), by which the agents tell that they are alone")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found by /proc")
	}
	want := trialKills
	if text := os.Getenv("OS_CHAOS_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		want = n
	}
	tr := newTrial(t)
	tr.rage(t, want)
	for i := range trialIssues {
		if status := tr.workspace(t, i, "true"); status != 0 {
			t.Errorf("the last run of issue %d ended with status %d", i, status)
		}
	}
	left := leftovers(tr.dir, tr.id, trialQuiet)
	for _, p := range left {
		p.kill()
		t.Errorf("process %d is left: %s", p.pid, p.command)
	}
	if text, err := os.ReadFile(filepath.Join(tr.dir, "overlap")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("two agents in one folder: %s, %v", text, err)
	}
	runs := tr.checkState(t)
	ends := tr.checkEnds(t, runs)
	t.Logf("%v kills in %d starts, %d runs begun, %d of their ends seen, %d processes left", tr.kills, tr.starts, len(runs), ends, len(left))
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range trialFiles {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	id := fmt.Sprintf("%d-trial", os.Getpid())
	return &trial{dir: dir, id: id, kills: map[string]int{}, environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"TRIAL=" + dir, testIDVar + "=" + id,
	}}
}

// rage lets the workers run and kills what they start.
func (tr *trial) rage(t *testing.T, kills int) {
	done := make(chan struct{})
	var workers sync.WaitGroup
	for range trialWorkers {
		workers.Go(func() {
			for !isClosed(done) {
				switch status := tr.workspace(t, rand.IntN(trialIssues), "sh", filepath.Join(tr.dir, "harness.sh"), strconv.Itoa(rand.IntN(2))); status {
				case 0, 1, 75, 128 + 9:
				default:
					t.Errorf("os-workspace ended with status %d", status)
				}
			}
		})
	}
	deadline := time.NewTimer(time.Duration(kills) * trialPerKill)
	defer deadline.Stop()
	for n := 0; n < kills; {
		select {
		case <-time.After(time.Duration(rand.IntN(trialPause)) * time.Millisecond):
			n += tr.strike()
		case <-deadline.C:
			t.Errorf("only %d kills of %d", n, kills)
			n = kills
		}
	}
	close(done)
	workers.Wait()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// workspace runs os-workspace for one issue and returns its exit status.
func (tr *trial) workspace(t *testing.T, issue int, harness ...string) int {
	cmd := exec.Command("os-workspace", append([]string{"run", "--"}, harness...)...)
	cmd.Dir, cmd.Env = tr.dir, tr.environ
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"identifier":"T-%d","title":"t"}`+"\n", issue))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
		return -1
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.starts++
	tr.output.Write(out)
	status := exitStatus(cmd.ProcessState)
	if status == 73 {
		t.Errorf("%s%s", out, exit.Stderr)
	}
	return status
}

// roles tell by its command line what a process of the trial is.
var roles = []struct {
	name string
	line *regexp.Regexp
}{
	{"supervisor", regexp.MustCompile(`^os-workspace `)},
	{"harness", regexp.MustCompile(`^\S*sh \S*harness\.sh`)},
	{"agent", regexp.MustCompile(`^\S*sh \S*agent\.sh`)},
	{"hook", regexp.MustCompile(`^/bin/sh -c`)},
}

// strike kills one process, or a supervisor with its harness, and returns how many.
func (tr *trial) strike() int {
	victims := map[string][]process{}
	for _, p := range leftovers(tr.dir, tr.id, 0) {
		for _, r := range roles {
			if r.line.MatchString(p.command) {
				victims[r.name] = append(victims[r.name], p)
			}
		}
	}
	if len(victims["harness"]) > 0 && rand.IntN(4) == 0 { // of all issues, so that also both of one go together
		return tr.kill("supervisor", victims["supervisor"]) + tr.kill("harness", victims["harness"])
	}
	names := slices.Sorted(maps.Keys(victims))
	if len(names) == 0 || len(names) == 1 && rand.IntN(4) != 0 {
		return 0 // nothing has begun: most supervisors are to come so far that it matters
	}
	name := names[rand.IntN(len(names))]
	one := rand.IntN(len(victims[name]))
	return tr.kill(name, victims[name][one:one+1])
}

func (tr *trial) kill(role string, victims []process) (struck int) {
	for _, p := range victims {
		if syscall.Kill(p.pid, syscall.SIGKILL) == nil {
			tr.kills[role]++
			struck++
		}
	}
	return struck
}

// checkState reads all that lies on disk and returns the outcome of each run, "" of one
// that was killed before it was begun.
func (tr *trial) checkState(t *testing.T) map[string]string {
	temp := regexp.MustCompile(`^\..*\d$`)
	runs := map[string]string{}
	err := filepath.WalkDir(filepath.Join(tr.dir, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if temp.MatchString(d.Name()) {
			t.Errorf("a temp file is left: %s", path)
		}
		if d.IsDir() && filepath.Base(filepath.Dir(path)) == "runs" {
			runs[d.Name()] = ""
		}
		if filepath.Ext(path) != ".json" {
			return nil
		}
		text, err := os.ReadFile(path)
		if !json.Valid(text) || !bytes.HasSuffix(text, []byte("}\n")) {
			t.Errorf("%s is torn: %q, %v", path, text, err)
		}
		switch id := gjson.GetBytes(text, "run_id").String(); d.Name() {
		case "run.json":
			if status := gjson.GetBytes(text, "status").String(); status != "ended" {
				t.Errorf("run %s is %s", id, status)
			}
		case "outcome.json":
			if run := filepath.Base(filepath.Dir(path)); run != id {
				t.Errorf("the outcome of run %s lies at run %s", id, run)
			}
			runs[id] = gjson.GetBytes(text, "outcome").String()
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return runs
}

// checkEnds compares what was printed and what the hooks saw with the outcomes on disk:
// a run that was begun has exactly one, and no second one was ever told.
func (tr *trial) checkEnds(t *testing.T, runs map[string]string) (seen int) {
	for line := range strings.Lines(tr.output.String()) {
		id, outcome := gjson.Get(line, "run_id").String(), gjson.Get(line, "outcome").String()
		if runs[id] != outcome {
			t.Errorf("run %s was told as %q and is %q", id, outcome, runs[id])
		}
		seen++
	}
	hooks := func(name string) [][]string {
		text, err := os.ReadFile(filepath.Join(tr.dir, name))
		if err != nil {
			t.Error(err)
		}
		var all [][]string
		for line := range strings.Lines(string(text)) {
			all = append(all, strings.Fields(line))
		}
		return all
	}
	begun := map[string]int{}
	for _, f := range hooks("begun") {
		if begun[f[0]]++; begun[f[0]] > 1 || runs[f[0]] == "" {
			t.Errorf("run %s was begun %d times and ended as %q", f[0], begun[f[0]], runs[f[0]])
		}
	}
	for _, f := range hooks("ended") {
		if runs[f[0]] != f[1] {
			t.Errorf("after_run of run %s saw %q, and it is %q", f[0], f[1], runs[f[0]])
		}
	}
	return seen
}
