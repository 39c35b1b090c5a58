package ostoolkit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/peertest"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
)

// verify wants nothing left of a lane but its folder and its records.
func (l *leak) verify() {
	if l.mailbox == "" {
		return // it has not begun, and was told
	}
	dir := state.Dir(filepath.Dir(l.mailbox))
	l.verifyProcesses()
	l.verifyLock(dir)
	l.verifyFiles(dir)
	l.verifyOutcomes(dir)
	l.verifyTexts(dir)
	l.verifyList()
}

func (l *leak) verifyProcesses() {
	for _, p := range leftovers(l.work, l.id, leftoverWait) {
		l.t.Errorf("process %d is left: %s", p.pid, p.command)
		p.kill()
	}
	mark := []byte("\x00OS_STATE_DIR=" + filepath.Join(l.work, "state") + "/")
	environs, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is right
	for _, file := range environs {
		block, err := os.ReadFile(file)
		if err == nil && bytes.Contains(append([]byte{0}, block...), mark) {
			l.t.Errorf("%s bears the state folder", file)
		}
	}
	for _, p := range l.born {
		if proc.Alive(p.Pid, p.Started) {
			l.t.Errorf("process %d, which stood below a supervisor, is left", p.Pid)
		}
	}
}

func (l *leak) verifyLock(dir state.Dir) {
	lock, err := state.Acquire(l.t.Context(), dir.Lock())
	if err != nil {
		l.t.Errorf("the lock is held: %v", err)
		return
	}
	l.check(lock.Release())
}

// temp matches what a writer who was killed leaves of a file.
var temp = regexp.MustCompile(`^\.(tmp-|send-|taken-|.*\d$)`)

func (l *leak) verifyFiles(dir state.Dir) {
	l.check(filepath.WalkDir(filepath.Join(l.work, "state"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if temp.MatchString(d.Name()) {
			l.t.Errorf("a temp file is left: %s", path)
		}
		if filepath.Ext(path) != ".json" || strings.HasSuffix(path, ".request.json") {
			return nil
		}
		text, err := os.ReadFile(path)
		if !json.Valid(text) || !bytes.HasSuffix(text, []byte("}\n")) {
			l.t.Errorf("%s is torn: %q, %v", path, text, err)
		}
		return nil
	}))
	entries, err := os.ReadDir(l.mailbox)
	l.check(err)
	for _, e := range entries {
		if name := e.Name(); name != ".owner.json" && !strings.HasSuffix(name, ".request.json") {
			l.t.Errorf("%s is left in the mailbox", name)
		}
	}
}

// verifyOutcomes wants one outcome for each run that was begun, the same wherever it
// was told, and none of their temp folders.
func (l *leak) verifyOutcomes(dir state.Dir) {
	told := map[string]string{}
	for _, out := range l.told {
		id := out.Get("run_id").String()
		if out.Get("type").String() != "outcome" || told[id] != "" {
			l.t.Errorf("printed, after %q: %s", told[id], out.Raw)
		}
		told[id] = out.Get("outcome").String()
	}
	runs, err := os.ReadDir(dir.Runs())
	l.check(err)
	for _, e := range runs {
		id := e.Name()
		if _, err := os.Lstat(state.TempDir(id)); !errors.Is(err, fs.ErrNotExist) {
			l.t.Errorf("run %s has left its temp folder %s: %v", id, state.TempDir(id), err)
		}
		outcome := l.outcomeOf(dir.Run(id), id)
		if said, ok := told[id]; ok && said != outcome {
			l.t.Errorf("run %s was told as %q and is %q", id, said, outcome)
		}
		delete(told, id)
		l.outcomes[outcome]++
	}
	if len(told) > 0 {
		l.t.Errorf("outcomes of runs that are not there: %v", told)
	}
}

// outcomeOf returns the outcome of a run, or "unbegun" of one whose supervisor was
// killed before it had written down that there was one.
func (l *leak) outcomeOf(run state.RunDir, id string) string {
	log, err := os.ReadFile(run.Events())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.t.Error(err)
	}
	var logged []string
	for line := range strings.Lines(string(log)) {
		if gjson.Get(line, "type").String() == "outcome" && gjson.Valid(line) {
			logged = append(logged, gjson.Get(line, "outcome").String())
		}
	}
	text, err := os.ReadFile(run.Outcome())
	if errors.Is(err, fs.ErrNotExist) && log == nil {
		return "unbegun"
	}
	l.check(err)
	outcome := gjson.GetBytes(text, "outcome").String()
	if outcome == "" || gjson.GetBytes(text, "run_id").String() != id {
		l.t.Errorf("run %s has the outcome %q", id, text)
	}
	if len(logged) > 1 || len(logged) == 1 && logged[0] != outcome {
		l.t.Errorf("run %s logged %q and is %q", id, logged, outcome)
	}
	return outcome
}

// verifyTexts wants every request answered or still in the box, and every text read as
// often as its answer says.
func (l *leak) verifyTexts(dir state.Dir) {
	threads := filepath.Join(l.work, "threads")
	if text, err := os.ReadFile(filepath.Join(threads, peertest.LiveOverlap)); err == nil {
		l.t.Errorf("two servers had thread %s", text)
	}
	read := map[string]int{}
	for _, text := range contents(filepath.Join(threads, "*.thread")) {
		for line := range strings.Lines(string(text)) {
			_, id, _ := strings.Cut(strings.TrimSpace(line), "/") // TURN RUN/ID
			if read[id]++; read[id] > 1 {
				l.t.Errorf("text %s was read %d times", id, read[id])
			}
		}
	}
	for _, r := range l.sent {
		state := l.stateOf(dir, r.id)
		if consumed := state == "consumed"; consumed != (read[r.id] == 1) {
			l.t.Errorf("request %s, %s, is %s, and was read %d times", r.id, r.body, state, read[r.id])
		}
		if speaks := gjson.Get(r.body, "text").Exists(); speaks && (state == "accepted" || state == "unconfirmed") {
			l.t.Errorf("text %s, %s, is %s for ever", r.id, r.body, state)
		}
		l.delivered[state]++
	}
}

// stateOf returns what became of a request, "waiting" of one that is still in the box.
func (l *leak) stateOf(dir state.Dir, id string) string {
	replies := contents(filepath.Join(dir.Runs(), "*", "mailbox", id+".reply.json"))
	switch {
	case len(replies) == 1:
		return gjson.GetBytes(replies[0], "state").String()
	case len(replies) == 0 && exists(filepath.Join(l.mailbox, id+".request.json")):
		return "waiting"
	}
	l.t.Errorf("request %s has the answers %q", id, replies)
	return "lost"
}

// verifyList wants os-workspace to show the issue at rest.
func (l *leak) verifyList() {
	cmd := exec.Command("os-workspace", "list")
	cmd.Dir, cmd.Env = l.work, l.env
	out, err := cmd.Output()
	if err != nil || gjson.GetBytes(out, "run.status").String() != "ended" || gjson.GetBytes(out, "locked").Bool() {
		l.t.Errorf("os-workspace list: %s, %v", out, err)
	}
}
