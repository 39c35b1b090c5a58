package session

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ostoolkit/internal/wire"
)

// The numbers of a run go on where an earlier session of it has stopped, whatever else
// its log holds.
func TestNumbersGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.ndjson")
	if got, err := lastSeq(path, "r1"); got != 0 || err != nil {
		t.Errorf("no log: %d, %v", got, err)
	}
	log := strings.Join([]string{
		`{"v":1,"type":"event","seq":1,"run_id":"r1","event":"warning"}`,
		`{"v":1,"type":"event","seq":2,"run_id":"r1","event":"warning"}`,
		`{"v":1,"type":"event","seq":9,"run_id":"r0","event":"warning"}`,
		`{"v":1,"type":"outcome","run_id":"r1","final_text":"an \"event\"","seq":7}`,
		`words`,
		`{"v":1,"type":"event","seq":3,"run_i`,
	}, "\n")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := lastSeq(path, "r1"); got != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", got, err)
	}
	if got, err := lastSeq(filepath.Dir(path), "r1"); err == nil {
		t.Errorf("a folder has the number %d", got)
	}
}

// A second session of a run gives its questions other ids than the first.
func TestQuestionsOfTwoSessionsDiffer(t *testing.T) {
	seen := map[string]bool{}
	p := testPlace(t)
	out := testOutput(p.Log)
	p.Log = nil // stdout is the log, as under a supervisor
	for range 2 {
		em, err := NewEmitter(p, out)
		if err != nil {
			t.Fatal(err)
		}
		in := &Inbox{place: p, em: em, asked: em.begun}
		em.Emit(wire.EventWarning, &wire.Notice{Message: "x"}, nil)
		for range 3 {
			id := in.NextAsk()
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
			em.Emit(wire.EventWarning, &wire.Notice{Message: "asked"}, nil)
		}
	}
}
