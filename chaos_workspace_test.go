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
	trialIssues   = 8
	trialWorkers  = 4
	trialRounds   = 60               // of all workers; OS_CHAOS_ROUNDS asks for more
	trialPerRound = 2 * time.Second  // no more than this for each, or the trial hangs
	trialPerKill  = 5                // a kill for so many rounds, or it was no trial
	trialPause    = 150              // at most so many milliseconds between two strikes
	trialQuiet    = 10 * time.Second // what a last run may take until all is gone
)

// trialFiles are the parts of a run that is killed in every place: hooks that write down
// that they ran, a harness that holds the lock, and its agent in a session of its own,
// without the lock's descriptor, which tells when it is not alone in its folder.
var trialFiles = map[string]string{
	"WORKFLOW.md": `---
workspace: {root: root}
hooks:
  after_create: sh "$TRIAL/create.sh"
  before_run: echo "$OS_RUN_ID" >> "$TRIAL/begun"; sleep 0.02
  after_run: echo "$OS_RUN_ID $OS_OUTCOME" >> "$TRIAL/ended"; sleep 0.02
  before_remove: sleep 0.02
  env: [TRIAL, OS_TEST_ID]
---
`,
	// It must not run where its success is on disk. The link leads out of the root, to what
	// no removal may touch.
	"create.sh": `grep -q '"after_create_done_at":null' "$OS_STATE_DIR/issue.json" || echo "$OS_KEY" >> "$TRIAL/twice"
ln -sfn "$TRIAL/victim" out
sleep 0.02
echo "$OS_KEY" >> "$TRIAL/created"
`,
	"victim/kept": "as it was\n",
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
	acts   map[string]int // by verb and exit status
	output bytes.Buffer   // of all os-workspace
}

