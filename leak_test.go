package ostoolkit_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/proc"
)

const (
	leakSessions = 40 // OS_LEAK_SESSIONS asks for more
	leakLanes    = 2  // issues that are killed side by side, each in a world of its own
	leakLimit    = 30 * time.Second
)

// leakFiles are the world of one lane. The wrapper is what npm's is to Codex: the
// server is its child, and ends by itself only if its stdin does. What it starts
// besides is in a session of its own and outlives everybody.
var leakFiles = map[string]string{
	"WORKFLOW.md": `---
workspace: {root: root}
agent: {max_turns: 1}
---
Do it.
`,
	"wrapper.sh": `if [ "$LEAK_STRAY" ]; then
	setsid sleep 300 &
fi
live "$LEAK_TURN" "$LEAK_LAG" "$LEAK_THREADS"
exit $?
`,
	"issue.ndjson": `{"v":1,"type":"issue","id":"1","identifier":"L-1","title":"t","state":"Todo"}` + "\n",
}

// TestLeak kills sessions of os-codex at random moments, each in a random place, while
// requests come into its mailbox. However it goes, the next start leaves no process, no
// lock, no claim and no temp folder of it, ends each run once, and no text is lost or
// read twice. make leak runs more of it.
func TestLeak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found by /proc")
	}
	if testing.Short() {
		t.Skip("it takes a quarter of a minute")
	}
	sessions := leakSessions
	if text := os.Getenv("OS_LEAK_SESSIONS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("OS_LEAK_SESSIONS: %v", err)
		}
		sessions = n
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("OS_LEAK_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("OS_LEAK_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("OS_LEAK_SEED=%d", seed)
	var lanes sync.WaitGroup
	all := make([]*leak, leakLanes)
	for i := range all {
		l := newLeak(t, rand.New(rand.NewPCG(seed, uint64(i))))
		all[i] = l
		lanes.Go(func() { l.run((sessions + leakLanes - 1 - i) / leakLanes) })
	}
	lanes.Wait()
	for _, l := range all {
		l.verify()
	}
	logLeaks(t, all)
}

// leak is one issue whose sessions are killed.
type leak struct {
	t         *testing.T
	work, id  string
	env       []string
	rng       *rand.Rand
	mailbox   string
	usual     time.Duration            // what a session takes
	born      map[string]*proc.Process // every process that was seen below a supervisor
	sent      []leakRequest            // in order
	strikes   int
	told      []gjson.Result // outcomes that were printed
	killed    map[string]int // by target
	statuses  map[int]int    // of os-workspace
	outcomes  map[string]int // of all runs, as they lie on disk
	delivered map[string]int // replies, by state
}

func newLeak(t *testing.T, rng *rand.Rand) *leak {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &leak{
		t: t, work: work, rng: rng, born: map[string]*proc.Process{}, killed: map[string]int{}, statuses: map[int]int{},
		outcomes: map[string]int{}, delivered: map[string]int{},
	}
	l.id = fmt.Sprintf("%d-leak-%s", os.Getpid(), filepath.Base(work))
	for _, dir := range []string{"home", "threads"} {
		l.check(os.Mkdir(filepath.Join(work, dir), 0o700))
	}
	for name, text := range leakFiles {
		l.check(os.WriteFile(filepath.Join(work, name), []byte(text), 0o600))
	}
	l.env = proc.Environ(os.Environ(), func(name string) bool { return strings.HasPrefix(name, "OS_") }, map[string]string{
		"HOME": filepath.Join(work, "home"), "XDG_STATE_HOME": filepath.Join(work, "state"), "LEAK_THREADS": filepath.Join(work, "threads"),
		testIDVar: l.id,
	})
	return l
}

func (l *leak) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Error(err)
	}
}