// TestKillTrial kills supervisors, harnesses, agents and hooks at random while several
// processes run, ensure, begin, end and remove the same few issues. However it goes, no
// issue has two agents at once, each run ends once, no after_create runs where one has
// succeeded, nothing outside the root is touched, and one more run of each issue leaves
// nothing of it.
func TestKillTrial(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("no flock(1), by which the agents tell that they are alone")
	}
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("processes are found by /proc")
	}
	rounds := trialRounds
	if text := os.Getenv("OS_CHAOS_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	tr := newTrial(t)
	tr.rage(t, rounds)
	for i := range trialIssues {
		if _, status := tr.workspace(t, issueLine(i), "run", "--", "true"); status != 0 {
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
	tr.checkOutside(t)
	runs := tr.checkState(t)
	ends := tr.checkEnds(t, runs)
	t.Logf("%v kills in %d rounds: %v; %d runs begun, %d of their ends seen, %d processes left", tr.kills, rounds, tr.acts, len(runs), ends, len(left))
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range trialFiles {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	id := fmt.Sprintf("%d-trial", os.Getpid())
	return &trial{dir: dir, id: id, kills: map[string]int{}, acts: map[string]int{}, environ: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"TRIAL=" + dir, testIDVar + "=" + id,
	}}
}

// rage lets the workers have their rounds and kills what they start.
func (tr *trial) rage(t *testing.T, rounds int) {
	tickets := make(chan struct{}, rounds)
	for range rounds {
		tickets <- struct{}{}
	}
	close(tickets)
	var workers sync.WaitGroup
	for range trialWorkers {
		workers.Go(func() {
			for range tickets {
				tr.act(t, rand.IntN(trialIssues))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		workers.Wait()
	}()
	deadline := time.NewTimer(time.Duration(rounds) * trialPerRound)
	defer deadline.Stop()
	kills := 0
	for !isClosed(done) {
		select {
		case <-done:
		case <-time.After(time.Duration(rand.IntN(trialPause)) * time.Millisecond):
			kills += tr.strike()
		case <-deadline.C:
			t.Fatalf("%d rounds are not over after %v", rounds, time.Duration(rounds)*trialPerRound)
		}
	}
	if kills < rounds/trialPerKill {
		t.Errorf("only %d kills in %d rounds", kills, rounds)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func issueLine(issue int) string {
	return fmt.Sprintf(`{"identifier":"T-%d","title":"t"}`+"\n", issue)
}

// act is one round: a whole run, the same by its plumbing, or a removal.
func (tr *trial) act(t *testing.T, issue int) {
	switch rand.IntN(4) {
	case 0:
		tr.plumb(t, issueLine(issue))
	case 1:
		tr.workspace(t, "", "remove", "--force", fmt.Sprintf("T-%d", issue))
	default:
		tr.workspace(t, issueLine(issue), "run", "--", "sh", filepath.Join(tr.dir, "harness.sh"), strconv.Itoa(rand.IntN(2)))
	}
}

// plumb brings a run from ensure to end as far as nobody is killed or in the way.
func (tr *trial) plumb(t *testing.T, issue string) {
	ready, _ := tr.workspace(t, issue, "ensure")
	if ready == "" {
		return
	}
	begun, _ := tr.workspace(t, ready, "begin")
	if gjson.Get(begun, "type").String() != "workspace" {
		return
	}
	outcome, err := json.Marshal(map[string]any{
		"v": 1, "type": "outcome", "run_id": gjson.Get(begun, "run.id").String(), "outcome": "succeeded",
		"workspace": map[string]string{"key": gjson.Get(begun, "key").String()},
	})
	if err != nil {
		t.Error(err)
	}
	tr.workspace(t, string(outcome)+"\n", "end")
}

// fair are the exit statuses of each verb while others are at the same issues. begin and
// end find a workspace that was removed meanwhile.
var fair = map[string][]int{
	"run":    {0, 1, 75, 128 + 9},
	"ensure": {0, 1, 75, 128 + 9},
	"begin":  {0, 1, 73, 75, 128 + 9},
	"end":    {0, 73, 75, 128 + 9},
	"remove": {0, 66, 75, 128 + 9},
}

var removedMeanwhile = regexp.MustCompile(`no such workspace|is not ready, os-workspace ensure makes it so|was never begun`)

// workspace runs os-workspace and returns the last line of its output and its status.
func (tr *trial) workspace(t *testing.T, stdin, verb string, args ...string) (last string, status int) {
	cmd := exec.Command("os-workspace", append([]string{verb}, args...)...)
	cmd.Dir, cmd.Env = tr.dir, tr.environ
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Error(err)
		return "", -1
	}
	status = exitStatus(cmd.ProcessState)
	if !slices.Contains(fair[verb], status) || status == 73 && !removedMeanwhile.Match(errs.Bytes()) {
		t.Errorf("%s ended with status %d: %s%s", verb, status, out, errs.Bytes())
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.acts[fmt.Sprintf("%s %d", verb, status)]++
	for line := range strings.Lines(string(out)) {
		last = line
		if gjson.Get(line, "type").String() == "outcome" {
			tr.output.WriteString(line)
		}
	}
	return last, status
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

// checkOutside looks at what is not in the root, and at what the hooks have found wrong.
func (tr *trial) checkOutside(t *testing.T) {
	if text, err := os.ReadFile(filepath.Join(tr.dir, "twice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after_create ran where it had succeeded: %s, %v", text, err)
	}
	if text, err := os.ReadFile(filepath.Join(tr.dir, "victim", "kept")); err != nil || string(text) != trialFiles["victim/kept"] {
		t.Errorf("what lies outside the root is %q, %v", text, err)
	}
	known := []string{"begun", "created", "ended", "overlap", "root", "state", "twice", "victim"}
	entries, err := os.ReadDir(tr.dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if trialFiles[e.Name()] == "" && !slices.Contains(known, e.Name()) {
			t.Errorf("%s lies outside the root", e.Name())
		}
	}
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