// run makes one session that nobody harms, then those that are killed, and at last as
// many as it takes until one has ended well.
func (l *leak) run(sessions int) {
	from := time.Now()
	if status := l.session(leakPlan{turn: 300 * time.Millisecond}); status != 0 {
		l.t.Errorf("a session that nobody harmed ended with status %d", status)
		return
	}
	l.usual = time.Since(from)
	boxes, err := filepath.Glob(filepath.Join(l.work, "state/os/*/issues/L-1/mailbox"))
	if err != nil || len(boxes) != 1 {
		l.t.Errorf("mailboxes %q, %v", boxes, err)
		return
	}
	l.mailbox = boxes[0]
	for n := 0; n < sessions && !l.t.Failed(); {
		before := l.strikes
		l.session(l.plan())
		n += l.strikes - before // one that has ended before the strike does not count
	}
	last := leakPlan{turn: 50 * time.Millisecond}
	if !eventually(leakLimit, func() bool { return l.session(last) == 0 }) {
		l.t.Errorf("no session ended well within %v after the last kill: %v", leakLimit, l.statuses)
	}
}

// leakPlan is what is to happen in one session.
type leakPlan struct {
	turn   time.Duration
	lag    time.Duration // see peertest.LiveOptions
	stray  bool
	strike time.Duration // after the start; 0: never
}

// plan puts the strike anywhere before the usual end; where it finds a supervisor alone it
// is mostly put off, even beyond that.
func (l *leak) plan() leakPlan {
	return leakPlan{
		turn: l.upTo(400*time.Millisecond) + time.Millisecond, lag: l.upTo(20 * time.Millisecond), stray: l.rng.IntN(4) > 0,
		strike: l.upTo(l.usual*3/4) + 1,
	}
}

func (l *leak) upTo(d time.Duration) time.Duration { return time.Duration(l.rng.Int64N(int64(d))) }

// session runs os-workspace once and returns its exit status.
func (l *leak) session(p leakPlan) int {
	codex := []string{"os-codex", "--no-schema", "--command", "sh '" + filepath.Join(l.work, "wrapper.sh") + "'"}
	cmd := exec.Command("os-workspace", append([]string{"run", "--"}, codex...)...)
	stray := ""
	if p.stray {
		stray = "1"
	}
	cmd.Dir = l.work
	cmd.Env = append(slices.Clone(l.env), "LEAK_TURN="+p.turn.String(), "LEAK_LAG="+p.lag.String(), "LEAK_STRAY="+stray)
	cmd.Stdin = strings.NewReader(leakFiles["issue.ndjson"])
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.WaitDelay = leakLimit // or somebody who is left would keep us by its streams
	if err := cmd.Start(); err != nil {
		l.t.Error(err)
		return -1
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err := l.disturb(p, cmd.Process.Pid, ended)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		l.t.Error(err)
	}
	status := exitStatus(cmd.ProcessState)
	l.statuses[status]++
	switch status {
	case 0, 1, 14, 75, 128 + 9:
	default:
		l.t.Errorf("os-workspace ended with status %d\n%s%s", status, out.Bytes(), said.Bytes())
	}
	for line := range strings.Lines(out.String()) {
		l.told = append(l.told, gjson.Parse(line))
	}
	return status
}

// disturb drops requests into the mailbox until the session has ended, and kills once.
func (l *leak) disturb(p leakPlan, pid int, ended <-chan error) error {
	if p.strike == 0 {
		return l.await(pid, ended)
	}
	strike := time.NewTimer(p.strike)
	defer strike.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-strike.C:
			if l.strike(pid) {
				return l.await(pid, ended)
			}
			strike.Reset(l.upTo(l.usual / 4))
		case <-time.After(l.upTo(l.usual / 3)):
			l.drop()
		}
	}
}

// await waits for the end of a session that is left alone.
func (l *leak) await(pid int, ended <-chan error) error {
	over := time.NewTimer(leakLimit)
	defer over.Stop()
	select {
	case err := <-ended:
		return err
	case <-over.C:
		l.t.Errorf("the session did not end within %v: %s", leakLimit, list(leftovers(l.work, l.id, 0)))
		_ = syscall.Kill(pid, syscall.SIGKILL) // its parent waits for it, so that the pid is its own
		return <-ended
	}
}

// leakRequest is one that was dropped.
type leakRequest struct{ id, body string }

// leakRequests are what is dropped, texts most of all.
var leakRequests = []string{
	`{"text":"one"}`, `{"text":"two"}`, `{"text":"three"}`, `{"text":"four"}`, `{"text":"five"}`, `{"text":"six"}`,
	`{"text":"seven"}`, `{"text":"eight"}`, `{"text":"nine"}`, `{"text":"ten"}`, `{"text":"stay","keep":true}`,
	`{"kind":"queue","text":"and then"}`, `{"kind":"queue","text":"and at last"}`, `{"kind":"interrupt"}`, `{"kind":"stop"}`,
	`{"kind":"approve","request":"nothing"}`, `{"kind":"dance"}`, `{"text":"old","expires_at":"2020-01-01T00:00:00Z"}`,
}

func (l *leak) drop() {
	id := fmt.Sprintf("%05d", len(l.sent))
	temp := filepath.Join(l.mailbox, "."+id)
	body := leakRequests[l.rng.IntN(len(leakRequests))]
	l.check(os.WriteFile(temp, []byte(body+"\n"), 0o600))
	l.check(os.Rename(temp, filepath.Join(l.mailbox, id+".request.json")))
	l.sent = append(l.sent, leakRequest{id, body})
}

// leakRoles tell by its command line what a process of a session is.
var leakRoles = []struct {
	name string
	line *regexp.Regexp
}{
	{"supervisor", regexp.MustCompile(`^(\S*/)?os-workspace `)},
	{"os-codex", regexp.MustCompile(`^(\S*/)?os-codex `)},
	{"wrapper", regexp.MustCompile(`^(\S*/)?sh \S*wrapper\.sh`)},
	{"server", regexp.MustCompile(`^(\S*/)?live `)},
	{"stray", regexp.MustCompile(`^(\S*/)?sleep 300`)},
}

// strike kills one process, or some, or all, and reports whether it did: a supervisor
// alone is mostly let be, so that more of them come as far as a session.
func (l *leak) strike(pid int) bool {
	l.note(pid)
	there := map[string]process{}
	for _, p := range leftovers(l.work, l.id, 0) {
		for _, r := range leakRoles {
			if r.line.MatchString(p.command) {
				there[r.name] = p
			}
		}
	}
	victims := slices.Sorted(maps.Keys(there))
	if len(victims) == 0 || len(victims) == 1 && l.rng.IntN(4) > 0 {
		return false
	}
	victims = l.choose(victims)
	for _, name := range victims {
		there[name].kill()
	}
	slices.Sort(victims)
	l.killed[strings.Join(victims, "+")]++
	l.strikes++
	return true
}

// choose picks one of them, or some, or all but the stray, which nobody is left to end
// then: the next start has to find it.
func (l *leak) choose(names []string) []string {
	l.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	switch l.rng.IntN(4) {
	case 0:
		return names[:1+l.rng.IntN(len(names))]
	case 1:
		return slices.DeleteFunc(names, func(name string) bool { return name == "stray" && len(names) > 1 })
	}
	return names[:1]
}

// note keeps which processes stand below the supervisor.
func (l *leak) note(pid int) {
	for _, p := range descendants(pid) {
		l.born[fmt.Sprint(p.Pid, " ", p.Started)] = &p
	}
}

// descendants returns pid's process and all below it.
func descendants(pid int) []proc.Process {
	started, children := map[int]string{}, map[int][]int{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, file := range files {
		text, err := os.ReadFile(file)
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if err != nil || len(fields) < 20 {
			continue // it has ended meanwhile
		}
		id, err1 := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, err2 := strconv.Atoi(fields[1])
		if errors.Join(err1, err2) == nil {
			started[id], children[parent] = fields[19], append(children[parent], id)
		}
	}
	var found []proc.Process
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		found = append(found, proc.Process{Pid: todo[0], Started: started[todo[0]]})
		todo = append(todo, children[todo[0]]...)
	}
	return found
}

func logLeaks(t *testing.T, all []*leak) {
	killed, statuses, outcomes, delivered := map[string]int{}, map[int]int{}, map[string]int{}, map[string]int{}
	sent, born := 0, 0
	for _, l := range all {
		sum(killed, l.killed)
		sum(statuses, l.statuses)
		sum(outcomes, l.outcomes)
		sum(delivered, l.delivered)
		sent, born = sent+len(l.sent), born+len(l.born)
	}
	t.Logf("killed: %v", killed)
	t.Logf("exit statuses: %v", statuses)
	t.Logf("outcomes: %v", outcomes)
	t.Logf("%d requests, answered: %v", sent, delivered)
	t.Logf("%d processes were seen", born)
}

func sum[K comparable](to, from map[K]int) {
	for k, n := range from {
		to[k] += n
	}
}
